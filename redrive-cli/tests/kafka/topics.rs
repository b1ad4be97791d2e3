//! Topics that are not as usual, and what is read off them.

use crate::world::{World, eventually};

/// A dead letter that its topic does not take goes there without its body, and only after the ledger has that.
#[test]
fn an_oversize_dead_letter_is_in_the_ledger_first() {
    let Some(world) = World::open("oversize") else { return };
    world.topic(&world.name, 1);
    let dead = world.named(".dlq");
    world.kafka().topic(&dead, 1, &[("max.message.bytes", "3000")]);
    let source = world.source();
    let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "100ms"];
    let body = format!("{{\"item\": \"fridge\", \"note\": \"{}\"}}", "x".repeat(20_000));
    world.publish(&world.name, "order-1", &body, &[]);
    world.dies_at("apart.after_ledger", &flow);
    assert!(world.read(&dead).is_empty(), "the ledger comes first");

    let running = world.start_with(&flow);
    world.stands("order-1", "dead");
    assert_eq!(world.does(&["messages", "show", "order-1", "--payload"]).text(), body);
    let letters = eventually("the dead letter at Kafka", || {
        let letters = world.read(&dead);
        if letters.is_empty() { Err("nothing yet".to_owned()) } else { Ok(letters) }
    });
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].header("content-type"), Some("application/json"));
    assert!(!letters[0].body.as_deref().unwrap().contains("xxx"), "{letters:?}");
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "order-1", "--reason", "fridges are back"]);
    assert_eq!(world.shipped(1), [body]);
    running.stop();
}

/// Everything that the flow needs is there, and one topic would lose messages: the flow does not start, whether it may create
/// topics or not.
#[test]
fn a_topic_that_loses_messages_is_refused_where_nothing_is_missing() {
    let Some(world) = World::open("losing") else { return };
    world.topic(&world.name, 1);
    let (compacted, brief) = (world.named(".compacted"), world.named(".retry.7s"));
    let flow = |dead: &str, retry: &str| {
        let file = format!(
            "version: 1
brokers: {{ main: {{ kafka: {{ bootstrap: \"{}\" }} }} }}
flows:
  {name}:
    from: \"kafka://main/{name}?group={name}\"
    to: \"exec:true\"
    retry: \"{retry}\"
    dead_letter: {{ name: {dead} }}
",
            world.bootstrap(),
            name = world.name,
        );
        std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    };
    let refused = |topic: &str, why: &str| {
        for topology in ["apply", "check"] {
            let arguments = ["run", "-c", "redrive.yaml", "--listen", "off", "--topology", topology];
            let ran = world.desk.run(&[&arguments[..], &["--exit-when-idle", "1s"]].concat());
            assert_eq!(ran.code, 1, "--topology {topology}: {}", ran.stderr);
            // As one line, whatever the width of the terminal.
            let said: Vec<&str> = ran.stderr.split_whitespace().filter(|word| *word != "│").collect();
            let wanted = format!("`{topic}` would lose messages: {why}");
            assert!(said.join(" ").contains(&wanted), "{}", ran.stderr);
        }
    };
    let dead = world.named(".dlq");
    flow(&dead, "9s");
    world.does(&["topology", "apply", "-c", "redrive.yaml"]);

    world.kafka().topic(&compacted, 1, &[("cleanup.policy", "compact")]);
    flow(&compacted, "9s");
    refused(&compacted, "cleanup.policy compacts");

    world.kafka().topic(&brief, 1, &[("retention.ms", "1000"), ("message.timestamp.type", "LogAppendTime")]);
    flow(&dead, "7s, 9s");
    refused(&brief, "retention.ms is too short");

    // What only forgets what the ledger still shows is said, and loses nothing.
    let forgets = world.named(".forgets");
    world.kafka().topic(&forgets, 1, &[("retention.ms", "3600000")]);
    flow(&forgets, "9s");
    let ran = world.desk.run(&["run", "-c", "redrive.yaml", "--listen", "off", "--exit-when-idle", "1s"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains(&forgets) && ran.stderr.contains("retention.ms"), "{}", ran.stderr);
}

#[test]
fn a_topic_that_is_compressed_by_zstd_is_read() {
    let Some(world) = World::open("zstd") else { return };
    world.kafka().topic(&world.name, 1, &[("compression.type", "zstd")]);
    let running = world.start(&[]);
    let lamp = format!("{{\"item\": \"lamp\", \"note\": \"{}\"}}", "y".repeat(5_000));
    world.publish(&world.name, "order-1", &lamp, &[]);
    assert_eq!(world.shipped(1), [lamp]);
    running.stop();
}

/// `--role ledger` shows what lies in the topics, also what another instance put there, and calls nobody for a record.
#[test]
fn the_role_of_the_ledger_shows_what_lies_in_the_topics() {
    let Some(world) = World::open("shown") else { return };
    world.topic(&world.name, 1);
    let worker = world.start(&[]);
    world.publish(&world.name, "order-1", "{\"item\": \"fridge\"}", &["--key", "customer-1"]);
    let dead = world.stands("order-1", "dead");
    worker.stop();
    world.publish(&world.name, "order-2", "{\"item\": \"lamp\"}", &[]);
    let ledger = world.start(&["--role", "ledger", "--data", "ledger.db"]);
    let shown = eventually("the dead letter in the other ledger", || {
        let ran = world.desk.run(&["messages", "show", "order-1", "--json", "--data", "ledger.db"]);
        if ran.code == 0 { Ok(ran.json()[0].clone()) } else { Err(ran.stderr) }
    });
    for field in ["id", "state", "attempts", "reason"] {
        assert_eq!(shown[field], dead[field], "{field}: {shown}");
    }
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "order-1", "--reason", "fridges are back", "--data", "ledger.db"]);
    let shipped = world.shipped(1);
    assert_eq!(shipped.len(), 1, "the source is not its own: {shipped:?}");
    assert!(shipped[0].contains("fridge"), "{shipped:?}");
    ledger.stop();
}
