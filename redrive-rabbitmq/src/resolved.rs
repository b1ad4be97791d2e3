//! What people resolved, in a queue of its own, so that a rebuild of the ledger does not bring it back.
//!
//! A queue is not looked at without being emptied: whoever reads it writes the last word on each entry to its end, and
//! releases what it read after that. Each word has its time, since an old one may come to lie behind a newer one.

use std::collections::BTreeMap;
use std::sync::Arc;

use lapin::BasicProperties;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::types::ShortString;
use redrive_core::Timestamp;
use redrive_engine::port::{EntryId, EntryState, PortError, Refusal, Resolved};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::link::{self, Link};
use crate::look::Look;
use crate::outbox::{Letter, NotTaken, Outbox};
use crate::{RabbitFlow, names, trouble};

/// How many words one message has.
const WORDS: usize = 1_000;

/// The last word on an entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Word {
    entry: EntryId,
    /// The state; nothing when it is open again.
    state: Option<EntryState>,
    at: i64,
}

/// Keeps them; when it returns they are durable.
pub(crate) async fn keep(
    flow: &RabbitFlow,
    outbox: &Outbox,
    resolved: &[Resolved],
    now: Timestamp,
) -> Result<(), PortError> {
    let word = |one: &Resolved| {
        // An entry that is open again has nothing to be remembered.
        let open = one.state.is_unresolved() && one.state != EntryState::Parked;
        Word { entry: one.entry, state: (!open).then_some(one.state), at: now.as_millis() }
    };
    let words: Vec<Word> = resolved.iter().map(word).collect();
    write(flow, outbox, &words).await
}

/// The words of one message, and what is none that this version knows. A message that holds none at all is an error.
fn words_of(bytes: &[u8]) -> Result<(Vec<Word>, Vec<Value>), serde_json::Error> {
    let (mut words, mut others) = (Vec::new(), Vec::new());
    for value in serde_json::from_slice::<Vec<Value>>(bytes)? {
        match Word::deserialize(&value) {
            Ok(word) => words.push(word),
            Err(_) => others.push(value),
        }
    }
    Ok((words, others))
}

async fn write<T: Serialize>(flow: &RabbitFlow, outbox: &Outbox, words: &[T]) -> Result<(), PortError> {
    let queue = names::resolved(flow);
    let key = link::short(&queue)?;
    let mut letters = Vec::new();
    for some in words.chunks(WORDS) {
        let body = serde_json::to_vec(some)
            .map_err(|error| PortError::Broken(format!("what was resolved cannot be written: {error}")))?;
        letters.push(Letter {
            exchange: "".into(),
            key: key.clone(),
            properties: BasicProperties::default()
                .with_delivery_mode(2)
                .with_content_type("application/json".into()),
            body: body.into(),
            mandatory: true,
        });
    }
    send(flow, outbox, &letters).await
}

/// A message of another version, for the end of its queue.
fn as_it_was(queue: &ShortString, read: &lapin::message::Delivery) -> Letter {
    let (properties, body) = (read.properties.clone(), read.data.clone().into());
    Letter { exchange: "".into(), key: queue.clone(), properties, body, mandatory: true }
}

async fn send(flow: &RabbitFlow, outbox: &Outbox, letters: &[Letter]) -> Result<(), PortError> {
    let queue = names::resolved(flow);
    for written in outbox.write(letters).await {
        match written {
            Ok(()) => {}
            Err(NotTaken::NoExchange(error) | NotTaken::Away(error)) => return Err(error),
            Err(NotTaken::Returned) => return Err(Refusal::NotFound { what: "queue", name: queue }.into()),
            Err(NotTaken::Nacked | NotTaken::Refused(_)) => {
                return Err(PortError::Unavailable(format!("the queue `{queue}` takes nothing")));
            }
        }
    }
    Ok(())
}

/// What was kept, the last word on each.
pub(crate) async fn read(
    flow: &RabbitFlow,
    look: &Look,
    link: &Arc<Link>,
    outbox: &Outbox,
) -> Result<Vec<Resolved>, PortError> {
    let queue = names::resolved(flow);
    let doing = format!("cannot read the queue `{queue}`");
    let left = look.count(&queue).await?.map_or(0, |counted| counted.ready);
    if left == 0 {
        return Ok(Vec::new());
    }
    let channel = link.channel().await?;
    let away = |error: lapin::Error| trouble::away(&doing, &error);
    let name = link::short(&queue)?;
    let mut last: BTreeMap<EntryId, Word> = BTreeMap::new();
    let mut unknown: Vec<Value> = Vec::new();
    let mut strange: Vec<Letter> = Vec::new();
    let mut read_up_to = None;
    for _ in 0..left {
        let got = channel.basic_get(name.clone(), BasicGetOptions::default()).await.map_err(away)?;
        let Some(got) = got else { break };
        let (words, others) = words_of(&got.delivery.data).unwrap_or_else(|error| {
            tracing::warn!(flow = &*flow.flow, queue, error = %error, "what was resolved cannot be read, and is kept as it is");
            strange.push(as_it_was(&name, &got.delivery));
            Default::default()
        });
        unknown.extend(others);
        for word in words {
            if last.get(&word.entry).is_none_or(|known| known.at <= word.at) {
                last.insert(word.entry, word);
            }
        }
        read_up_to = Some(got.delivery.delivery_tag);
    }
    let words: Vec<Word> = last.into_values().collect();
    if !unknown.is_empty() {
        let (count, first) = (unknown.len(), &unknown[0]);
        tracing::warn!(flow = &*flow.flow, queue, count, %first, "words on entries are not known, and are kept as they are");
    }
    if let Some(tag) = read_up_to {
        write(flow, outbox, &words).await?;
        write(flow, outbox, &unknown).await?;
        send(flow, outbox, &strange).await?;
        channel.basic_ack(tag, BasicAckOptions { multiple: true }).await.map_err(away)?;
        link::close(&channel).await;
    }
    let resolved =
        words.into_iter().filter_map(|Word { entry, state, .. }| Some(Resolved { entry, state: state? }));
    Ok(resolved.collect())
}
