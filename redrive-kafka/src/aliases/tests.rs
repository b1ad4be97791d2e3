use rdkafka::ClientConfig;

use super::*;
use crate::client;
use crate::{KafkaBroker, KafkaFlow, SettleMode};

/// A flow with these options.
pub(crate) fn flow(options: &[(&str, &str)]) -> KafkaFlow {
    let mut flow = KafkaFlow::new("orders", "k:9092", "orders", "worker");
    let given = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    flow.client.options.extend(given);
    flow
}

/// What librdkafka is told of an option, by whichever of its names. More than one would be a matter of chance.
pub(crate) fn told<'a>(config: &'a ClientConfig, option: &str) -> Vec<&'a str> {
    let of_option = config.config_map().into_iter().filter(|(given, _)| name(given) == name(option));
    of_option.map(|(_, value)| value).collect()
}

/// The list is librdkafka's own: what is set by one name is read by the other.
#[test]
fn both_names_are_one_option_of_the_client() {
    for (alias, name) in ALIASES {
        let value = match name {
            "acks" => "1",
            // The older one is that of a consumer without a group.
            "enable.auto.commit" => continue,
            "compression.codec" => "zstd",
            "sasl.mechanisms" => "PLAIN",
            "bootstrap.servers" => "k:9092",
            // Not in every build.
            name if name.starts_with("sasl.oauthbearer") => continue,
            _ => "1000",
        };
        for (set, read) in [(alias, name), (name, alias)] {
            let mut config = ClientConfig::new();
            let native = config.set(set, value).create_native_config().unwrap();
            assert_eq!(native.get(read).unwrap(), value, "{set} as {read}");
        }
    }
}

#[test]
fn what_is_given_by_its_other_name_holds() {
    let given = [
        ("compression.type", "zstd"),
        ("queue.buffering.max.ms", "7"),
        ("fetch.message.max.bytes", "12345"),
        ("sasl.mechanism", "PLAIN"),
    ];
    let flow = flow(&given);
    let (producer, consumer) = (client::producer(&flow, None), client::consumer(&flow, "worker"));
    assert_eq!(told(&producer, "compression.type"), ["zstd"]);
    assert_eq!(told(&producer, "linger.ms"), ["7"]);
    assert_eq!(told(&producer, "max.partition.fetch.bytes"), Vec::<&str>::new());
    assert_eq!(told(&consumer, "max.partition.fetch.bytes"), ["12345"]);
    assert_eq!(told(&consumer, "linger.ms"), Vec::<&str>::new());
    assert_eq!(told(&consumer, "sasl.mechanisms"), ["PLAIN"]);
}

#[test]
fn what_redrive_decides_holds_against_either_name() {
    let given = [
        ("metadata.broker.list", "elsewhere:9092"),
        ("delivery.timeout.ms", "300000"),
        ("request.required.acks", "0"),
        ("auto.commit.enable", "true"),
    ];
    let flow = flow(&given);
    let (producer, consumer) = (client::producer(&flow, Some("id")), client::consumer(&flow, "worker"));
    for config in [&producer, &consumer] {
        assert_eq!(told(config, "bootstrap.servers"), ["k:9092"]);
    }
    assert_eq!(told(&producer, "message.timeout.ms"), ["10000"]);
    assert_eq!(told(&producer, "acks"), ["all"]);
    assert_eq!(told(&consumer, "enable.auto.commit"), ["false"]);
}

/// Of dead letters, `compression.type` is the topic's own setting, and `compression.codec` the producer's option.
#[test]
fn the_other_name_of_an_option_of_dead_letters_is_its_producers_too() {
    let mut flow = flow(&[("linger.ms", "3")]);
    flow.dead_letter.options.insert("queue.buffering.max.ms".to_owned(), "9".to_owned());
    flow.dead_letter.options.insert("compression.type".to_owned(), "zstd".to_owned());
    assert!(client::is_producers("queue.buffering.max.ms") && !client::is_producers("compression.type"));
    let config = client::shelf_producer(&flow);
    assert_eq!(told(&config, "linger.ms"), ["9"]);
    assert_eq!(told(&config, "compression.codec"), ["none"]);
    let refused = KafkaBroker::new(flow.clone()).unwrap_err().to_string();
    assert!(refused.contains("`queue.buffering.max.ms`") && refused.contains("settle: plain"), "{refused}");
    flow.settle = SettleMode::Plain;
    assert!(KafkaBroker::new(flow).is_ok());
}

#[test]
fn two_values_of_one_option_are_refused() {
    let refused = KafkaBroker::new(flow(&[("linger.ms", "3"), ("queue.buffering.max.ms", "4")]));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("`queue.buffering.max.ms` and `linger.ms` are one option"), "{refused}");
    let twice = [("sasl.oauthbearer.client.credentials.client.secret", "hunter2")];
    let mut twice = flow(&twice);
    twice.client.options.insert("sasl.oauthbearer.client.secret".to_owned(), "hunter3".to_owned());
    assert!(!format!("{:?}", twice.client).contains("hunter"));
    let refused = KafkaBroker::new(twice).unwrap_err().to_string();
    assert!(refused.contains("sasl.oauthbearer.client.secret") && !refused.contains("hunter"), "{refused}");
    assert!(KafkaBroker::new(flow(&[("retries", "3"), ("message.send.max.retries", "3")])).is_ok());
}
