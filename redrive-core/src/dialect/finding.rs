//! From another system's failure to what the ledger keeps of one.

use super::ForeignFailure;
use crate::classify::{By, Classification, Classifier, Seen, Subject};
use crate::{Failure, History, Reason, Timestamp};

/// What an entry of the ledger needs to know of a failure that happened elsewhere.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Class and reason: of the rule that knows an error of the chain, else UNKNOWN and
    /// [`FOREIGN_FAILURE`](Reason::FOREIGN_FAILURE).
    pub classification: Classification,
    /// The failure, with its chain.
    pub failure: Failure,
    /// Attempts made, at least one.
    pub attempts: u32,
    /// When it failed first.
    pub first_failed_at: Timestamp,
    /// When it failed last.
    pub last_failed_at: Timestamp,
}

impl ForeignFailure {
    /// The failure as rules see it: the chain, or at least who gave the message up.
    pub fn to_failure(&self) -> Failure {
        let mut links = self.chain.iter();
        let Some(first) = links.next() else {
            return Failure::from_message(format!("given up by {}", self.writer));
        };
        let outermost = Failure::from_message(first.message.clone()).with_type(first.kind.clone());
        links.fold(outermost, |failure, link| failure.with_cause(link.kind.clone(), link.message.clone()))
    }

    /// Asks the rules what the errors mean, and fills what the writer left out.
    ///
    /// `recorded_at` is when the dead letter was written, as its broker says. It stands for a time that no header
    /// tells, and no failure is later.
    pub fn finding(&self, classifier: &Classifier, subject: &Subject<'_>, recorded_at: Timestamp) -> Finding {
        let failure = self.to_failure();
        let attempts = self.attempts.unwrap_or(1).max(1);
        let last_failed_at = self.failed_at.unwrap_or(recorded_at).min(recorded_at);
        let first_failed_at = self.first_failed_at.unwrap_or(last_failed_at).min(last_failed_at);
        let history = History { attempts, first_failure: Some(first_failed_at), ..History::first() };
        let mut classification = classifier.classify(&Seen { subject, history: &history, failure: &failure });
        if classification.by == By::Nothing {
            classification.reason = Reason::FOREIGN_FAILURE;
        }
        Finding { classification, failure, attempts, first_failed_at, last_failed_at }
    }
}
