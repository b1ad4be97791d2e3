//! Messages whose headers claim a past that no key of the flow has signed.
//!
//! The first time such a message starts over: its trail was emptied when it was read, and its wait is the one of the place
//! in which it was found. The copy says so under the flow's own signature. The second time it is parked, untried.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive_core::classify::By;
use redrive_core::headers::{FieldSet, MacCheck};
use redrive_core::{Class, Failure, Reason};

use super::job::Job;
use super::shared::Shared;
use super::{alarms, log};
use crate::port::{Delivery, Doubt};

/// The alarm is over when no such message has come for so long.
const QUIET: Duration = Duration::from_mins(10);

/// When the last one came, by the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    last_ms: AtomicU64,
}

impl Shared {
    /// Looks at what was found in the headers of a message that has arrived.
    pub(crate) fn look_at_headers(&self, delivery: &Delivery) {
        let clamped = delivery.trail.clamped();
        if clamped != FieldSet::default() {
            self.metrics.clamped(clamped.iter().count());
        }
        let Some(doubt) = delivery.trail.doubt() else { return };
        self.metrics.doubted();
        log::doubted(&self.spec, &delivery.message, doubt);
        self.doubts.last_ms.store(self.clock.monotonic().as_millis() as u64, Ordering::Relaxed);
        self.alarms.raise(alarms::SIGNATURE_INVALID, self.clock.now(), || {
            format!(
                "headers are not signed by a key of the flow: {}; such a message starts over, and is parked the second time",
                described(doubt.found)
            )
        });
    }

    /// Takes the alarm back when it has been quiet for long enough.
    pub(crate) fn look_for_quiet(&self) {
        let last = Duration::from_millis(self.doubts.last_ms.load(Ordering::Relaxed));
        if self.clock.monotonic().saturating_sub(last) >= QUIET {
            self.alarms.clear(alarms::SIGNATURE_INVALID);
        }
    }

    /// Parks a message whose headers were not signed for the second time.
    pub(crate) async fn park_doubted(&self, job: Box<Job>, doubt: Doubt) {
        let failure = Failure::from_message(described(doubt.found)).with_reason(Reason::SIGNATURE_INVALID);
        self.park_untried(job, &failure, By::Signature, Class::Poison, Reason::SIGNATURE_INVALID).await;
    }
}

fn described(found: MacCheck) -> &'static str {
    match found {
        MacCheck::Valid => "the signature holds",
        MacCheck::Missing => "there is no signature",
        MacCheck::Malformed => "the signature cannot be read",
        MacCheck::UnknownKey => "the signature names a key that the flow does not have",
        MacCheck::Mismatch => "the signature does not fit the headers or the body",
    }
}
