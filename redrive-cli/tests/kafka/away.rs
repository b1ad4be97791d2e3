//! A Kafka that goes away and comes back.

use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};

use crate::running::{PATIENCE, Running};
use crate::world::{World, eventually, get};

fn status(address: &str, path: &str) -> Result<u16, String> {
    let answer = get(address, path)?;
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(answer)
}

#[test]
fn an_instance_is_not_ready_while_kafka_is_away() {
    let Some(world) = World::own("away") else { return };
    world.topic(&world.name, 1);
    let source = world.source();
    let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "100ms"];
    let (running, address) = world.start_listening(&flow);
    let answers = |path: &'static str, expected: u16| {
        let address = address.clone();
        eventually(&format!("{path} answers {expected}"), || match status(&address, path) {
            Ok(found) if found == expected => Ok(()),
            other => Err(format!("{other:?}")),
        });
    };
    answers("/readyz", 200);
    world.server.kill();
    answers("/readyz", 503);
    answers("/healthz", 200);
    world.server.start();
    answers("/readyz", 200);
    let lamp = "{\"item\": \"lamp\"}";
    world.publish(&world.name, "order-1", lamp, &[]);
    assert_eq!(world.shipped(1), [lamp]);
    running.stop();
}

/// Our producer is fenced off between its copies and its commit, so that only the group's position can tell how that went;
/// and somebody else's transaction is about to move that position, so that the coordinator does not say where it is.
#[test]
fn a_commit_that_nobody_can_tell_of_is_said_and_ends_well() {
    let Some(world) = World::open("unknown") else { return };
    world.topic(&world.name, 1);
    let source = world.source();
    let flow = ["run", "--from", &source, "--to", "exec:sh handle.sh", "--retry", "1h", "--listen", "off"];
    let running = Running::start_failing(&world.desk.path(""), &flow, "kafka.before_commit:1:45000");
    // It has its partition, and knows from where to read it.
    world.publish(&world.name, "order-1", "{\"item\": \"lamp\"}", &[]);
    world.shipped(1);
    let config = world.kafka().config();
    let producer = |id: String| -> BaseProducer {
        let mut config = config.clone();
        config.set("transactional.id", id).set("transaction.timeout.ms", "600000").create().unwrap()
    };
    let consumer: BaseConsumer = config.clone().set("group.id", &world.name).create().unwrap();
    let somebody = producer(world.named("-somebody"));
    somebody.init_transactions(PATIENCE).unwrap();
    somebody.begin_transaction().unwrap();
    let mut place = TopicPartitionList::new();
    place.add_partition_offset(&world.name, 0, Offset::Offset(0)).unwrap();
    somebody.send_offsets_to_transaction(&place, &consumer.group_metadata().unwrap(), PATIENCE).unwrap();

    world.publish(&world.name, "order-2", "no order", &[]);
    let parking = world.named(".parking");
    eventually("its copy is written and not committed", || {
        let found = world.kafka().read_as(&parking, "read_uncommitted").len();
        if found > 0 { Ok(()) } else { Err("nothing".to_owned()) }
    });
    let instance = std::fs::read_to_string(world.desk.path("redrive.db.d/instance")).unwrap();
    producer(format!("{}-{}", world.name, instance.trim())).init_transactions(PATIENCE).unwrap();
    let said = eventually("the alarm", || {
        let flows = world.does(&["flows", "--json"]).json();
        let alarms = flows[0]["alarms"].as_array().cloned().unwrap_or_default();
        let found = alarms.into_iter().find(|alarm| alarm["name"] == "transaction_unknown");
        found.ok_or_else(|| flows[0].to_string())
    });
    let text = said["text"].as_str().unwrap();
    assert!(text.contains("does not say whether a transaction was committed"), "{text}");
    somebody.abort_transaction(PATIENCE).unwrap();
    world.stands("order-2", "parked");
    assert_eq!(world.read(&parking).len(), 1, "it is there once");
    eventually("the alarm is over", || {
        let flows = world.does(&["flows", "--json"]).json();
        if flows[0].to_string().contains("transaction_unknown") { Err(flows[0].to_string()) } else { Ok(()) }
    });
    running.stop();
}
