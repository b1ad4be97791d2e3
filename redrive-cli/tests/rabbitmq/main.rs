//! Through the binary on a real RabbitMQ: what people type, and what becomes of it.

#[path = "../desk/mod.rs"]
mod desk;
mod elsewhere;
mod hashed;
#[path = "../kill/http.rs"]
#[allow(dead_code, reason = "the tests that kill use more of it")]
mod http;
mod instances;
mod killers;
mod ledger;
mod lives;
mod outage;
mod rights;
mod ring;
#[path = "../running/mod.rs"]
mod running;
mod short;
mod stuck;
mod topology;
mod world;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use running::eventually;
use serde_json::Value;
use world::World;

#[test]
fn a_message_fails_is_dead_lettered_and_replayed() {
    let Some(world) = World::open("orders") else { return };
    let running = world.start(&[]);
    let created: Vec<String> = running.said();
    for queue in ["", ".dlq", ".parking", ".stray"] {
        let line = format!("{}: created queue {}", world.name, world.named(queue));
        assert!(created.iter().any(|said| said.starts_with(&line)), "{line}: {created:?}");
    }
    assert!(
        created.iter().all(|said| !said.contains("guest:guest") && !said.contains("ERROR")),
        "{created:?}"
    );
    let lamp = "{\"order\": 1, \"item\": \"lamp\"}";
    world.publish(&world.name, "order-1", lamp, &[]);
    let fridge = "{\"order\": 2, \"item\": \"fridge\"}";
    world.publish(&world.name, "order-2", fridge, &["--header", "type=OrderPlaced"]);
    world.publish(&world.name, "order-3", "hello?", &[]);
    assert_eq!(world.shipped(1), [lamp]);

    let dead = world.stands("order-2", "dead");
    assert_eq!((&dead["attempts"], &dead["reason"]), (&Value::from(3), &Value::from("TRY_AGAIN")));
    assert_eq!(dead["source"]["kind"], "rabbitmq");
    assert_eq!(dead["source"]["name"], world.name.as_str());
    world.stands("order-3", "parked");
    let payload = world.does(&["messages", "show", "order-2", "--payload"]);
    assert_eq!(payload.text(), fridge);
    let listed = world.does(&["messages", "ls", "--state", "dead,parked", "--json"]).json();
    assert_eq!(listed.len(), 2, "{listed:?}");

    let flows = world.does(&["flows", "--json"]).json();
    assert_eq!(flows[0]["state"], "running", "{flows:?}");
    assert_eq!(flows[0]["lag"], 0, "{flows:?}");
    let queues = world.does(&["queues", "--json"]).json();
    let depth = |name: &str| queues.iter().find(|queue| queue["name"] == name).map(|queue| &queue["ready"]);
    assert_eq!(depth(&world.named(".dlq")), Some(&Value::from(1)), "{queues:?}");
    assert_eq!(depth(&world.name), Some(&Value::from(0)), "{queues:?}");

    let letters = world.take(&world.named(".dlq"), 1);
    assert_eq!(letters[0].body, fridge, "the bytes are the message's own");
    assert_eq!(letters[0].id.as_deref(), Some("order-2"));
    assert_eq!(letters[0].header("x-failure-reason").as_deref(), Some("TRY_AGAIN"));
    assert_eq!(letters[0].header("type").as_deref(), Some("OrderPlaced"));
    assert_eq!(letters[0].header("x-death"), None, "each trip begins without what the broker wrote");
    assert_eq!(world.take(&world.named(".parking"), 1).len(), 1);

    std::fs::write(world.desk.path("fridges"), "").unwrap();
    let replay = world.does(&["replay", "run", "--state", "dead", "--reason", "fridges are back"]);
    assert!(replay.text().contains("1 recovered"), "{}", replay.text());
    assert_eq!(world.shipped(2)[1], fridge);
    world.stands("order-2", "recovered");
    world.does(&["ledger", "check"]);
    running.stop();
}

#[test]
fn properties_and_header_types_survive_a_retry_and_a_dead_letter() {
    let Some(world) = World::open("typed") else { return };
    let running = world.start(&[]);
    let mut headers = FieldTable::default();
    headers.insert("count".into(), AMQPValue::LongLongInt(7_000_000_000));
    headers.insert("urgent".into(), AMQPValue::Boolean(true));
    headers.insert("note".into(), AMQPValue::LongString("as it was".into()));
    let properties = BasicProperties::default()
        .with_message_id("typed-1".into())
        .with_content_type("application/json".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into())
        .with_type("OrderPlaced".into())
        .with_priority(4)
        .with_headers(headers);
    world.produce(&world.name, "{\"item\": \"fridge\"}", properties);
    world.stands("typed-1", "dead");
    let letter = world.take(&world.named(".dlq"), 1).remove(0);
    assert_eq!(letter.id.as_deref(), Some("typed-1"));
    assert_eq!(letter.headers["count"], AMQPValue::LongLongInt(7_000_000_000));
    assert_eq!(letter.headers["urgent"], AMQPValue::Boolean(true));
    assert_eq!(letter.headers["note"], AMQPValue::LongString("as it was".into()));
    let kept = &letter.properties;
    assert_eq!(kept.content_type().as_ref().map(ToString::to_string).as_deref(), Some("application/json"));
    assert_eq!(kept.correlation_id().as_ref().map(ToString::to_string).as_deref(), Some("c-1"));
    assert_eq!(kept.reply_to().as_ref().map(ToString::to_string).as_deref(), Some("answers"));
    assert_eq!(kept.kind().as_ref().map(ToString::to_string).as_deref(), Some("OrderPlaced"));
    assert_eq!((*kept.priority(), *kept.delivery_mode()), (Some(4), Some(2)));
    running.stop();
}

#[test]
fn a_waiting_message_is_sent_at_once_and_another_is_cancelled() {
    let Some(world) = World::open("waiting") else { return };
    let source = world.source();
    let running = world.start_with(&["--from", &source, "--to", "exec:sh handle.sh", "--retry", "1h x2"]);
    for id in ["now", "never"] {
        world.publish(&world.name, id, &format!("{{\"item\": \"fridge\", \"id\": \"{id}\"}}"), &[]);
        let waiting = world.stands(id, "waiting");
        assert_eq!(waiting["attempts"], 1, "{waiting}");
    }
    let queues = world.does(&["queues", "--json"]).json();
    let waits: u64 = queues.iter().filter_map(|queue| queue["waiting"].as_u64()).sum();
    assert_eq!(waits, 2, "{queues:?}");
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["retry-now", "now", "--reason", "fridges are back"]);
    world.stands("now", "recovered");
    world.does(&["cancel", "never", "--reason", "the customer went home"]);
    assert_eq!(world.shipped(1).len(), 1);
    running.stop();
}

#[test]
fn the_order_of_a_key_is_kept_behind_a_message_that_waits() {
    let Some(world) = World::open("lanes") else { return };
    let more = ["--order-by", "header:customer", "--data", "lanes.db"];
    let running = world.start(&more);
    let show = |id: &str| world.desk.run(&["messages", "show", id, "--json", "--data", "lanes.db"]);
    let stands = |id: &str, state: &str| {
        eventually(&format!("{id} to be {state}"), || {
            let shown = show(id);
            match shown.code {
                0 if shown.json()[0]["state"] == state => Ok(()),
                _ => Err(format!("{} {}", shown.text(), shown.stderr)),
            }
        });
    };
    world.publish(&world.name, "first", "{\"item\": \"fridge\"}", &["--header", "customer=7"]);
    stands("first", "dead");
    world.publish(&world.name, "second", "{\"item\": \"lamp\"}", &["--header", "customer=7"]);
    stands("second", "held");
    world.publish(&world.name, "other", "{\"item\": \"desk\"}", &["--header", "customer=8"]);
    assert_eq!(world.shipped(1), ["{\"item\": \"desk\"}"]);
    // A second member does not share the ledger that keeps the order.
    let source = world.source();
    let other = ["--from", &source, "--to", "exec:true", "--order-by", "header:customer"];
    let second = world.desk.run(&[&["run"], &other[..], &["--data", "b.db", "--listen", "off"]].concat());
    assert_ne!(second.code, 0, "{}", second.stderr);
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    let reason = ["--reason", "fridges are back", "--data", "lanes.db"];
    world.does(&[&["replay", "run", "first"], &reason[..]].concat());
    assert_eq!(world.shipped(3)[1..], ["{\"item\": \"fridge\"}", "{\"item\": \"lamp\"}"]);
    running.stop();
}

#[test]
fn no_log_level_prints_the_password_or_a_body() {
    let Some(world) = World::open("logged") else { return };
    world.queue(&world.name, &[]);
    world.publish(&world.name, "order-1", "{\"item\": \"lamp\", \"card\": \"4711\"}", &[]);
    let source = world.source();
    let flow = ["run", "--from", &source, "--to", "exec:sh handle.sh", "--retry", "100ms x2"];
    let how = ["--listen", "off", "--log-level", "trace", "--exit-when-idle", "1s"];
    let ran = world.does(&[&flow[..], &how].concat());
    assert_eq!(world.shipped(1).len(), 1);
    // As text, and as the bytes that a dump of a frame shows.
    let bytes: Vec<String> = b"guest\0guest".iter().map(ToString::to_string).collect();
    let card: Vec<String> = b"4711".iter().map(ToString::to_string).collect();
    for secret in ["guest:guest", "4711", &bytes[5..].join(", "), &card.join(", ")] {
        let at = ran.stderr.lines().find(|line| line.contains(secret));
        assert_eq!(at, None, "{secret}");
    }
}

#[test]
fn an_encrypted_address_is_never_spoken_to_in_the_clear() {
    let Some(world) = World::open("clear") else { return };
    let address = world.source().replace("amqp://", "amqps://");
    let ran = world.desk.run(&["topology", "plan", "--from", &format!("{address}&connection_timeout=2000")]);
    assert_eq!(ran.code, 1, "a server without TLS was spoken to: {}", ran.text());
    assert!(ran.stderr.contains("127.0.0.1"), "{}", ran.stderr);
    let no_file = world.desk.run(&["topology", "plan", "--from", &format!("{address}&cacertfile=none.pem")]);
    assert_eq!(no_file.code, 1, "{}", no_file.text());
    assert!(no_file.stderr.contains("none.pem"), "{}", no_file.stderr);
}

#[test]
fn a_secret_is_never_printed_and_a_broker_that_is_away_is_named() {
    let desk = desk::Desk::new();
    let address = "amqp://app:hunter2@127.0.0.1:1/prod?queue=orders&connection_timeout=1000";
    let ran = desk.run(&["topology", "plan", "--from", address]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let run = desk.run(&["run", "--from", address, "--to", "exec:true", "--listen", "off"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let published = desk.run(&["publish", address, "x"]);
    assert_eq!(published.code, 1, "{}", published.stderr);
    for ran in [&ran, &run, &published] {
        assert!(!ran.stderr.contains("hunter2") && !ran.text().contains("hunter2"), "{}", ran.stderr);
        assert!(ran.stderr.contains("127.0.0.1:1"), "{}", ran.stderr);
    }
    assert!(ran.stderr.contains("RD-RUN-01"), "{}", ran.stderr);
}
