//! Through the binary on a real Kafka: what people type, and what becomes of it.

mod acting;
mod away;
mod bodies;
#[path = "../desk/mod.rs"]
mod desk;
mod roles;
#[path = "../running/mod.rs"]
mod running;
mod topics;
mod world;

use running::eventually;
use serde_json::Value;
use world::World;

#[test]
fn a_message_fails_is_dead_lettered_and_replayed() {
    let Some(world) = World::open("orders") else { return };
    world.topic(&world.name, 3);
    let running = world.start(&[]);
    let created: Vec<String> = running.said();
    for topic in [".dlq", ".parking"] {
        let line = format!("{}: created topic {}", world.name, world.named(topic));
        assert!(created.iter().any(|said| said.starts_with(&line)), "{line}: {created:?}");
    }
    let lamp = "{\"order\": 1, \"item\": \"lamp\"}";
    world.publish(&world.name, "order-1", lamp, &["--key", "customer-1"]);
    let fridge = "{\"order\": 2, \"item\": \"fridge\"}";
    world.publish(&world.name, "order-2", fridge, &["--key", "customer-2", "--header", "type=OrderPlaced"]);
    world.publish(&world.name, "order-3", "hello?", &[]);
    assert_eq!(world.shipped(1), [lamp]);

    let dead = world.stands("order-2", "dead");
    assert_eq!((&dead["attempts"], &dead["reason"]), (&Value::from(3), &Value::from("TRY_AGAIN")));
    assert_eq!(dead["source"]["kind"], "kafka");
    assert_eq!(dead["source"]["name"], world.name.as_str());
    world.stands("order-3", "parked");
    let payload = world.does(&["messages", "show", "order-2", "--payload"]);
    assert_eq!(payload.text(), fridge);
    let listed = world.does(&["messages", "ls", "--state", "dead,parked", "--json"]).json();
    assert_eq!(listed.len(), 2, "{listed:?}");

    let letters = world.read(&world.named(".dlq"));
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].body.as_deref(), Some(fridge), "the bytes are the message's own");
    assert_eq!(letters[0].key.as_deref(), Some("customer-2"));
    assert_eq!(letters[0].header("x-failure-reason"), Some("TRY_AGAIN"));
    assert_eq!(letters[0].header("type"), Some("OrderPlaced"));
    assert_eq!(world.read(&world.named(".parking")).len(), 1);

    let flows = world.does(&["flows", "--json"]).json();
    assert_eq!(flows[0]["state"], "running", "{flows:?}");
    assert_eq!(flows[0]["lag"], 0, "{flows:?}");
    let queues = world.does(&["queues", "--json"]).json();
    assert!(queues.iter().any(|queue| queue["name"] == world.name.as_str()), "{queues:?}");

    std::fs::write(world.desk.path("fridges"), "").unwrap();
    let replay = world.does(&["replay", "run", "--state", "dead", "--reason", "fridges are back"]);
    assert!(replay.text().contains("1 recovered"), "{}", replay.text());
    assert_eq!(world.shipped(2)[1], fridge);
    world.stands("order-2", "recovered");
    world.does(&["ledger", "check"]);
    running.stop();
}

#[test]
fn topology_is_planned_checked_and_applied() {
    let Some(world) = World::open("planned") else { return };
    world.topic(&world.name, 2);
    let source = world.source();
    let flow = ["--from", source.as_str(), "--retry", "10s, 1m"];
    let plan = |json: bool| {
        let json: &[&str] = if json { &["--json"] } else { &[] };
        world.does(&[&["topology", "plan"], &flow[..], json].concat())
    };
    let dead = world.named(".dlq");
    let find = |topic: &str| -> Value {
        let all = plan(true).json();
        let found = all.iter().find(|thing| thing["name"] == topic).cloned();
        found.unwrap_or_else(|| panic!("no {topic} in {all:?}"))
    };
    assert_eq!(find(&dead)["exists"], false);
    assert_eq!(find(&world.named(".retry.10s"))["exists"], false);
    assert!(plan(false).text().contains("missing"), "{}", plan(false).text());

    let run = ["--to", "exec:true", "--listen", "off", "--topology", "check"];
    let refused = world.desk.run(&[&["run"], &flow[..], &run[..]].concat());
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("RD-RUN-02") && refused.stderr.contains(&dead), "{}", refused.stderr);

    let applied = world.does(&[&["topology", "apply"], &flow[..]].concat());
    assert!(applied.stderr.contains(&format!("created topic {dead}")), "{}", applied.stderr);
    assert!(plan(true).json().iter().all(|thing| thing["exists"] == true), "{}", plan(true).text());
    let again = world.does(&[&["topology", "apply"], &flow[..]].concat());
    assert!(!again.stderr.contains("created"), "{}", again.stderr);

    let checked = world.start_with(&[&flow[..], &["--to", "exec:true", "--topology", "check"]].concat());
    let instance = world.does(&["topology", "plan", "--json"]).json();
    assert!(instance.iter().any(|thing| thing["name"] == dead.as_str()), "{instance:?}");
    checked.stop();
}

#[test]
fn a_ledger_is_made_again_from_what_kafka_keeps() {
    let Some(world) = World::open("rebuilt") else { return };
    world.topic(&world.name, 1);
    let running = world.start(&[]);
    for (shipped, id) in (1..).zip(["stays", "resolved"]) {
        world.publish(&world.name, id, "{\"item\": \"fridge\"}", &[]);
        world.stands(id, "dead");
        // One that succeeds in between keeps the breaker closed.
        world.publish(&world.name, &format!("between-{shipped}"), "{\"item\": \"lamp\"}", &[]);
        world.shipped(shipped);
    }
    world.does(&["discard", "resolved", "--reason", "a test order"]);
    // What people resolved is kept at the broker a moment later.
    eventually("the resolution at the broker", || {
        let kept = world.read(&world.named(".resolved"));
        if kept.is_empty() { Err("nothing yet".to_owned()) } else { Ok(()) }
    });
    let before = world.stands("stays", "dead");
    running.stop();

    for file in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
        let _ = std::fs::remove_file(world.desk.path(file));
    }
    let running = world.start(&[]);
    let refused = world.desk.run(&["ledger", "rebuild", "--flow", "nobody", "--reason", "x"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    let rebuilt = world.does(&["ledger", "rebuild", "--reason", "the disk was lost", "--json"]).json();
    assert_eq!(rebuilt[0]["flow"], world.name.as_str());
    let after = world.stands("stays", "dead");
    assert_eq!(after["id"], before["id"], "the same id");
    assert_eq!(after["attempts"], before["attempts"]);
    let open = world.does(&["messages", "ls", "--state", "dead", "--json"]).json();
    assert_eq!(open.len(), 1, "what a person resolved does not come back: {open:?}");
    let audit = world.does(&["audit", "ls", "--json"]);
    assert!(audit.text().contains("the disk was lost"), "{}", audit.text());

    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "stays", "--reason", "fridges are back"]);
    world.stands("stays", "recovered");
    running.stop();
}

#[test]
fn messages_of_the_source_are_replayed_by_offset_and_by_time() {
    let Some(world) = World::open("again") else { return };
    world.topic(&world.name, 1);
    let running = world.start(&[]);
    for number in 0..3 {
        world.publish(&world.name, &format!("order-{number}"), &format!("{{\"order\": {number}}}"), &[]);
    }
    world.shipped(3);
    let sent = |arguments: &[&str]| {
        let all =
            [&["replay", "source", &world.name, "--json", "--reason", "a lost hour"], arguments].concat();
        world.does(&all).json()[0]["messages"].clone()
    };
    assert_eq!(sent(&["--offsets", "0:0-1"]), 2);
    let shipped = world.shipped(5);
    assert_eq!(shipped[3..].iter().filter(|order| order.contains('2')).count(), 0, "{shipped:?}");
    assert_eq!(sent(&["--since", "1h"]), 3);
    world.shipped(8);
    let wrong = world.desk.run(&["replay", "source", &world.name, "--offsets", "x", "--reason", "y"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    let audit = world.does(&["audit", "ls", "--json"]);
    assert!(audit.text().contains("a lost hour"), "{}", audit.text());
    running.stop();
}

#[test]
fn a_shared_topic_delivers_when_it_is_due() {
    let Some(world) = World::open("due") else { return };
    let (due, mail) = (world.named(""), world.named("-mail"));
    world.topic(&due, 1);
    world.topic(&mail, 1);
    let file = format!(
        "version: 1
brokers: {{ main: {{ kafka: {{ bootstrap: \"{}\" }} }} }}
flows:
  {due}: {{ from: \"kafka://main/{due}\", to: {{ forward: {{ allow: [\"{due}-ma*\"], longest: 1h }} }} }}
",
        world.bootstrap()
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    let running = world.start_with(&["-c", "redrive.yaml"]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let at = format!("x-process-after={}", now + 1_500);
    let to = format!("x-forward-to={mail}");
    let headers = ["--key", "k", "--header", &to, "--header", &at, "--header", "type=Reminder"];
    world.publish(&due, "later", "ring", &headers);
    world.publish(&due, "nowhere", "ring", &["--header", "x-forward-to=secrets"]);
    let parked = world.stands("nowhere", "parked");
    assert_eq!(parked["reason"], "FORWARD_REFUSED");
    let arrived = eventually("the message at its target", || {
        let found = world.read(&mail);
        found.first().cloned().ok_or_else(|| "nothing".to_owned())
    });
    let then = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!(then >= now + 1_500, "it came before its time");
    assert_eq!((arrived.key.as_deref(), arrived.body.as_deref()), (Some("k"), Some("ring")));
    assert_eq!(arrived.header("type"), Some("Reminder"));
    for name in ["x-forward-to", "x-process-after", "x-entry-id", "x-wait-id"] {
        assert_eq!(arrived.header(name), None, "{name}");
    }
    running.stop();
}

#[test]
fn a_body_that_kafka_has_dropped_is_taken_from_the_ledger() {
    let Some(world) = World::open("dropped") else { return };
    world.topic(&world.name, 1);
    let source = world.source();
    let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "5s x9", "--delay", "pointer"];
    let running = world.start_with(&flow);
    let fridge = "{\"item\": \"fridge\"}";
    world.publish(&world.name, "order-1", fridge, &[]);
    world.stands("order-1", "waiting");
    world.drop_all(&world.name);
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    assert_eq!(world.shipped(1), [fridge]);
    world.stands("order-1", "recovered");
    running.stop();
}

#[test]
fn a_secret_is_never_printed_and_a_broker_that_is_away_is_named() {
    let desk = desk::Desk::new();
    let address = "kafka://127.0.0.1:1/orders?group=w&sasl.password=hunter2&socket.timeout.ms=1000";
    let ran = desk.run(&["topology", "plan", "--from", address]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let run = desk.run(&["run", "--from", address, "--to", "exec:true", "--listen", "off"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    for ran in [&ran, &run] {
        assert!(!ran.stderr.contains("hunter2") && !ran.text().contains("hunter2"), "{}", ran.stderr);
        assert!(ran.stderr.contains("RD-RUN-01"), "{}", ran.stderr);
    }
}
