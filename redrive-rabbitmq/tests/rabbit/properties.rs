//! AMQP's types and properties survive every hop.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use redrive_engine::port::{Broker as _, NewMessage, Outcome, PortError, Published, Refusal, Tag};

use crate::stage::{Stage, later, named, receive, settle, settlement, subscription, table};

fn typed() -> FieldTable {
    let list: FieldArray = vec![AMQPValue::LongInt(1), AMQPValue::LongString("two".into())].into();
    table(vec![
        ("bytes", AMQPValue::ByteArray(vec![0, 0xff, b'x'].into())),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 12_345 })),
        ("flag", AMQPValue::Boolean(true)),
        ("float", AMQPValue::Float(0.25)),
        ("i16", AMQPValue::ShortInt(-300)),
        ("i32", AMQPValue::LongInt(-70_000)),
        ("i8", AMQPValue::ShortShortInt(-7)),
        ("list", AMQPValue::FieldArray(list)),
        ("long", AMQPValue::LongLongInt(-7)),
        ("table", AMQPValue::FieldTable(table(vec![("inner", AMQPValue::Double(1.5))]))),
        ("text", AMQPValue::LongString("text".into())),
        ("u16", AMQPValue::ShortUInt(60_000)),
        ("u32", AMQPValue::LongUInt(4_000_000_000)),
        ("u8", AMQPValue::ShortShortUInt(200)),
        ("void", AMQPValue::Void),
        ("when", AMQPValue::Timestamp(1_700_000_000)),
    ])
}

fn full() -> BasicProperties {
    named("a")
        .with_headers(typed())
        .with_content_type("text/plain".into())
        .with_content_encoding("identity".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into())
        .with_priority(4)
        .with_timestamp(1_700_000_001)
        .with_type("OrderPlaced".into())
        .with_app_id("shop".into())
        .with_expiration("3600000".into())
}

/// The dead letter has all of the properties; what would take it away again is carried beside.
fn has_all(dead: &lapin::message::Delivery) {
    let found = &dead.properties;
    let headers = found.headers().clone().unwrap();
    for (name, value) in typed().inner() {
        assert_eq!(headers.inner().get(name), Some(value), "{name}");
    }
    let sent = full();
    assert_eq!(found.content_type(), sent.content_type());
    assert_eq!(found.content_encoding(), sent.content_encoding());
    assert_eq!(found.correlation_id(), sent.correlation_id());
    assert_eq!(found.reply_to(), sent.reply_to());
    assert_eq!(found.priority(), sent.priority());
    assert_eq!(found.timestamp(), sent.timestamp());
    assert_eq!(found.kind(), sent.kind());
    assert_eq!(found.app_id(), sent.app_id());
    assert_eq!(found.message_id(), sent.message_id());
    assert_eq!(found.expiration(), &None);
    assert_eq!(found.delivery_mode(), &Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_and_properties_survive_a_retry_a_dead_letter_and_the_way_through_a_ledger() {
    let Some(stage) = Stage::shared("typed") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", full()).await;
    let first = receive(&mut source, 1).await.remove(0);
    let text = |name: &str| first.message.headers.get_text(name, 99).map(|text| text.to_string());
    assert_eq!(text("flag").as_deref(), Some("true"));
    assert_eq!(text("list").as_deref(), Some(r#"[1,"two"]"#));
    assert_eq!(text("when").as_deref(), Some("1700000000000"));
    assert_eq!(first.message.content_type.as_deref(), Some("text/plain"));
    settle(&broker, &first, later(Duration::from_millis(120))).await.unwrap();
    let second = receive(&mut source, 1).await.remove(0);
    assert_eq!(second.message.id, first.message.id);
    settle(&broker, &second, Outcome::DeadLetter).await.unwrap();
    has_all(&stage.get(&format!("{}.dlq", stage.name)).await.expect("a dead letter"));

    // The ledger has the message alone, and gives it back as one that was not read here.
    let mut from_ledger = settlement(&second, Outcome::DeadLetter);
    from_ledger.delivery.tag = Tag::APART;
    broker.settle(&[from_ledger]).await.remove(0).unwrap();
    has_all(&stage.get(&format!("{}.dlq", stage.name)).await.expect("a dead letter"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_larger_than_a_frame_are_refused_and_the_connection_stays() {
    let Some(stage) = Stage::shared("frame") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let mut headers = redrive_core::Headers::new();
    headers.push("large", "x".repeat(140_000));
    let message = NewMessage { headers, ..NewMessage::default() };
    let published = broker.publish(&stage.name, vec![message, NewMessage::default()]).await.unwrap();
    assert!(matches!(published[0], Published::Refused(Refusal::Limit(_))), "{:?}", published[0]);
    assert!(matches!(published[1], Published::Accepted(_)));
    let small = receive(&mut source, 1).await.remove(0);
    settle(&broker, &small, Outcome::Ack).await.unwrap();

    // It fits as it is, and not with what a failure adds.
    let large = table(vec![("large", AMQPValue::LongString("x".repeat(131_000).into()))]);
    stage.publish("body", named("a").with_headers(large)).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let refused = settle(&broker, &delivery, Outcome::DeadLetter).await;
    assert!(matches!(&refused, Err(PortError::Unavailable(why)) if why.contains("frames")), "{refused:?}");
    assert_eq!(broker.alarms().iter().map(|alarm| alarm.name).collect::<Vec<_>>(), ["copy_refused"]);
    settle(&broker, &delivery, Outcome::Ack).await.expect("the channel is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_ledger_a_dead_letter_whose_headers_do_not_fit_says_where_its_message_is() {
    let Some(stage) = Stage::shared("pointer") else { return };
    let mut flow = stage.flow();
    flow.ledger = true;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let large = table(vec![("large", AMQPValue::LongString("x".repeat(131_000).into()))]);
    stage.publish("body", named("a").with_headers(large)).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let parked = settlement(&delivery, Outcome::Park);
    assert!(broker.leaves_body(&parked), "the ledger is told first");
    broker.settle(&[parked]).await.remove(0).unwrap();
    let pointer = stage.get(&format!("{}.parking", stage.name)).await.expect("a parked message");
    let headers = pointer.properties.headers().clone().unwrap();
    assert!(headers.contains_key("x-entry-id") && headers.contains_key("x-left-body"));
    assert!(!headers.contains_key("large"));
}
