//! What people do to messages of a flow on Kafka, and where it is refused.

use crate::world::{World, eventually};

const FRIDGE: &str = "{\"item\": \"fridge\"}";

#[test]
fn a_dead_letter_is_sent_to_another_topic() {
    let Some(world) = World::open("rerouted") else { return };
    let elsewhere = world.named("-elsewhere");
    world.topic(&world.name, 1);
    world.topic(&elsewhere, 2);
    let running = world.start(&[]);
    world.publish(&world.name, "order-1", FRIDGE, &["--key", "customer-1", "--header", "type=OrderPlaced"]);
    world.stands("order-1", "dead");
    world.does(&["reroute", "order-1", &world.at(&elsewhere), "--reason", "others handle fridges"]);
    let found = eventually("the message at its target", || {
        world.read(&elsewhere).pop().ok_or_else(|| "nothing".to_owned())
    });
    assert_eq!((found.body.as_deref(), found.key.as_deref()), (Some(FRIDGE), Some("customer-1")));
    assert_eq!(found.header("type"), Some("OrderPlaced"));
    assert_eq!(found.header("x-entry-id"), None, "it is a message like any other there");
    let audit = world.does(&["audit", "ls", "--json"]);
    assert!(audit.text().contains("others handle fridges"), "{}", audit.text());
    running.stop();
}

#[test]
fn what_waits_is_not_touched_while_others_may_have_it() {
    let Some(world) = World::open("several") else { return };
    world.topic(&world.name, 2);
    let source = world.source();
    let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "1h"];
    let first = world.start_with(&flow);
    world.publish(&world.name, "order-1", FRIDGE, &[]);
    world.stands("order-1", "waiting");
    let second = world.start_with(&[&flow[..], &["--data", "second.db"]].concat());
    for deed in ["retry-now", "cancel", "park", "discard"] {
        eventually("it is refused", || {
            let ran = world.desk.run(&[deed, "order-1", "--reason", "now"]);
            if ran.code == 4 {
                Ok(())
            } else {
                Err(format!("{deed}: {} {}{}", ran.code, ran.text(), ran.stderr))
            }
        });
        world.stands("order-1", "waiting");
    }
    second.stop();
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    eventually("it is alone, and may", || {
        let ran = world.desk.run(&["retry-now", "order-1", "--reason", "now"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    assert_eq!(world.shipped(1), [FRIDGE]);
    world.stands("order-1", "recovered");
    first.stop();
}

#[test]
fn a_flow_without_a_ledger_takes_no_orders() {
    let Some(world) = World::open("unheard") else { return };
    world.topic(&world.name, 1);
    let running = world.start(&["--no-ledger"]);
    let orders: [&[&str]; 3] = [
        &["pause", &world.name, "--reason", "a release"],
        &["pause", &world.name, "--retries", "--reason", "a release"],
        &["quarantine", "add", &world.name, "key=customer-1", "--reason", "a release"],
    ];
    for order in orders {
        let ran = world.desk.run(order);
        assert_eq!(ran.code, 4, "{order:?}: {}{}", ran.text(), ran.stderr);
        assert!(ran.stderr.contains("ledger"), "{order:?}: {}", ran.stderr);
    }
    let lamp = "{\"item\": \"lamp\"}";
    world.publish(&world.name, "order-1", lamp, &["--key", "customer-1"]);
    assert_eq!(world.shipped(1), [lamp], "it goes on as if nobody had said anything");
    running.stop();
}
