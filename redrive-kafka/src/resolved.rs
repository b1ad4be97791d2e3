//! What people resolved, in a compacted topic, so that a rebuild of the ledger does not bring it back.
//!
//! The key is the entry's id and the body its state, as people write it. What is parked was put aside by a person, wherever
//! its copies lie; any other entry that is open again leaves a tombstone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::producer::{FutureProducer, FutureRecord};
use redrive_engine::port::{EntryId, EntryState, HeaderRules, PortError, Resolved};

use crate::client;
use crate::delay::names;
use crate::look::{self, Look};
use crate::read_back::{Pile, ReadBack, Span};
use crate::record::Carver;

/// How many are read at once.
const BATCH: usize = 10_000;

/// Keeps them; when it returns they are durable.
pub(crate) async fn keep(look: &Arc<Look>, resolved: &[Resolved]) -> Result<(), PortError> {
    if resolved.is_empty() {
        return Ok(());
    }
    let topic = names::resolved(look.flow());
    let doing = format!("cannot write what was resolved to `{topic}`");
    let config = client::producer(look.flow(), None);
    let producer: FutureProducer = tokio::task::spawn_blocking(move || config.create())
        .await
        .map_err(|error| PortError::Unavailable(format!("{doing}: {error}")))?
        .map_err(|error| client::away(&doing, &error))?;
    let mut sent = Vec::with_capacity(resolved.len());
    for one in resolved {
        let key = one.entry.to_string();
        let record = FutureRecord::to(&topic).key(&key);
        // An entry that is open again has nothing to be remembered.
        let open = one.state.is_unresolved() && one.state != EntryState::Parked;
        let state = if open { None } else { Some(one.state.as_str()) };
        let record = match state {
            Some(state) => record.payload(state),
            None => record,
        };
        sent.push(producer.send(record, Duration::from_secs(30)).await);
    }
    tokio::task::spawn_blocking(move || drop(producer));
    sent.into_iter().try_for_each(|sent| sent.map(drop).map_err(|(error, _)| client::away(&doing, &error)))
}

/// What was kept, the last word on each.
pub(crate) async fn read(look: &Arc<Look>) -> Result<Vec<Resolved>, PortError> {
    let topic: Arc<str> = names::resolved(look.flow()).into();
    let inner = Arc::clone(look);
    look.ask(move |consumer| {
        let Some(shape) = look::shape(consumer, &topic)? else { return Ok(Vec::new()) };
        let mut spans = Vec::new();
        for partition in 0..shape.partitions {
            if let Some((low, high)) = look::ends(consumer, &topic, partition)? {
                spans.push(Span { partition, next: low, end: high, without: Vec::new() });
            }
        }
        let reader = inner.consumer(&inner.flow().groups.ledger)?;
        let carver = Carver::new(HeaderRules::default(), inner.flow());
        let mut reading = ReadBack::new(reader, carver, vec![Pile { topic, spans, waits: false }]);
        let mut last: BTreeMap<EntryId, EntryState> = BTreeMap::new();
        loop {
            let read = reading.next(BATCH, |_, _, _| {})?;
            if read.is_empty() {
                break;
            }
            for one in read {
                let message = one.into_parts().message;
                let text = |bytes: Option<&bytes::Bytes>| {
                    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned)
                };
                let Some(entry) = text(message.key.as_ref()).and_then(|id| EntryId::parse_str(&id).ok())
                else {
                    continue;
                };
                match text(message.body.as_ref()).and_then(|state| state.parse().ok()) {
                    Some(state) => last.insert(entry, state),
                    None => last.remove(&entry),
                };
            }
        }
        Ok(last.into_iter().map(|(entry, state)| Resolved { entry, state }).collect())
    })
    .await
}

#[cfg(test)]
mod tests;
