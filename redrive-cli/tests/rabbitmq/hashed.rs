//! Several instances at once, each with the keys that a consistent hash gives to its queue.

use std::collections::BTreeMap;

use lapin::ExchangeKind;
use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Confirmation};

use crate::http::Journal;
use crate::running::{Running, eventually};
use crate::world::World;

const KEYS: usize = 24;
const OF_EACH: usize = 3;

fn start(world: &World, queue: &str, journal: &Journal) -> Running {
    let file = format!("{queue}.yaml");
    let (server, to) = (world.server(), journal.address);
    let text = format!(
        "version: 1\nbrokers: {{ main: {{ rabbitmq: {{ url: \"{server}\" }} }} }}\nflows:\n  {queue}:\n    from: amqp://main?queue={queue}\n    to: http://{to}/orders\n    retry: 100ms x3\n    order_by: key\n"
    );
    std::fs::write(world.desk.path(&file), text).unwrap();
    world.start_with(&["-c", &file, "--data", &format!("{queue}.db")])
}

/// What was handled, by key.
fn handled(journal: &Journal) -> BTreeMap<String, Vec<usize>> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for id in journal.order() {
        let (key, number) = id.split_once('-').unwrap();
        by_key.entry(key.to_owned()).or_default().push(number.parse().unwrap());
    }
    by_key
}

#[test]
fn a_key_has_one_instance_and_keeps_its_order_over_retries() {
    let Some(world) = World::open("hashed") else { return };
    if !world.server.ours_to_order() {
        return;
    }
    let queues = [world.named("-a"), world.named("-b")];
    for queue in &queues {
        world.queue(queue, &[]);
    }
    let exchange = world.named("-hash");
    world.on_channel(async |channel| {
        let (options, nothing) = (ExchangeDeclareOptions::default(), FieldTable::default());
        let kind = ExchangeKind::Custom("x-consistent-hash".to_owned());
        channel.exchange_declare(exchange.as_str().into(), kind, options, nothing.clone()).await.unwrap();
        for queue in &queues {
            let (queue, exchange, weight) = (queue.as_str().into(), exchange.as_str().into(), "10".into());
            let options = QueueBindOptions::default();
            channel.queue_bind(queue, exchange, weight, options, nothing.clone()).await.unwrap();
        }
        for number in 0..OF_EACH {
            for key in 0..KEYS {
                let body: &[u8] = if number == 0 && key < 3 { b"flaky" } else { b"ok" };
                let properties = BasicProperties::default()
                    .with_message_id(format!("{key}-{number}").into())
                    .with_delivery_mode(2);
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let key = format!("customer-{key}");
                let sent = channel.basic_publish(
                    exchange.as_str().into(),
                    key.as_str().into(),
                    options,
                    body,
                    properties,
                );
                let confirmation = sent.await.unwrap().await.unwrap();
                assert!(matches!(confirmation, Confirmation::Ack(None)), "not stored: {confirmation:?}");
            }
        }
    });
    let journals = [Journal::start(), Journal::start()];
    let running: Vec<Running> =
        queues.iter().zip(&journals).map(|(queue, journal)| start(&world, queue, journal)).collect();
    eventually("all to be handled", || {
        let done: usize = journals.iter().map(|journal| journal.order().len()).sum();
        if done == KEYS * OF_EACH { Ok(()) } else { Err(format!("{done}")) }
    });
    running.into_iter().for_each(Running::stop);
    let [one, other] = journals.each_ref().map(handled);
    assert!(!one.is_empty() && !other.is_empty(), "{one:?} {other:?}");
    for (key, numbers) in one.iter().chain(&other) {
        assert_eq!(*numbers, (0..OF_EACH).collect::<Vec<_>>(), "of {key}, at one instance and in order");
    }
    assert_eq!(one.len() + other.len(), KEYS);
    world.delete_exchanges(&[exchange]);
    for queue in &queues {
        world.delete(queue);
    }
}
