//! Queues beside the flow's own: targets, dead letters of other systems.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::running::eventually;
use crate::world::World;

#[test]
fn a_message_is_delivered_to_another_queue_when_it_is_due() {
    let Some(world) = World::open("due") else { return };
    let (due, mail) = (world.named(""), world.named("-mail"));
    world.queue(&mail, &[]);
    let file = format!(
        "version: 1
brokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}
flows:
  {due}: {{ from: \"amqp://main?queue={due}\", to: {{ forward: {{ allow: [\"{due}-ma*\"], longest: 1h }} }} }}
",
        world.server()
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    let running = world.start_with(&["-c", "redrive.yaml"]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let at = format!("x-process-after={}", now + 1_500);
    let to = format!("x-forward-to={mail}");
    let headers = ["--header", &to, "--header", &at, "--header", "type=Reminder"];
    world.publish(&due, "later", "ring", &headers);
    world.publish(&due, "nowhere", "ring", &["--header", "x-forward-to=secrets"]);
    let parked = world.stands("nowhere", "parked");
    assert_eq!(parked["reason"], "FORWARD_REFUSED");
    let arrived = world.take(&mail, 1).remove(0);
    let then = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!(then >= now + 1_500, "it came before its time");
    assert_eq!((arrived.id.as_deref(), arrived.body.as_str()), (Some("later"), "ring"));
    assert_eq!(arrived.header("type").as_deref(), Some("Reminder"));
    for name in ["x-forward-to", "x-process-after", "x-entry-id", "x-wait-id"] {
        assert_eq!(arrived.header(name), None, "{name}");
    }
    running.stop();
}

#[test]
fn a_message_is_published_with_a_delay() {
    let Some(world) = World::open("delayed") else { return };
    let running = world.start(&[]);
    let began = std::time::SystemTime::now();
    world.publish(&world.name, "later", "{\"item\": \"lamp\"}", &["--delay", "1s"]);
    assert_eq!(world.shipped(1).len(), 1);
    assert!(began.elapsed().unwrap() >= std::time::Duration::from_secs(1), "it came before its time");
    running.stop();
}

#[test]
fn a_dead_letter_is_rerouted_and_a_rejection_is_published() {
    let Some(world) = World::open("rejects") else { return };
    let (by_hand, rejected) = (world.named("-by-hand"), world.named("-rejected"));
    world.queue(&by_hand, &[]);
    world.queue(&rejected, &[]);
    let file = format!(
        "version: 1
brokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}
flows:
  {name}:
    from: amqp://main?queue={name}
    to: exec:sh handle.sh
    retry: 100ms
    rejected: amqp://main?queue={rejected}
    policy:
      rules:
        - {{ when: {{ exit: 65 }}, class: PERMANENT_BUSINESS, reason: NOT_AN_ORDER, then: reject }}
",
        world.server(),
        name = world.name
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    let running = world.start_with(&["-c", "redrive.yaml"]);
    world.publish(&world.name, "order-1", "hello?", &[]);
    let event = world.take(&rejected, 1).remove(0);
    assert!(event.body.contains("redrive.rejected") && event.body.contains("NOT_AN_ORDER"), "{}", event.body);
    world.publish(&world.name, "order-2", "{\"item\": \"fridge\"}", &[]);
    world.stands("order-2", "dead");
    let target = format!("amqp://main?queue={by_hand}");
    world.does(&["reroute", "order-2", &target, "--reason", "needs a person"]);
    let arrived = world.take(&by_hand, 1).remove(0);
    assert_eq!((arrived.id.as_deref(), arrived.body.as_str()), (Some("order-2"), "{\"item\": \"fridge\"}"));
    world.stands("order-2", "archived");
    running.stop();
}

#[test]
fn dead_letters_move_into_the_ledger_when_it_is_asked_to_keep_them() {
    let Some(world) = World::open("adopt") else { return };
    let old = world.named("-old");
    world.queue(&old, &[]);
    let file = format!(
        "version: 1
brokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}
flows:
  {name}:
    from: amqp://main?queue={name}
    to: exec:sh handle.sh
    retry: 100ms
    dead_letter: {{ adopt: true }}
    foreign: [{old}]
",
        world.server(),
        name = world.name
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    // What another system gave up, as the broker marks it.
    let mut death = FieldTable::default();
    death.insert("count".into(), AMQPValue::LongLongInt(3));
    death.insert("queue".into(), AMQPValue::LongString("theirs".into()));
    death.insert("reason".into(), AMQPValue::LongString("rejected".into()));
    death.insert("exchange".into(), AMQPValue::LongString("".into()));
    let mut headers = FieldTable::default();
    let deaths = lapin::types::FieldArray::from(vec![AMQPValue::FieldTable(death)]);
    headers.insert("x-death".into(), AMQPValue::FieldArray(deaths));
    let properties = BasicProperties::default().with_message_id("theirs-1".into()).with_headers(headers);
    world.produce(&old, "{\"item\": \"lamp\"}", properties);

    let running = world.start_with(&["-c", "redrive.yaml"]);
    world.publish(&world.name, "order-1", "{\"item\": \"fridge\"}", &[]);
    world.stands("order-1", "dead");
    world.stands("theirs-1", "dead");
    for queue in [&world.named(".dlq"), &old] {
        eventually("the queue is empty", || match world.ready(queue) {
            Some(0) => Ok(()),
            other => Err(format!("{queue}: {other:?}")),
        });
    }
    world.does(&["replay", "run", "theirs-1", "--reason", "theirs is ours now"]);
    assert_eq!(world.shipped(1), ["{\"item\": \"lamp\"}"]);
    running.stop();
}
