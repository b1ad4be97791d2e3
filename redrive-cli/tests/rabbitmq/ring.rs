//! A topology of dead-letter exchanges that stands already, and stays in charge.

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::running::{Running, eventually};
use crate::world::World;

/// The ring of the books around the flow's source: rejected messages wait in a queue of their own and come back by
/// themselves. Answers with that queue.
fn ring(world: &World, retries: u32, rest: &str) -> String {
    let (wait, dlx) = (world.named("-wait"), world.named("-dlx"));
    world.queue(
        &wait,
        &[
            ("x-message-ttl", AMQPValue::LongInt(200)),
            ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
            ("x-dead-letter-routing-key", AMQPValue::LongString(world.name.as_str().into())),
        ],
    );
    world.exchange(&dlx, &wait);
    world.queue(&world.name, &[("x-dead-letter-exchange", AMQPValue::LongString(dlx.as_str().into()))]);
    let file = format!(
        "version: 1
brokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}
flows:
  {name}:
    from: amqp://main?queue={name}
    to: exec:sh handle.sh
    retry: 100ms x{retries}
    settle: nack
{rest}",
        world.server(),
        name = world.name
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    wait
}

fn produce(world: &World, id: &str, body: &str) {
    world.produce(&world.name, body, BasicProperties::default().with_message_id(id.into()));
}

/// Waits until nothing goes round any more.
fn rests(world: &World, wait: &str) {
    for queue in [wait, &world.name] {
        eventually("nothing goes round", || match world.ready(queue) {
            Some(0) => Ok(()),
            other => Err(format!("{queue}: {other:?}")),
        });
    }
}

#[test]
fn a_topology_that_stands_already_is_left_in_charge() {
    let Some(world) = World::open("nack") else { return };
    // It is looked for while it waits, however long that takes; an open breaker would keep it from being rejected.
    let wait = ring(&world, 10_000, "    breaker: { consecutive: 0, min_calls: 100000 }\n");
    let running = world.start_with(&["-c", "redrive.yaml"]);
    let plan = world.does(&["topology", "plan", "-c", "redrive.yaml", "--json"]).text().to_owned();
    assert!(!plan.contains(".retry") && plan.contains(".dlq"), "{plan}");
    produce(&world, "order-1", "{\"item\": \"fridge\"}");
    eventually("it has been rejected", || match world.ready(&wait) {
        Some(1) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    assert_eq!(world.shipped(1), ["{\"item\": \"fridge\"}"]);
    running.stop();
    world.delete(&wait);
}

#[test]
fn a_message_whose_attempts_are_spent_leaves_the_ring_once() {
    let Some(world) = World::open("nack-ends") else { return };
    let wait = ring(&world, 2, "");
    let running = world.start_with(&["-c", "redrive.yaml"]);
    produce(&world, "order-1", "{\"item\": \"fridge\"}");
    produce(&world, "order-2", "hello?");
    let parked = world.take(&world.named(".parking"), 1).remove(0);
    assert_eq!((parked.id.as_deref(), parked.body.as_str()), (Some("order-2"), "hello?"));
    assert_eq!(parked.header("x-retry-attempt").as_deref(), Some("1"));
    let dead = world.take(&world.named(".dlq"), 1).remove(0);
    assert_eq!((dead.id.as_deref(), dead.body.as_str()), (Some("order-1"), "{\"item\": \"fridge\"}"));
    assert_eq!(dead.header("x-retry-attempt").as_deref(), Some("3"));
    assert_eq!(dead.header("x-death"), None);
    assert!(dead.header("x-redrive-death").is_some_and(|deaths| deaths.contains("\"count\":2")), "{dead:?}");
    rests(&world, &wait);
    running.stop();
    for queue in [".dlq", ".parking"] {
        assert_eq!(world.ready(&world.named(queue)), Some(0), "{queue}: it ended once");
    }
    world.delete(&wait);
}

#[test]
fn a_kill_between_the_copy_and_the_acknowledgement_gives_one_copy_more_at_most() {
    let Some(world) = World::open("nack-kill") else { return };
    let wait = ring(&world, 2, "    crash_limit: 100\n");
    let folder = world.desk.path("");
    let arguments = ["run", "-c", "redrive.yaml", "--listen", "off", "--log-level", "warn"];
    let failing = Running::start_failing(&folder, &arguments, "rabbit.after_publish");
    produce(&world, "order-1", "{\"item\": \"fridge\"}");
    failing.dies();
    let running = Running::start(&folder, &arguments);
    let copies = world.take(&world.named(".dlq"), 2);
    assert!(copies.iter().all(|copy| copy.id.as_deref() == Some("order-1")), "{copies:?}");
    rests(&world, &wait);
    running.stop();
    assert_eq!(world.ready(&world.named(".dlq")), Some(0), "one more for one kill");
    world.delete(&wait);
}

#[test]
fn a_topology_with_an_end_of_its_own_keeps_it() {
    let Some(world) = World::open("nack-all") else { return };
    let wait = ring(&world, 2, "    dead_letter: { reject: true }\n");
    let running = world.start_with(&["-c", "redrive.yaml"]);
    produce(&world, "order-1", "hello?");
    eventually("it has been rejected, though nobody can read it", || match world.ready(&wait) {
        Some(1) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(world.ready(&world.named(".dlq")), None, "the flow makes nothing");
    running.stop();
    world.delete(&wait);
}
