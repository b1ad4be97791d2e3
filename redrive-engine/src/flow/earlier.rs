//! Attempts whose failures stayed in hand: those in place and those that blocked.
//!
//! They are written down together with the one that leaves the hand, or with the success that ends an entry. Until then
//! they are kept short and few, since a thousand messages may be waiting in hand, some of them for ever: the first, and
//! the last ones. A message that succeeds at once keeps none and allocates nothing.

use redrive_core::fingerprint::Fingerprint;
use redrive_core::{Decision, ErrorLink, Facts, Failure};

use super::job::{Began, LastFailure};
use super::spec::FlowSpec;
use crate::port::AttemptRecord;

/// The most that are kept of one delivery.
const KEPT: usize = 8;
/// The most that is kept of each text, in bytes.
const TEXT: usize = 512;
/// The most that is kept of each chain of causes.
const LINKS: usize = 4;

/// What is kept of the failed attempts of one delivery, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Earlier(Vec<AttemptRecord>);

impl Earlier {
    /// Remembers one more.
    pub(crate) fn add(&mut self, spec: &FlowSpec, last: &LastFailure) {
        if self.0.len() == KEPT {
            self.0.remove(1);
        }
        let LastFailure { failure, decision, facts, began, number, .. } = last;
        let mut attempt = attempt_record(spec, facts, failure, decision, *began, *number);
        attempt.chain.truncate(LINKS);
        for ErrorLink { kind, message } in &mut attempt.chain {
            cut(kind);
            cut(message);
        }
        cut(&mut attempt.because);
        self.0.push(attempt);
    }

    pub(crate) fn take(&mut self) -> Vec<AttemptRecord> {
        std::mem::take(&mut self.0)
    }
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT));
    text.shrink_to_fit();
}

/// A failed attempt as the ledger learns of it, without the handler's answer.
pub(crate) fn attempt_record(
    spec: &FlowSpec,
    facts: &Facts,
    failure: &Failure,
    decision: &Decision,
    began: Began,
    number: u32,
) -> AttemptRecord {
    let kind = facts.message_type.as_deref();
    AttemptRecord {
        number,
        started_at: began.at,
        took: began.took,
        calls: began.calls,
        class: decision.class,
        group: Fingerprint::of(
            decision.class,
            &decision.reason,
            kind,
            failure.error_type(),
            failure.message(),
        ),
        reason: decision.reason.clone(),
        chain: failure.chain().to_vec(),
        status: failure.status(),
        response: None,
        decision: decision.action.name(),
        because: decision.because.to_string(),
        handler_version: spec.handler.version(),
    }
}
