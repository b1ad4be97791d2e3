//! From a flow as a person writes it to one on RabbitMQ.

use std::time::Duration;

use redrive_core::Policy;
use redrive_core::guard::Rate;
use redrive_rabbitmq::{
    Adopt, DeadLetter, DeadLetterFormat, DelayMode, Login, Parking, QueueKind, RabbitFlow, SettleMode,
    Suffixes, Tls,
};

use super::secrets::password;
use super::waits;
use crate::address::{AmqpAddress, SourceAddress};
use crate::config::{self, Config, Flow};

/// Steps that get a queue of their own; a schedule with more of them goes through the levels for the rest.
const MOST_STEPS: usize = 24;

/// How long the last of what was prefetched may have to wait for its turn: half of the time after which RabbitMQ closes a
/// channel that does not answer for a message.
const LONGEST_TURN: Duration = Duration::from_secs(15 * 60);

/// How many messages a flow has in hand unless more are asked for. Whatever one instance has prefetched, no other can
/// handle, and all of it comes again when its connection is lost.
pub(super) fn in_hand(concurrency: usize) -> usize {
    concurrency.saturating_mul(4).max(256)
}

/// How many of these RabbitMQ hands out beforehand: no more than are handled in time, however long each call takes, and
/// however few may begin.
pub(super) fn prefetched(concurrency: usize, timeout: Duration, rate: Option<Rate>) -> u16 {
    let times = |each: Duration, count: usize| {
        let times = LONGEST_TURN.as_nanos() * count as u128 / each.as_nanos().max(1);
        usize::try_from(times).unwrap_or(usize::MAX)
    };
    let in_time = times(timeout, concurrency).max(concurrency);
    let may_begin = rate.map_or(usize::MAX, |rate| times(rate.per(), rate.count() as usize).max(1));
    u16::try_from(in_hand(concurrency).min(in_time).min(may_begin)).unwrap_or(u16::MAX)
}

/// A flow on RabbitMQ. `policies` are all that its messages may have; `prefetch` is what is taken in beforehand, unless
/// the flow says it.
pub(super) fn flow(
    config: &Config,
    name: &str,
    address: &AmqpAddress,
    policies: &[&Policy],
    prefetch: u16,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<RabbitFlow, String> {
    let flow = config.flows.get(name).ok_or("there is no such flow")?;
    let queue = address.queue.as_deref().unwrap_or_default();
    let mut rabbit = RabbitFlow::new(name, login(config, address, env)?, queue);
    rabbit.makes = flow.topology.or(config.topology) != Some(config::Topology::Check);
    let read = flow.queue.clone().unwrap_or_default();
    rabbit.kind = match read.kind {
        None | Some(config::QueueKind::Quorum) => QueueKind::Quorum,
        Some(config::QueueKind::Classic) => QueueKind::Classic,
        Some(config::QueueKind::Stream) => QueueKind::Stream,
    };
    rabbit.single_active = read.single_active.unwrap_or(rabbit.single_active);
    // Order lives in the data file, which no other instance has.
    rabbit.alone = flow.order_by.as_ref().is_some_and(|order| !order.is_none());
    rabbit.prefetch = address.prefetch.or(read.prefetch).unwrap_or(prefetch);
    rabbit.delay = delay(flow.delay)?;
    let waits = waits::of(flow, policies, MOST_STEPS);
    rabbit.steps = waits.exact;
    rabbit.other_delays = Some(waits.others);
    rabbit.settle = match flow.settle {
        Some(config::Settle::Republish) | None => SettleMode::Republish,
        Some(config::Settle::Nack) if flow.dead_letter_spec().reject == Some(true) => SettleMode::NackAll,
        Some(config::Settle::Nack) => SettleMode::Nack,
        Some(config::Settle::Transactional | config::Settle::Plain) => {
            return Err("settle: RabbitMQ knows republish and nack".to_owned());
        }
    };
    // One that the flow made would have no dead-letter exchange.
    rabbit.owned = read.owned.unwrap_or(rabbit.settle == SettleMode::Republish);
    let written = flow.suffixes.clone().or_else(|| config.suffixes.clone()).unwrap_or_default();
    let or = |suffix: &Option<String>, usual: &str| suffix.clone().unwrap_or_else(|| usual.to_owned());
    rabbit.dead_letter = dead_letter(flow, &format!("{name}{}", or(&written.dead_letter, ".dlq")));
    rabbit.adopt = match flow.dead_letter_spec().adopt {
        Some(true) => Adopt::IntoLedger,
        Some(false) | None => Adopt::InPlace,
    };
    rabbit.parking = match flow.parking.as_deref() {
        Some("same") => Parking::Same,
        Some(queue) => Parking::Queue(queue.to_owned()),
        None => Parking::Queue(format!("{name}{}", or(&written.parking, ".parking"))),
    };
    rabbit.foreign.clone_from(&flow.foreign);
    rabbit.suffixes = Suffixes { retry: or(&written.retry, ".retry"), stray: or(&written.stray, ".stray") };
    rabbit.confirm_timeout = flow.confirm_timeout.map_or(rabbit.confirm_timeout, |time| time.0);
    Ok(rabbit)
}

/// The flow that reads the queue of an address, as far as its queues are concerned: one of the file, else one of the
/// queue's name and with the usual policy.
pub(crate) fn to_queue(
    config: &Config,
    address: &AmqpAddress,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<RabbitFlow, String> {
    let own = login(config, address, env)?;
    for (name, written) in &config.flows {
        let Ok(SourceAddress::Amqp(from)) = written.from.parse() else { continue };
        if from.queue != address.queue {
            continue;
        }
        let reads = login(config, &from, env)?;
        if (&reads.host, reads.port, &reads.vhost) != (&own.host, own.port, &own.vhost) {
            continue;
        }
        let spec = config.flow_policy(name, None).unwrap_or_default();
        let policy = spec.build().map_err(|_| format!("flow `{name}`: its policy cannot be used"))?;
        let found = flow(config, name, &from, &[&policy], 1, env)?;
        return Ok(RabbitFlow { login: own, ..found });
    }
    let queue = address.queue.as_deref().unwrap_or_default();
    Ok(RabbitFlow::new(queue, own, queue))
}

/// How RabbitMQ is reached: by a broker of the file, or by the host of the address. What the address says wins.
fn login(
    config: &Config,
    address: &AmqpAddress,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Login, String> {
    let named = config.brokers.get(&address.host).filter(|_| address.port.is_none());
    let Some(broker) = named.and_then(|broker| broker.rabbitmq.as_ref()) else {
        return Ok(laid_over(&[address], None));
    };
    let place = |why: String| format!("brokers.{}.rabbitmq.{why}", address.host);
    let below: AmqpAddress = broker.url.parse().map_err(|error| place(format!("url: {error}")))?;
    let secret = password(broker.password_env.as_deref(), broker.password_file.as_deref(), env);
    let mut login = laid_over(&[&below, address], secret.map_err(place)?);
    login.host = plain_host(&below.host);
    Ok(login)
}

/// The addresses, the later over the earlier. A password of its own stands over that of the first.
fn laid_over(addresses: &[&AmqpAddress], secret: Option<String>) -> Login {
    let is_tls = addresses.iter().any(|address| address.tls);
    let mut login = Login::new("", if is_tls { 5671 } else { 5672 });
    let mut tls = Tls::default();
    let mut secret = secret;
    for address in addresses {
        login.host = plain_host(&address.host);
        login.port = address.port.unwrap_or(login.port);
        login.vhost = address.vhost.clone().unwrap_or(login.vhost);
        if let Some(user) = &address.user {
            login.user.clone_from(user);
            // The password that goes with `guest` is nobody else's.
            login.password.clear();
        }
        let written = address.password.as_ref().map(|password| password.reveal().to_owned());
        if let Some(password) = secret.take().or(written) {
            login.password = password;
        }
        login.heartbeat = address.heartbeat.unwrap_or(login.heartbeat);
        login.connect_timeout = address.connection_timeout.unwrap_or(login.connect_timeout);
        tls.ca_file = address.cacertfile.as_ref().map(Into::into).or(tls.ca_file);
        tls.cert_file = address.certfile.as_ref().map(Into::into).or(tls.cert_file);
        tls.key_file = address.keyfile.as_ref().map(Into::into).or(tls.key_file);
    }
    login.tls = is_tls.then_some(tls);
    login
}

/// An address of IPv6 without its brackets.
fn plain_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

fn delay(mode: Option<config::DelayMode>) -> Result<DelayMode, String> {
    Ok(match mode {
        None | Some(config::DelayMode::Cascade) => DelayMode::Cascade,
        Some(config::DelayMode::Ring) => DelayMode::Ring,
        Some(config::DelayMode::DelayedExchange) => DelayMode::DelayedExchange,
        Some(config::DelayMode::Ledger) => DelayMode::Ledger,
        Some(config::DelayMode::Tiered | config::DelayMode::Single | config::DelayMode::Pointer) => {
            return Err("delay: RabbitMQ knows cascade, ring, delayed-exchange and ledger".to_owned());
        }
    })
}

fn dead_letter(flow: &Flow, usual: &str) -> DeadLetter {
    let spec = flow.dead_letter_spec();
    DeadLetter {
        queue: spec.name.unwrap_or_else(|| usual.to_owned()),
        format: match spec.format {
            Some(config::Format::Envelope) => DeadLetterFormat::Envelope,
            Some(config::Format::Raw) | None => DeadLetterFormat::Raw,
        },
        options: spec.options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_up(file: &str) -> Result<RabbitFlow, String> {
        let report = config::check(file.as_bytes(), &|_| None);
        let config = report.value.unwrap_or_else(|| panic!("{:?}", report.findings));
        let Ok(SourceAddress::Amqp(address)) = config.flows["orders"].from.parse() else {
            panic!("no RabbitMQ")
        };
        let policy = config.flow_policy("orders", None).unwrap_or_default().build().unwrap();
        let env = |name: &str| (name == "RABBIT_PASSWORD").then(|| "hunter2".to_owned());
        flow(&config, "orders", &address, &[&policy], 256, &env)
    }

    #[test]
    fn a_flow_with_nothing_to_say_has_the_usual_names() {
        let flow = set_up(
            "{ version: 1, flows: { orders: { from: 'amqp://r1/prod?queue=new-orders',
               to: 'http://127.0.0.1:3000', retry: '10s, 1m x3, 10s' } } }",
        );
        let flow = flow.unwrap();
        assert_eq!(flow.queue, "new-orders");
        let login = &flow.login;
        assert_eq!((login.host.as_str(), login.port, login.vhost.as_str()), ("r1", 5672, "prod"));
        assert_eq!((login.user.as_str(), login.password.as_str()), ("guest", "guest"));
        assert_eq!(login.tls, None);
        assert_eq!(flow.dead_letter.queue, "orders.dlq");
        assert_eq!(flow.parking, Parking::Queue("orders.parking".to_owned()));
        assert_eq!(flow.suffixes, Suffixes { retry: ".retry".into(), stray: ".stray".into() });
        assert_eq!((flow.kind, flow.owned, flow.single_active), (QueueKind::Quorum, true, false));
        assert_eq!(flow.prefetch, 256);
        assert_eq!(flow.confirm_timeout, Duration::from_secs(5));
    }

    #[test]
    fn as_many_are_prefetched_as_concurrency_asks_for_or_as_are_named() {
        let taken = |from: &str, concurrency: u32| {
            let file = format!(
                "{{ version: 1, flows: {{ orders: {{ from: '{from}', to: 'http://h', concurrency: {concurrency} }} }} }}"
            );
            let config = config::check(file.as_bytes(), &|_| None).value.unwrap();
            let setup = super::super::flow(&config, "orders", super::super::InCode::default(), &|_| None);
            let setup = setup.unwrap();
            let super::super::Place::RabbitMq(rabbit) = setup.place else { panic!("no RabbitMQ") };
            (usize::from(rabbit.prefetch), setup.spec.prefetch)
        };
        assert_eq!(taken("amqp://r1?queue=orders", 64), (256, 256));
        assert_eq!(taken("amqp://r1?queue=orders", 200), (800, 800));
        // The last one's turn comes before RabbitMQ takes the channel for dead.
        assert_eq!(taken("amqp://r1?queue=orders", 1), (30, 256));
        assert_eq!(super::prefetched(4, Duration::from_secs(600), None), 6);
        assert_eq!(super::prefetched(4, Duration::from_secs(3_600), None), 4);
        let rate = |count, secs| Rate::new(count, Duration::from_secs(secs));
        assert_eq!(super::prefetched(64, Duration::from_secs(30), rate(5, 60)), 75);
        assert_eq!(super::prefetched(64, Duration::from_secs(30), rate(1, 3_600)), 1);
        assert_eq!(super::prefetched(64, Duration::from_secs(30), rate(100, 1)), 256);
        assert_eq!(taken("amqp://r1?queue=orders&prefetch=3000", 64), (3_000, 3_000));
        // What comes from the ledger needs room, too.
        assert_eq!(taken("amqp://r1?queue=orders&prefetch=8", 64), (8, 256));
    }

    #[test]
    fn steps_without_jitter_are_exact_and_all_other_waits_have_a_range() {
        let waits = |retry: &str, rest: &str| {
            let flow = set_up(&format!(
                "{{ version: 1, flows: {{ orders: {{ from: 'amqp://r1?queue=orders', to: 'http://h',
                   policy: {{ retry: {retry}, retry_after: {{ min: 2s, max: 15m }} {rest} }} }} }} }}"
            ));
            let flow = flow.unwrap();
            let (least, most) = flow.other_delays.unwrap();
            let steps: Vec<_> = flow.steps.iter().map(Duration::as_millis).collect();
            (steps, least.as_millis(), most.as_millis())
        };
        assert_eq!(waits("'10s, 1m x3, 10s'", ""), (vec![10_000, 60_000], 2_000, 900_000));
        assert_eq!(waits("'1s, 1h jitter 10%'", ""), (vec![], 900, 3_960_000));
        assert_eq!(waits("'1s, 1h jitter full'", ", floor: 50%"), (vec![], 500, 3_600_000));
        let mixed = waits("{ TRANSIENT: '10s x2', CONTENTION: '1s x2 jitter full' }", "");
        assert_eq!(mixed, (vec![10_000], 100, 900_000));
        let long = waits("'linear(1s, step 1s, times 60)'", "");
        assert_eq!((long.0.len(), long.1), (MOST_STEPS, 2_000));
    }

    #[test]
    fn a_flow_that_rejects_has_an_end_of_its_own_unless_it_says_otherwise() {
        let settle = |rest: &str| {
            let flow = set_up(&format!(
                "{{ version: 1, flows: {{ orders: {{ from: 'amqp://r1?queue=orders', to: 'http://h',
                   settle: nack {rest} }} }} }}"
            ));
            let flow = flow.unwrap();
            (flow.settle, flow.owned, flow.dead_letter.queue)
        };
        assert_eq!(settle(""), (SettleMode::Nack, false, "orders.dlq".to_owned()));
        assert_eq!(settle(", dead_letter: gone").2, "gone");
        assert_eq!(settle(", dead_letter: { reject: true }").0, SettleMode::NackAll);
    }

    #[test]
    fn what_is_published_to_a_queue_waits_where_its_flow_lets_messages_wait() {
        let file = "{ version: 1, brokers: { main: { rabbitmq: { url: 'amqp://r1/prod' } } }, flows: { billing: {
            from: 'amqp://main?queue=orders', to: 'http://h', retry: '10s', suffixes: { retry: .later } } } }";
        let config = config::check(file.as_bytes(), &|_| None).value.unwrap();
        let to = |address: &str| to_queue(&config, &address.parse().unwrap(), &|_| None).unwrap();
        let found = to("amqp://me:secret@r1/prod?queue=orders");
        assert_eq!((&*found.flow, found.suffixes.retry.as_str()), ("billing", ".later"));
        assert_eq!((found.steps, found.login.user.as_str()), (vec![Duration::from_secs(10)], "me"));
        let other = to("amqp://r1?queue=orders");
        assert_eq!(
            (&*other.flow, other.queue.as_str(), other.login.vhost.as_str()),
            ("orders", "orders", "/")
        );
    }

    #[test]
    fn a_broker_of_the_file_brings_host_vhost_and_its_password() {
        let file = |password: &str, from: &str| {
            format!(
                "{{ version: 1, brokers: {{ main: {{ rabbitmq: {{ password_env: {password},
                   url: 'amqps://app@rabbit.example/prod?heartbeat=30&cacertfile=ca.pem&certfile=me.pem&keyfile=me.key' }} }} }},
                   flows: {{ orders: {{ from: '{from}', to: 'http://127.0.0.1:3000',
                   delay: ring, parking: same, queue: {{ kind: classic, owned: false, single_active: true }},
                   dead_letter: {{ adopt: true, format: envelope, options: {{ x-max-length: '1000' }} }},
                   suffixes: {{ dead_letter: .dead, stray: .lost }}, foreign: [old.dlq], confirm_timeout: 2s }} }} }}"
            )
        };
        let flow = set_up(&file("RABBIT_PASSWORD", "amqp://main?queue=orders&prefetch=8")).unwrap();
        let login = &flow.login;
        assert_eq!((login.host.as_str(), login.port, login.vhost.as_str()), ("rabbit.example", 5671, "prod"));
        assert_eq!((login.user.as_str(), login.password.as_str()), ("app", "hunter2"));
        assert_eq!(login.heartbeat, Duration::from_secs(30));
        let [ca_file, cert_file, key_file] = ["ca.pem", "me.pem", "me.key"].map(|file| Some(file.into()));
        assert_eq!(login.tls, Some(Tls { ca_file, cert_file, key_file }));
        assert!(!format!("{flow:?}").contains("hunter2"));
        assert_eq!((flow.kind, flow.owned, flow.single_active), (QueueKind::Classic, false, true));
        assert_eq!((flow.delay, flow.adopt), (DelayMode::Ring, Adopt::IntoLedger));
        assert_eq!((flow.dead_letter.queue.as_str(), &flow.parking), ("orders.dead", &Parking::Same));
        assert_eq!(flow.dead_letter.format, DeadLetterFormat::Envelope);
        assert_eq!(flow.dead_letter.options["x-max-length"], "1000");
        assert_eq!((flow.suffixes.stray.as_str(), flow.foreign), (".lost", vec!["old.dlq".to_owned()]));
        assert_eq!((flow.prefetch, flow.confirm_timeout), (8, Duration::from_secs(2)));
        let other = set_up(&file("RABBIT_PASSWORD", "amqp://me:secret@main/test?queue=orders")).unwrap();
        let login = &other.login;
        assert_eq!(
            (login.user.as_str(), login.password.as_str(), login.vhost.as_str()),
            ("me", "secret", "test")
        );
        let error = set_up(&file("NOT_SET", "amqp://main?queue=orders")).unwrap_err();
        assert_eq!(error, "brokers.main.rabbitmq.password_env: the environment has no `NOT_SET`");
    }
}
