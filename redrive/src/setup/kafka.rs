//! From a flow as a person writes it to one on Kafka.

use redrive_core::Policy;
use redrive_kafka::{
    Bodies, ClientOptions, DeadLetter, DeadLetterFormat, DelayMode, Groups, KafkaFlow, NewTopics, Parking,
    PartitionBy, SettleMode, Suffixes,
};

use crate::address::KafkaAddress;
use crate::config::{self, Config, Flow};
use crate::setup::secrets::password;
use crate::setup::waits;

/// A flow on Kafka. `policies` are all that its messages may have.
pub(super) fn flow(
    config: &Config,
    name: &str,
    address: &KafkaAddress,
    policies: &[&Policy],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<KafkaFlow, String> {
    let flow = config.flows.get(name).ok_or("there is no such flow")?;
    let mut kafka = named(config, name, flow, address)?;
    kafka.client = client(config, address, env)?;
    kafka.steps = waits::nominal(policies);
    kafka.longest_delay = waits::longest(flow, policies);
    kafka.settle = match flow.settle {
        Some(config::Settle::Plain) => SettleMode::Plain,
        Some(config::Settle::Transactional) | None => SettleMode::Transactional,
        Some(config::Settle::Republish | config::Settle::Nack) => {
            return Err("settle: Kafka knows transactional and plain".to_owned());
        }
    };
    if let Some(settings) = &flow.kafka {
        set(&mut kafka, settings);
    }
    Ok(kafka)
}

/// A flow with its topics and groups, and nothing else that it needs.
pub(crate) fn named(
    config: &Config,
    name: &str,
    flow: &Flow,
    address: &KafkaAddress,
) -> Result<KafkaFlow, String> {
    let group = address.group.as_deref().unwrap_or(name);
    let mut kafka = KafkaFlow::new(name, "", "", group);
    let delay = delay(flow.delay)?;
    let written = flow.suffixes.clone().or_else(|| config.suffixes.clone()).unwrap_or_default();
    let or = |suffix: &Option<String>, usual: &str| suffix.clone().unwrap_or_else(|| usual.to_owned());
    let [main, retry, waiting, ledger] = flow.groups.clone().unwrap_or_default().named(group);
    kafka.topics.clone_from(&address.topics);
    kafka.groups = Groups { main, retry, delay: waiting, ledger };
    kafka.delay = delay;
    kafka.dead_letter = dead_letter(flow, &format!("{name}{}", or(&written.dead_letter, ".dlq")));
    kafka.parking = match flow.parking.as_deref() {
        Some("same") => Parking::Same,
        Some(topic) => Parking::Topic(topic.to_owned()),
        None => Parking::Topic(format!("{name}{}", or(&written.parking, ".parking"))),
    };
    kafka.foreign.clone_from(&flow.foreign);
    let usual = if delay == DelayMode::Single { "-retry" } else { ".retry" };
    kafka.suffixes =
        Suffixes { retry: or(&written.retry, usual), resolved: or(&written.resolved, ".resolved") };
    Ok(kafka)
}

fn set(kafka: &mut KafkaFlow, settings: &config::KafkaSettings) {
    let window = &mut kafka.window;
    window.records = settings.window_records.map_or(window.records, |records| records as usize);
    window.bytes =
        settings.window_bytes.map_or(window.bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    kafka.drain = settings.drain.map_or(kafka.drain, |drain| drain.0);
    kafka.bodies = match settings.bodies {
        Some(config::Bodies::Pointer) => Bodies::Pointer,
        Some(config::Bodies::Copy) | None => Bodies::Copy,
    };
    kafka.new_topics = NewTopics {
        replication: settings.replication.map(i32::from),
        keeps: settings.retention.map(|retention| retention.0),
    };
}

/// How Kafka is reached: by a broker of the file, or by the hosts of the address. What the address says wins.
pub(crate) fn client(
    config: &Config,
    address: &KafkaAddress,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<ClientOptions, String> {
    let named = match address.hosts.as_slice() {
        [host] => {
            config.brokers.get(host).and_then(|broker| broker.kafka.as_ref().map(|kafka| (host, kafka)))
        }
        _ => None,
    };
    let mut client = match named {
        None => ClientOptions { bootstrap: address.hosts.join(","), ..ClientOptions::default() },
        Some((name, kafka)) => {
            let bootstrap: Vec<&str> = kafka.bootstrap.split(',').map(str::trim).collect();
            let mut options = kafka.options.clone();
            if let Some(password) =
                password(kafka.password_env.as_deref(), kafka.password_file.as_deref(), env)
                    .map_err(|why| format!("brokers.{name}.kafka.{why}"))?
            {
                options.insert("sasl.password".to_owned(), password);
            }
            ClientOptions { bootstrap: bootstrap.join(","), options }
        }
    };
    let own = address.options.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    client.options.extend(own);
    Ok(client)
}

fn delay(mode: Option<config::DelayMode>) -> Result<DelayMode, String> {
    Ok(match mode {
        None | Some(config::DelayMode::Cascade) => DelayMode::Cascade,
        Some(config::DelayMode::Tiered) => DelayMode::Tiered,
        Some(config::DelayMode::Single) => DelayMode::Single,
        Some(config::DelayMode::Pointer) => DelayMode::Pointer,
        Some(config::DelayMode::Ledger) => DelayMode::Ledger,
        Some(config::DelayMode::Ring | config::DelayMode::DelayedExchange) => {
            return Err("delay: Kafka knows cascade, tiered, single, pointer and ledger".to_owned());
        }
    })
}

fn dead_letter(flow: &Flow, usual: &str) -> DeadLetter {
    let spec = flow.dead_letter_spec();
    DeadLetter {
        topic: spec.name.unwrap_or_else(|| usual.to_owned()),
        format: match spec.format {
            Some(config::Format::Envelope) => DeadLetterFormat::Envelope,
            Some(config::Format::Raw) | None => DeadLetterFormat::Raw,
        },
        partition: match spec.partition {
            Some(config::Partition::Key) => PartitionBy::Key,
            Some(config::Partition::Same) | None => PartitionBy::Same,
        },
        options: spec.options,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::address::SourceAddress;

    fn set_up(file: &str) -> Result<KafkaFlow, String> {
        let report = config::check(file.as_bytes(), &|_| None);
        let config = report.value.unwrap_or_else(|| panic!("{:?}", report.findings));
        let Ok(SourceAddress::Kafka(address)) = config.flows["orders"].from.parse() else {
            panic!("no Kafka")
        };
        let policy = config.flow_policy("orders", None).unwrap_or_default().build().unwrap();
        let env = |name: &str| (name == "KAFKA_PASSWORD").then(|| "hunter2".to_owned());
        flow(&config, "orders", &address, &[&policy], &env)
    }

    #[test]
    fn a_flow_with_nothing_to_say_has_the_usual_names() {
        let flow = set_up(
            "{ version: 1, flows: { orders: { from: 'kafka://k1:9092,k2:9092/orders,returns?group=w&client.id=me',
               to: 'http://127.0.0.1:3000', retry: '10s, 1m x3, 10s jitter 10%' } } }",
        );
        let flow = flow.unwrap();
        assert_eq!(flow.topics, ["orders", "returns"]);
        assert_eq!(flow.groups, Groups::of("w"));
        assert_eq!(flow.client.bootstrap, "k1:9092,k2:9092");
        assert_eq!(flow.client.options["client.id"], "me");
        assert_eq!(flow.steps, [Duration::from_secs(10), Duration::from_secs(60)]);
        assert!(flow.longest_delay >= Duration::from_secs(66));
        assert_eq!(flow.dead_letter.topic, "orders.dlq");
        assert_eq!(flow.parking, Parking::Topic("orders.parking".to_owned()));
        assert_eq!(flow.suffixes.retry, ".retry");
    }

    #[test]
    fn a_broker_of_the_file_brings_hosts_options_and_its_password() {
        let file = |password: &str| {
            format!(
                "{{ version: 1, brokers: {{ main: {{ kafka: {{ bootstrap: 'k1:9092, k2:9092',
                   options: {{ sasl.username: app }}, password_env: {password} }} }} }},
                   flows: {{ orders: {{ from: 'kafka://main/orders', to: 'http://127.0.0.1:3000',
                   delay: single, settle: plain, parking: same, groups: {{ retry: r }},
                   suffixes: {{ dead_letter: .DLT, resolved: .done }}, foreign: [old.DLT] }} }} }}"
            )
        };
        let flow = set_up(&file("KAFKA_PASSWORD")).unwrap();
        assert_eq!(flow.client.bootstrap, "k1:9092,k2:9092");
        assert_eq!(flow.client.options["sasl.password"], "hunter2");
        assert!(!format!("{flow:?}").contains("hunter2"));
        assert_eq!(flow.groups, Groups { retry: "r".to_owned(), ..Groups::of("orders") });
        assert_eq!((flow.delay, flow.settle), (DelayMode::Single, SettleMode::Plain));
        assert_eq!((flow.dead_letter.topic.as_str(), flow.parking), ("orders.DLT", Parking::Same));
        assert_eq!(flow.suffixes, Suffixes { retry: "-retry".into(), resolved: ".done".into() });
        assert_eq!(flow.foreign, ["old.DLT"]);
        let error = set_up(&file("NOT_SET")).unwrap_err();
        assert_eq!(error, "brokers.main.kafka.password_env: the environment has no `NOT_SET`");
    }

    #[test]
    fn a_flow_that_would_read_what_it_writes_is_not_set_up() {
        let refused = |from: &str, rejected: Option<&str>| {
            // As the builder makes it, which no file is checked for.
            let mut written = serde_json::json!({ "from": from, "to": "http://h" });
            written["rejected"] = rejected.into();
            let mut config = Config { version: config::VERSION, ..Config::default() };
            config.flows.insert("orders".to_owned(), serde_json::from_value(written).unwrap());
            let set_up = super::super::flow(&config, "orders", super::super::InCode::default(), &|_| None);
            set_up.err().map(|error| error.to_string())
        };
        for topic in ["orders.dlq", "orders.parking", "orders.resolved", "orders.retry.10s"] {
            let why = refused(&format!("kafka://h:9092/orders,{topic}?group=g"), None);
            let why = why.unwrap_or_else(|| panic!("{topic}"));
            assert!(why.starts_with(&format!("flow `orders`: the flow reads the topic `{topic}`")), "{why}");
        }
        for (from, rejected) in [
            ("kafka://h:9092/orders", "kafka://h:9092/orders"),
            ("queue:orders", "queue:orders"),
            ("amqp://h?queue=orders", "amqp://h?queue=orders"),
        ] {
            let why = refused(from, Some(rejected)).unwrap_or_else(|| panic!("{from}"));
            assert!(why.contains("rejections would go to the"), "{why}");
        }
        assert_eq!(refused("kafka://h:9092/orders", Some("kafka://h:9092/orders.rejected")), None);
        let why = refused("amqp://h?queue=orders.dlq", None).unwrap();
        assert!(why.contains("the queue `orders.dlq`"), "{why}");
    }

    #[test]
    fn how_kafka_is_read_and_topics_are_made_can_be_said() {
        let flow = set_up(
            "{ version: 1, flows: { orders: { from: 'kafka://k1:9092/orders', to: 'http://127.0.0.1:3000',
               kafka: { window_records: 500, window_bytes: 2000000, drain: 30s, replication: 3, retention: 30d,
                        bodies: pointer } } } }",
        );
        let flow = flow.unwrap();
        assert_eq!(flow.bodies, Bodies::Pointer);
        assert_eq!((flow.window.records, flow.window.bytes), (500, 2_000_000));
        assert_eq!(flow.drain, Duration::from_secs(30));
        let keeps = Some(Duration::from_secs(30 * 86_400));
        assert_eq!(flow.new_topics, NewTopics { replication: Some(3), keeps });
    }

    #[test]
    fn dead_letters_have_producer_options_of_their_own_only_without_transactions() {
        let file = |settle: &str| {
            format!(
                "{{ version: 1, flows: {{ orders: {{ from: 'kafka://k1:9092/orders', to: 'http://127.0.0.1:3000',
                   settle: {settle}, dead_letter: {{ options: {{ linger.ms: '5', retention.ms: '-1' }} }} }} }} }}"
            )
        };
        let report = config::check(file("transactional").as_bytes(), &|_| None);
        let found = format!("{:?}", report.findings);
        assert!(found.contains("`linger.ms` needs a producer"), "{found}");
        let flow = set_up(&file("plain")).unwrap();
        assert_eq!(flow.dead_letter.options.len(), 2);
    }

    #[test]
    fn a_flow_that_forwards_waits_as_long_as_it_allows() {
        let flow = set_up(
            "{ version: 1, flows: { orders: { from: 'kafka://k1:9092/due',
               to: { forward: { allow: [mail], longest: 30d } } } } }",
        );
        assert_eq!(flow.unwrap().longest_delay, Duration::from_secs(30 * 86_400));
    }
}
