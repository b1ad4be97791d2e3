//! What flows need at their brokers, looked at and created before they run.

use redrive_engine::port::{Subscription, Topology};

use crate::brokers;
use crate::error::Result;
use crate::setup::Setup;

/// What a flow needs at its broker, and what of it is missing or not as it should be. Changes nothing. A queue of the
/// data file needs nothing.
pub async fn plan(flow: &Setup) -> Result<Vec<Topology>> {
    let Some(broker) = brokers::alone(&flow.place)? else { return Ok(Vec::new()) };
    Ok(broker.plan(&subscription(flow)).await?)
}

/// Creates what a flow lacks at its broker, and answers with what that was. Never alters or deletes what exists.
pub async fn apply(flow: &Setup) -> Result<Vec<Topology>> {
    let Some(broker) = brokers::alone(&flow.place)? else { return Ok(Vec::new()) };
    let needed = broker.plan(&subscription(flow)).await?;
    broker.apply(&needed).await?;
    Ok(needed.into_iter().filter(|thing| !thing.exists).collect())
}

/// The commands that give the queues of a flow on RabbitMQ their arguments by policies; nothing for other brokers.
/// What they are depends on the broker's version, which is asked for; where it does not answer it is taken to be older than
/// 4.0.
pub async fn policies(flow: &Setup) -> Result<Vec<String>> {
    Ok(brokers::policies(&flow.place).await?)
}

/// What a RabbitMQ has to allow a flow's user, as commands; nothing for other brokers.
pub fn permissions(flow: &Setup) -> Result<Vec<String>> {
    Ok(brokers::permissions(&flow.place)?)
}

/// Whether it is a way to a queue, and holds nothing itself: an exchange or a binding. There are many, and they say little.
pub fn is_way(thing: &Topology) -> bool {
    matches!(thing.kind.as_str(), "exchange" | "binding")
}

/// The ways among these, counted: `18 exchanges and 37 bindings`. Nothing when there are none.
pub fn counted_ways<'a>(things: impl IntoIterator<Item = &'a Topology>) -> Option<String> {
    let (mut exchanges, mut bindings) = (0_usize, 0_usize);
    for thing in things {
        match thing.kind.as_str() {
            "exchange" => exchanges += 1,
            "binding" => bindings += 1,
            _ => {}
        }
    }
    let of = |count: usize, kind: &str| {
        (count > 0).then(|| format!("{count} {kind}{}", if count == 1 { "" } else { "s" }))
    };
    let named: Vec<_> = [of(exchanges, "exchange"), of(bindings, "binding")].into_iter().flatten().collect();
    (!named.is_empty()).then(|| named.join(" and "))
}

fn subscription(flow: &Setup) -> Subscription {
    let spec = &flow.spec;
    Subscription { headers: spec.headers.clone(), ..Subscription::new(&*spec.name, &*spec.source) }
}
