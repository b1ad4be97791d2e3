//! What a flow needs at the broker: its queues, exchanges and bindings, in the order in which they are made.

use std::collections::BTreeMap;

use lapin::types::{AMQPValue, FieldTable};

use crate::delay::{Delays, begins_with, follows, level_stay};
use crate::{DelayMode, QueueKind, RabbitFlow, names};

/// One thing at the broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Thing {
    /// A queue.
    Queue(QueueSpec),
    /// An exchange.
    Exchange(ExchangeSpec),
    /// A way from an exchange to a queue or to another exchange.
    Binding(BindingSpec),
}

/// A queue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueSpec {
    pub(crate) name: String,
    /// What it is made with.
    pub(crate) arguments: BTreeMap<String, AMQPValue>,
    /// Whether it is the flow's own; else it is only looked at.
    pub(crate) owned: bool,
    /// What it is for, for people.
    pub(crate) purpose: &'static str,
}

/// An exchange.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExchangeSpec {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) arguments: BTreeMap<String, AMQPValue>,
}

/// A binding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BindingSpec {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) to_exchange: bool,
    pub(crate) key: String,
}

impl BindingSpec {
    pub(crate) fn name(&self) -> String {
        if self.key.is_empty() {
            format!("{} -> {}", self.from, self.to)
        } else {
            format!("{} -> {} ({})", self.from, self.to, self.key)
        }
    }
}

/// Arguments as a table.
pub(crate) fn table(arguments: &BTreeMap<String, AMQPValue>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        if name.len() <= 255 {
            table.insert(name.as_str().into(), value.clone());
        }
    }
    table
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn millis(value: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(value).unwrap_or(i64::MAX))
}

/// What kind the flow's own queues are.
fn own_kind(flow: &RabbitFlow) -> QueueKind {
    if flow.kind == QueueKind::Classic { QueueKind::Classic } else { QueueKind::Quorum }
}

fn type_of(kind: QueueKind) -> (String, AMQPValue) {
    let name = match kind {
        QueueKind::Quorum => "quorum",
        QueueKind::Classic => "classic",
        QueueKind::Stream => "stream",
    };
    ("x-queue-type".to_owned(), text(name))
}

/// All of it.
pub(crate) fn of(flow: &RabbitFlow, delays: &Delays) -> Vec<Thing> {
    let mut all = vec![source(flow)];
    if flow.waits() {
        waiting(flow, delays, &mut all);
    }
    let dead = &flow.dead_letter.queue;
    let mut shelves = Vec::new();
    if flow.shelves() {
        shelves.push((dead.as_str(), "dead letters"));
        if names::parking(flow) != dead {
            shelves.push((names::parking(flow), "parked messages"));
        }
    }
    for (name, purpose) in shelves {
        let mut arguments = BTreeMap::from([type_of(own_kind(flow))]);
        for (name, value) in &flow.dead_letter.options {
            let value = value.parse::<i64>().map_or_else(|_| text(value), AMQPValue::LongLongInt);
            arguments.insert(name.clone(), value);
        }
        // A limit that drops the oldest would lose dead letters.
        let limited = ["x-max-length", "x-max-length-bytes"].iter().any(|name| arguments.contains_key(*name));
        if limited {
            arguments.entry("x-overflow".to_owned()).or_insert_with(|| text("reject-publish"));
        }
        all.push(Thing::Queue(QueueSpec { name: name.to_owned(), arguments, owned: true, purpose }));
    }
    // Without a ledger nobody resolves anything.
    if !flow.rejects() {
        all.push(Thing::Queue(QueueSpec {
            name: names::resolved(flow),
            arguments: BTreeMap::from([type_of(own_kind(flow))]),
            owned: true,
            purpose: "what people resolved",
        }));
    }
    let foreign = flow.foreign.iter().map(|queue| {
        Thing::Queue(QueueSpec {
            name: queue.clone(),
            arguments: BTreeMap::new(),
            owned: false,
            purpose: "dead letters of another system",
        })
    });
    all.extend(foreign);
    all
}

fn source(flow: &RabbitFlow) -> Thing {
    let mut arguments = BTreeMap::from([type_of(flow.kind)]);
    if flow.single_active && flow.kind != QueueKind::Stream {
        arguments.insert("x-single-active-consumer".to_owned(), AMQPValue::Boolean(true));
    }
    Thing::Queue(QueueSpec {
        name: flow.queue.clone(),
        arguments,
        // One that the flow made would have no dead-letter exchange, and what is rejected would be gone.
        owned: flow.owned && !flow.rejects(),
        purpose: "what the flow reads",
    })
}

/// Where messages wait, and the ways between.
fn waiting(flow: &RabbitFlow, delays: &Delays, all: &mut Vec<Thing>) {
    let (stray, retry) = (names::stray(flow), names::retry(flow));
    let otherwise = BTreeMap::from([("alternate-exchange".to_owned(), text(&stray))]);
    let bind = |from: &str, to: &str, to_exchange: bool, key: String| {
        Thing::Binding(BindingSpec { from: from.to_owned(), to: to.to_owned(), to_exchange, key })
    };
    let exchange = |name: &str, kind: &'static str, arguments: BTreeMap<String, AMQPValue>| {
        Thing::Exchange(ExchangeSpec { name: name.to_owned(), kind, arguments })
    };
    // What finds no way ends in a queue of its own, since a level that cannot get rid of its messages stops for all.
    all.push(exchange(&stray, "fanout", BTreeMap::new()));
    all.push(Thing::Queue(QueueSpec {
        name: stray.clone(),
        arguments: BTreeMap::from([type_of(own_kind(flow))]),
        owned: true,
        purpose: "copies that found no way",
    }));
    all.push(bind(&stray, &stray, false, String::new()));
    all.push(exchange(&retry, "fanout", otherwise.clone()));
    if flow.kind == QueueKind::Stream {
        // Others read the stream, too: what has waited for this flow comes back to a queue of its own.
        all.push(Thing::Queue(QueueSpec {
            name: retry.clone(),
            arguments: BTreeMap::from([type_of(own_kind(flow))]),
            owned: true,
            purpose: "messages that have waited",
        }));
        all.push(bind(&retry, &retry, false, String::new()));
    } else {
        all.push(bind(&retry, &flow.queue, false, String::new()));
    }
    if flow.delay == DelayMode::DelayedExchange {
        let delayed = names::delayed(flow);
        let mut arguments = otherwise;
        arguments.insert("x-delayed-type".to_owned(), text("fanout"));
        all.push(exchange(&delayed, "x-delayed-message", arguments));
        all.push(bind(&delayed, &retry, true, String::new()));
        return;
    }
    let wait = |name: &str, stay: u64, next: &str| {
        let mut arguments = BTreeMap::from([
            type_of(own_kind(flow)),
            ("x-message-ttl".to_owned(), millis(stay)),
            ("x-dead-letter-exchange".to_owned(), text(next)),
        ]);
        if own_kind(flow) == QueueKind::Quorum {
            // Without the second the first is silently not so.
            arguments.insert("x-dead-letter-strategy".to_owned(), text("at-least-once"));
            arguments.insert("x-overflow".to_owned(), text("reject-publish"));
        }
        let purpose = "messages that wait";
        Thing::Queue(QueueSpec { name: name.to_owned(), arguments, owned: true, purpose })
    };
    for step in delays.steps() {
        let stay = u64::try_from(step.as_millis()).unwrap_or(u64::MAX).max(1);
        all.push(wait(&names::step(flow, *step), stay, &retry));
    }
    let Some(levels) = delays.levels() else { return };
    let begin = names::levels(flow);
    all.push(exchange(&begin, "topic", otherwise.clone()));
    // From the smallest up, so that what a level points to is there before it.
    let mut upwards: Vec<u32> = levels.all().collect();
    upwards.reverse();
    for level in upwards {
        let name = names::level(flow, level);
        all.push(exchange(&name, "topic", otherwise.clone()));
        all.push(wait(&name, level_stay(level), &name));
        for next in levels.after(level) {
            all.push(bind(&name, &names::level(flow, next), false, follows(level, Some(next))));
        }
        all.push(bind(&name, &retry, true, follows(level, None)));
        all.push(bind(&begin, &name, false, begins_with(level)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::{Login, SettleMode};

    fn flow() -> RabbitFlow {
        let mut flow = RabbitFlow::new("orders", Login::new("localhost", 5672), "orders");
        flow.steps = vec![Duration::from_secs(10)];
        flow
    }

    #[test]
    fn every_way_ends_in_something_that_was_made_before() {
        let flow = flow();
        let mut made: BTreeSet<String> = BTreeSet::from([String::new()]);
        for thing in of(&flow, &Delays::new(&flow)) {
            match thing {
                Thing::Queue(queue) => {
                    if let Some(AMQPValue::LongString(next)) = queue.arguments.get("x-dead-letter-exchange") {
                        assert!(made.contains(&next.to_string()), "{} -> {next}", queue.name);
                    }
                    made.insert(queue.name);
                }
                Thing::Exchange(exchange) => _ = made.insert(exchange.name),
                Thing::Binding(binding) => {
                    assert!(made.contains(&binding.from) && made.contains(&binding.to), "{binding:?}");
                }
            }
        }
    }

    #[test]
    fn a_limited_shelf_refuses_instead_of_dropping() {
        let mut flow = flow();
        flow.dead_letter.options.insert("x-max-length".to_owned(), "10".to_owned());
        let things = of(&flow, &Delays::new(&flow));
        let dead = things.iter().find_map(|thing| match thing {
            Thing::Queue(queue) if queue.name == "orders.dlq" => Some(queue),
            _ => None,
        });
        let overflow = dead.and_then(|queue| queue.arguments.get("x-overflow"));
        assert_eq!(overflow, Some(&text("reject-publish")));
    }

    #[test]
    fn a_flow_that_rejects_makes_nothing_but_its_end() {
        let names = |settle| {
            let flow = RabbitFlow { settle, ..flow() };
            let things = of(&flow, &Delays::new(&flow));
            let names = things.into_iter().map(|thing| match thing {
                Thing::Queue(queue) => (queue.name, queue.owned),
                other => panic!("{other:?}"),
            });
            names.collect::<Vec<_>>()
        };
        let named = |names: &[(&str, bool)]| {
            names.iter().map(|(name, owned)| ((*name).to_owned(), *owned)).collect::<Vec<_>>()
        };
        let shelves = [("orders", false), ("orders.dlq", true), ("orders.parking", true)];
        assert_eq!(names(SettleMode::Nack), named(&shelves));
        assert_eq!(names(SettleMode::NackAll), named(&shelves[..1]));
    }

    #[test]
    fn a_flow_that_waits_in_the_ledger_makes_no_queue_to_wait_in() {
        let flow = RabbitFlow { delay: DelayMode::Ledger, ..flow() };
        let is_wait = |thing: &Thing| matches!(thing, Thing::Queue(queue) if queue.name.contains("retry"));
        assert!(!of(&flow, &Delays::new(&flow)).iter().any(is_wait));
    }
}
