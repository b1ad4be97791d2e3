//! The ledger beside RabbitMQ: made again, left out, and what it cannot bring back.

use serde_json::Value;

use crate::running::eventually;
use crate::world::World;

const FRIDGE: &str = "{\"item\": \"fridge\"}";

#[test]
fn a_ledger_is_made_again_from_what_the_queues_keep() {
    let Some(world) = World::open("rebuilt") else { return };
    let running = world.start(&[]);
    for (shipped, id) in (1..).zip(["stays", "resolved"]) {
        world.publish(&world.name, id, FRIDGE, &[]);
        world.stands(id, "dead");
        // One that succeeds in between keeps the breaker closed.
        world.publish(&world.name, &format!("between-{shipped}"), "{\"item\": \"lamp\"}", &[]);
        world.shipped(shipped);
    }
    world.publish(&world.name, "torn", "hello?", &[]);
    world.stands("torn", "parked");
    world.does(&["discard", "resolved", "--reason", "a test order"]);
    // What people resolved is kept at the broker a moment later.
    eventually("the resolution at the broker", || match world.ready(&world.named(".resolved")) {
        Some(0) | None => Err("nothing yet".to_owned()),
        Some(_) => Ok(()),
    });
    let before = world.stands("stays", "dead");
    running.stop();

    for file in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
        let _ = std::fs::remove_file(world.desk.path(file));
    }
    let running = world.start(&[]);
    let rebuilt = world.does(&["ledger", "rebuild", "--reason", "the disk was lost", "--json"]).json();
    assert_eq!(rebuilt[0]["flow"], world.name.as_str());
    let after = world.stands("stays", "dead");
    assert_eq!(after["id"], before["id"], "the same id");
    assert_eq!(after["attempts"], before["attempts"]);
    world.stands("torn", "parked");
    let open = world.does(&["messages", "ls", "--state", "dead", "--json"]).json();
    assert_eq!(open.len(), 1, "what a person resolved does not come back: {open:?}");
    let letters = || (world.ready(&world.named(".dlq")), world.ready(&world.named(".parking")));
    assert_eq!(letters(), (Some(2), Some(1)), "what was read is in its queue still");
    world.does(&["ledger", "rebuild", "--reason", "once more"]);
    assert_eq!(letters(), (Some(2), Some(1)));

    let source =
        world.desk.run(&["replay", "source", &world.name, "--since", "1h", "--reason", "a lost hour"]);
    assert_ne!(source.code, 0, "a queue does not keep what was read: {}", source.stderr);

    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "stays", "--reason", "fridges are back"]);
    world.stands("stays", "recovered");
    running.stop();
}

#[test]
fn without_a_ledger_dead_letters_live_in_the_broker_alone() {
    let Some(world) = World::open("alone") else { return };
    let running = world.start(&["--no-ledger"]);
    world.publish(&world.name, "order-1", FRIDGE, &[]);
    let letter = world.take(&world.named(".dlq"), 1).remove(0);
    assert_eq!((letter.id.as_deref(), letter.body.as_str()), (Some("order-1"), FRIDGE));
    assert_eq!(letter.header("x-retry-attempt").as_deref(), Some("3"));
    let listed = world.does(&["messages", "ls", "--json"]).json();
    assert_eq!(listed, Vec::<Value>::new());
    running.stop();

    let source = world.source();
    let flow = ["run", "--from", &source, "--to", "exec:true", "--listen", "off"];
    for (more, says) in [
        (&["--no-ledger", "--delay", "ledger"][..], "wait in the ledger"),
        (&["--no-ledger", "--order-by", "header:customer", "--data", "x.db"], "order is kept in the ledger"),
        (&["--role", "retry"], "--role"),
    ] {
        let refused = world.desk.run(&[&flow[..], more].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        let text = refused.stderr.replace('│', " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(says), "{}", refused.stderr);
    }
}

#[test]
fn what_waits_in_the_ledger_comes_in_its_time() {
    let Some(world) = World::open("kept") else { return };
    let source = world.source();
    let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "300ms x20", "--delay", "ledger"];
    let running = world.start_with(&flow);
    world.publish(&world.name, "order-1", FRIDGE, &[]);
    world.stands("order-1", "waiting");
    assert_eq!(world.ready(&world.named(".retry.300ms")), None, "there is no queue to wait in");
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    assert_eq!(world.shipped(1), [FRIDGE]);
    world.stands("order-1", "recovered");
    running.stop();
}

#[test]
fn a_stream_is_read_on_where_it_was_left_and_replayed_by_offset() {
    let Some(world) = World::open("stream") else { return };
    let file = format!(
        "version: 1
brokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}
flows:
  {name}:
    from: amqp://main?queue={name}
    to: exec:sh handle.sh
    retry: 100ms x2
    queue: {{ kind: stream }}
",
        world.server(),
        name = world.name
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    let order = |number: usize| format!("{{\"order\": {number}}}");
    let running = world.start_with(&["-c", "redrive.yaml"]);
    for number in 0..3 {
        world.publish(&world.name, &format!("order-{number}"), &order(number), &[]);
    }
    world.shipped(3);
    world.publish(&world.name, "fridge-1", "{\"item\": \"fridge\"}", &[]);
    world.stands("fridge-1", "dead");
    running.stop();

    let running = world.start_with(&["-c", "redrive.yaml"]);
    world.publish(&world.name, "order-3", &order(3), &[]);
    let shipped = world.shipped(4);
    let mut expected: Vec<String> = (0..4).map(order).collect();
    assert_eq!(shipped[3], order(3), "what was handled is not read again: {shipped:?}");
    let sent = world.does(&[
        "replay",
        "source",
        &world.name,
        "--offsets",
        "0:0-1",
        "--json",
        "--reason",
        "a lost hour",
    ]);
    assert_eq!(sent.json()[0]["messages"], 2);
    expected.extend((0..2).map(order));
    let mut shipped = world.shipped(6);
    shipped.sort();
    expected.sort();
    assert_eq!(shipped, expected);
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "fridge-1", "--reason", "fridges are back"]);
    world.stands("fridge-1", "recovered");
    running.stop();
    let refused = world.desk.run(&["run", "-c", "redrive.yaml", "--no-ledger", "--listen", "off"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}
