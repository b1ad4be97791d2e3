//! A message that is kept without having been tried.

use redrive_core::headers::Trail;
use redrive_core::{Reason, Text, Timestamp};

use super::divert::{entry_of, replay_of};
use super::job::Job;
use super::spec::FlowSpec;
use crate::mint::mint;
use crate::port::{EntryState, HeldRecord, LaneName, Outcome, Record, Settlement};

/// Why a message is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// A message of its lane in front of it was diverted; its id, as far as it is known.
    Lane(Option<String>),
    /// It asked to follow this one, which has not come to an end.
    Follows(String),
    /// A person keeps it back.
    Quarantine(String),
}

impl Why {
    fn record(self) -> HeldRecord {
        let (behind, reason, because) = match self {
            Self::Lane(Some(head)) => {
                let because = format!("{head} of the same lane has not come to an end");
                (Some(head), Reason::PREDECESSOR_PENDING, because)
            }
            Self::Lane(None) => {
                (None, Reason::PREDECESSOR_PENDING, "others of the same lane go before it".to_owned())
            }
            Self::Follows(id) => {
                let because = format!("it follows {id}, which has not come to an end");
                (Some(id), Reason::PREDECESSOR_PENDING, because)
            }
            Self::Quarantine(what) => {
                (None, Reason::from_static("QUARANTINED"), format!("{what} is in quarantine"))
            }
        };
        HeldRecord { behind, reason, because }
    }
}

/// Keeps a message in a lane.
pub(crate) fn keep(
    spec: &FlowSpec,
    mut job: Box<Job>,
    lane: LaneName,
    why: Why,
    now: Timestamp,
    random: [u64; 2],
) -> Settlement {
    let message = &job.delivery.message;
    let facts = spec.facts.find(&message.headers, message.body.as_deref());
    let text = |fact: &Option<Text>| fact.as_ref().map(|text| text.as_str().to_owned());
    let entry = entry_of(&job.delivery.trail).unwrap_or_else(|| mint(now, random));
    let record = Record {
        entry,
        flow: spec.name.clone(),
        state: EntryState::Held,
        at: now,
        due_at: None,
        attempt: None,
        succeeded: None,
        earlier: job.earlier(spec),
        attempts: job.attempts(),
        message_type: text(&facts.message_type),
        entity: text(&facts.entity),
        tenant: text(&facts.tenant),
        correlation_id: text(&facts.correlation),
        causation_id: text(&facts.causation),
        owner: spec.owner.clone(),
        held: Some(Box::new(why.record())),
        replay: replay_of(&job.delivery.trail),
    };
    let mut trail = Trail::clone(&job.delivery.trail);
    trail.entry_id = Some(Text::from(entry.to_string()));
    trail.idempotency_key.get_or_insert_with(|| job.delivery.message.id.clone());
    Settlement {
        trail: Some(Box::new(trail)),
        record: Some(Box::new(record)),
        ..job.settled(Outcome::Hold { lane })
    }
}
