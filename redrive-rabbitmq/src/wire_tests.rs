use std::collections::BTreeSet;

use lapin::types::FieldArray;

use super::*;

fn nobodys(_: &str) -> bool {
    false
}

fn table(entries: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

fn names(properties: &BasicProperties) -> BTreeSet<String> {
    let headers = properties.headers().clone().unwrap_or_default();
    headers.inner().keys().map(|name| name.as_str().to_owned()).collect()
}

fn cc() -> AMQPValue {
    let keys: FieldArray = vec![AMQPValue::LongString("audit".into())].into();
    AMQPValue::FieldArray(keys)
}

#[test]
fn types_and_properties_come_back_after_any_number_of_hops() {
    let sent = BasicProperties::default()
        .with_headers(table(vec![
            ("n", AMQPValue::LongInt(5)),
            ("t", AMQPValue::LongString("text".into())),
            ("when", AMQPValue::Timestamp(1_700_000_000)),
        ]))
        .with_priority(3)
        .with_type("OrderPlaced".into())
        .with_reply_to("answers".into())
        .with_message_id("m-1".into())
        .with_content_type("text/plain".into())
        .with_delivery_mode(2);
    let mut properties = sent.clone();
    for _ in 0..3 {
        let read = read(&properties, b"x".to_vec(), None, &nobodys);
        assert_eq!(read.message.headers.get_text("n", 9).as_deref(), Some("5"));
        assert_eq!(read.message.headers.get_text("when", 99).as_deref(), Some("1700000000000"));
        assert_eq!(&*read.message.id, "m-1");
        properties = write(&read.message, &read.message.headers, "guest", Purpose::Kept).expect("properties");
    }
    assert_eq!(properties, sent);
}

#[test]
fn what_the_broker_would_act_on_is_carried_and_comes_back() {
    let sent = BasicProperties::default()
        .with_headers(table(vec![("CC", cc())]))
        .with_expiration("500".into())
        .with_user_id("other".into())
        .with_delivery_mode(2);
    let first = read(&sent, Vec::new(), None, &nobodys);
    let kept = write(&first.message, &first.message.headers, "guest", Purpose::Kept).expect("properties");
    assert_eq!((kept.expiration(), kept.user_id()), (&None, &None));
    assert_eq!(names(&kept), BTreeSet::from([PROPERTIES.to_owned()]));
    let back = read(&kept, Vec::new(), None, &nobodys);
    assert_eq!(back.message, first.message);
    let own = write(&back.message, &back.message.headers, "other", Purpose::Sent).expect("properties");
    assert_eq!(own.user_id().as_ref().map(ShortString::as_str), Some("other"));
    assert_eq!(own.expiration().as_ref().map(ShortString::as_str), Some("500"));
    assert!(!names(&own).contains("CC"), "it would be routed once more");
}

#[test]
fn a_time_to_live_that_no_broker_takes_is_not_put_into_force() {
    for hostile in ["", "soon", "-1", "1.5", "4294967296", "99999999999999999999"] {
        let sent = BasicProperties::default().with_expiration(hostile.into());
        let carried = AMQPValue::LongString(amqp::to_text(&sent).expect("text").into());
        let sent = BasicProperties::default().with_headers(table(vec![(PROPERTIES, carried)]));
        let message = read(&sent, Vec::new(), None, &nobodys).message;
        let own = write(&message, &message.headers, "guest", Purpose::Sent).expect("properties");
        assert_eq!(own.expiration(), &None, "{hostile:?}");
        let kept = read(&own, Vec::new(), None, &nobodys).message;
        assert_eq!(kept.headers, message.headers, "{hostile:?} is carried on");
    }
}

#[test]
fn a_place_in_a_stream_is_a_header_like_others_outside_of_it() {
    let sent = BasicProperties::default().with_headers(table(vec![(OFFSET, AMQPValue::LongLongInt(7))]));
    let message = read(&sent, Vec::new(), None, &nobodys).message;
    assert_eq!(message.headers.get_text(OFFSET, 9).as_deref(), Some("7"));
    let written = write(&message, &message.headers, "guest", Purpose::Kept).expect("properties");
    assert_eq!(offset_of(&written), Some(7));
}

#[test]
fn a_changed_header_is_text_from_then_on() {
    let sent = BasicProperties::default().with_headers(table(vec![("n", AMQPValue::LongInt(5))]));
    let mut message = read(&sent, Vec::new(), None, &nobodys).message;
    message.headers.set("n", "6");
    let written = write(&message, &message.headers, "guest", Purpose::Kept).expect("properties");
    let headers = written.headers().clone().expect("headers");
    assert_eq!(headers.inner().get("n"), Some(&AMQPValue::LongString("6".into())));
}

#[test]
fn the_order_of_headers_and_repeated_names_come_back() {
    let mut headers = Headers::new();
    headers.push("b", "1");
    headers.push("a", vec![0xff, 0]);
    headers.push("b", "2");
    headers.push("x-retry-attempt", "1");
    let message = Message { headers, ..Message::default() };
    let written = write(&message, &message.headers, "guest", Purpose::Kept).expect("properties");
    let back = read(&written, Vec::new(), None, &nobodys).message;
    assert_eq!(back.headers, message.headers);
    let mut sorted = Headers::new();
    sorted.push("a", "1");
    sorted.push("b", "2");
    assert_eq!(order_of(&sorted), None);
}

#[test]
fn no_death_is_republished_and_none_is_forgotten() {
    let death = |queue: &str| {
        AMQPValue::FieldTable(table(vec![
            ("queue", AMQPValue::LongString(queue.into())),
            ("reason", AMQPValue::LongString("expired".into())),
            ("count", AMQPValue::LongLongInt(2)),
        ]))
    };
    let all: FieldArray = vec![death("orders.retry.l07"), death("theirs")].into();
    let sent = BasicProperties::default().with_headers(table(vec![
        ("x-death", AMQPValue::FieldArray(all)),
        ("x-delivery-count", AMQPValue::LongLongInt(3)),
        ("x-first-death-queue", AMQPValue::LongString("theirs".into())),
    ]));
    let is_own = |queue: &str| queue == "orders.retry.l07";
    let first = read(&sent, Vec::new(), None, &is_own);
    assert_eq!(first.deaths.len(), 1);
    assert_eq!(first.deaths[0].queue, "theirs");
    let written = write(&first.message, &first.message.headers, "guest", Purpose::Kept).expect("properties");
    let expected = ["x-redrive-death", "x-redrive-first-death-queue"];
    assert_eq!(names(&written), expected.iter().map(ToString::to_string).collect());
    let back = read(&written, Vec::new(), None, &is_own);
    assert_eq!(back.deaths, first.deaths);
    assert_eq!(back.message.headers.get_text("x-first-death-queue", 99).as_deref(), Some("theirs"));
}

#[test]
fn the_key_is_the_routing_key_of_an_exchange_unless_a_copy_carries_one() {
    let sent = BasicProperties::default();
    let by = |exchange| Some(Route { exchange, key: "order.placed" });
    assert_eq!(read(&sent, Vec::new(), by(""), &nobodys).message.key, None);
    let message = read(&sent, Vec::new(), by("events"), &nobodys).message;
    assert_eq!(message.key.as_deref(), Some(&b"order.placed"[..]));
    let copy = write(&message, &message.headers, "guest", Purpose::Kept).expect("properties");
    let back = read(&copy, Vec::new(), None, &nobodys).message;
    assert_eq!(back.key.as_deref(), Some(&b"order.placed"[..]));
}

#[test]
fn a_name_that_amqp_cannot_write_is_refused() {
    let mut headers = Headers::new();
    headers.push("n".repeat(256), "1");
    let refused = write(&Message::default(), &headers, "guest", Purpose::Kept);
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
}
