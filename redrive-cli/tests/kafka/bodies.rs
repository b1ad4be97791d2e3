//! Dead letters whose bodies the ledger leaves to Kafka.

use rdkafka::Offset;

use crate::running::Running;
use crate::world::{World, eventually};

/// A flow whose ledger keeps where bodies lie.
fn start(world: &World, retry: &str, format: &str) -> Running {
    let file = format!(
        "version: 1\nflows:\n  {name}:\n    from: {from}\n    to: \"exec:sh handle.sh\"\n    retry: \"{retry}\"\n    dead_letter: {{ format: {format} }}\n    kafka: {{ bodies: pointer }}\n",
        name = world.name,
        from = world.source(),
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    world.start_with(&["--config", "redrive.yaml", "--data", "redrive.db"])
}

/// A message that nobody else has written, which fails while there are no fridges.
fn fridge(serial: &str) -> String {
    format!("{{\"item\": \"fridge\", \"serial\": \"{serial}\"}}")
}

/// Whether a text stands anywhere in the data file, written or on its way.
fn is_in_file(world: &World, text: &str) -> bool {
    ["redrive.db", "redrive.db-wal"].iter().any(|file| {
        let bytes = std::fs::read(world.desk.path(file)).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn payload(world: &World, id: &str) -> String {
    world.does(&["messages", "show", id, "--payload"]).text().to_owned()
}

#[test]
fn a_body_is_left_in_its_topic_and_sent_again_from_there() {
    let Some(world) = World::open("pointers") else { return };
    world.topic(&world.name, 2);
    let running = start(&world, "10ms", "raw");
    let bodies = [fridge("serial-1"), fridge("serial-2"), "serial-3 is no order".to_owned()];
    for (n, body) in (1..).zip(&bodies) {
        world.publish(&world.name, &format!("order-{n}"), body, &["--key", "k"]);
    }
    for (n, body) in (1..).zip(&bodies) {
        let (state, topic) = if n == 3 { ("parked", ".parking") } else { ("dead", ".dlq") };
        let entry = world.stands(&format!("order-{n}"), state);
        let why = entry["safe_to_replay"]["why"].as_str().unwrap();
        assert!(why.contains(&format!("its body lies at {}", world.named(topic))), "{why}");
        assert_eq!(entry["message"]["size"], body.len());
        assert!(!is_in_file(&world, &format!("serial-{n}")), "the file has no body");
        assert_eq!(payload(&world, &format!("order-{n}")), *body);
    }
    assert!(!is_in_file(&world, "serial-1"), "a look keeps nothing");

    // Edited: what is not given comes from the one that is copied.
    let lamp = "{\"item\": \"lamp\"}";
    std::fs::write(world.desk.path("edited"), lamp).unwrap();
    world.does(&["copy", "order-3", "--edit", "edited", "--reason", "a lamp will do"]);
    assert_eq!(world.shipped(1), [lamp]);

    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["retry-now", "order-1", "--reason", "fridges are back"]);
    assert_eq!(world.shipped(2)[1], bodies[0]);
    let replay = world.does(&["replay", "run", "--state", "dead", "--reason", "fridges are back"]);
    assert!(replay.text().contains("1 recovered"), "{}", replay.text());
    assert_eq!(world.shipped(3)[2], bodies[1]);
    world.stands("order-1", "recovered");
    world.stands("order-2", "recovered");

    // Without an instance nobody can read it, and that is said.
    world.does(&["ledger", "check"]);
    running.stop();
    let refused = world.desk.run(&["retry-now", "order-3", "--reason", "once more"]);
    assert_ne!(refused.code, 0);
    let said = format!("{}{}", refused.text(), refused.stderr);
    assert!(said.contains(&format!("its body lies at {}", world.named(".parking"))), "{said}");
    let replay = world.desk.run(&["replay", "run", "--state", "parked", "--reason", "once more"]);
    assert_eq!(replay.code, 4, "{}{}", replay.text(), replay.stderr);
    assert!(replay.stderr.contains("start an instance that runs the flow"), "{}", replay.stderr);
}

#[test]
fn what_waits_has_its_body_in_its_topic_and_goes_at_once_when_it_is_told_to() {
    let Some(world) = World::open("waiting-pointers") else { return };
    world.topic(&world.name, 1);
    let running = start(&world, "1h", "raw");
    world.publish(&world.name, "order-1", &fridge("serial-1"), &[]);
    world.stands("order-1", "waiting");
    assert!(!is_in_file(&world, "serial-1"), "the file has no body");
    assert_eq!(payload(&world, "order-1"), fridge("serial-1"));
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["retry-now", "order-1", "--reason", "fridges are back"]);
    assert_eq!(world.shipped(1), [fridge("serial-1")]);
    world.stands("order-1", "recovered");
    running.stop();
}

#[test]
fn a_body_is_copied_before_its_topic_drops_it_and_one_that_is_gone_is_named() {
    let Some(world) = World::open("expiring") else { return };
    world.topic(&world.name, 1);
    // What is parked is kept for half a minute, dead letters for ever.
    let (dead, parking) = (world.named(".dlq"), world.named(".parking"));
    world.kafka().topic(&parking, 1, &[("retention.ms", "30000")]);
    let running = start(&world, "10ms", "raw");
    world.publish(&world.name, "order-1", "serial-1 is no order", &[]);
    world.publish(&world.name, "order-2", &fridge("serial-2"), &[]);
    world.stands("order-1", "parked");
    world.stands("order-2", "dead");
    eventually("the body that expires in the file", || {
        if is_in_file(&world, "serial-1 is no order") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    world.kafka().drop_before(&parking, 0, Offset::End);
    assert_eq!(payload(&world, "order-1"), "serial-1 is no order");
    assert!(!is_in_file(&world, "serial-2"), "what is kept for ever stays where it is");

    world.kafka().drop_before(&dead, 0, Offset::End);
    let gone = format!("its body is gone: it lay at {dead}/0/0");
    let refused = world.desk.run(&["messages", "show", "order-2", "--payload"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains(&gone), "{}", refused.stderr);
    let shown = world.stands("order-2", "dead");
    assert_eq!(shown["safe_to_replay"]["why"], gone.as_str());
    let refused = world.desk.run(&["retry-now", "order-2", "--reason", "fridges are back"]);
    assert_ne!(refused.code, 0);
    let said = format!("{}{}", refused.text(), refused.stderr);
    assert!(said.contains(&gone), "{said}");
    world.does(&["discard", "order-2", "--reason", "nothing is left of it"]);
    world.does(&["ledger", "check"]);
    running.stop();
}

#[test]
fn a_rebuilt_ledger_leaves_bodies_where_they_lie() {
    let Some(world) = World::open("rebuilt-pointers") else { return };
    world.topic(&world.name, 1);
    let running = start(&world, "10ms", "envelope");
    world.publish(&world.name, "order-1", &fridge("serial-1"), &[]);
    world.stands("order-1", "dead");
    assert_eq!(payload(&world, "order-1"), fridge("serial-1"));
    running.stop();
    for file in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
        _ = std::fs::remove_file(world.desk.path(file));
    }
    let running = start(&world, "10ms", "envelope");
    world.does(&["ledger", "rebuild", "--reason", "the file was lost"]);
    world.stands("order-1", "dead");
    assert!(!is_in_file(&world, "serial-1"), "the file has no body");
    assert_eq!(payload(&world, "order-1"), fridge("serial-1"), "out of its envelope");
    running.stop();
}
