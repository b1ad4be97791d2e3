//! Having an answer remembered by a store that may be away for a while.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderName, HeaderValue};
use redrive_core::Timestamp;
use tokio::time::Instant;

use super::idempotency::Shared;
use crate::idempotency::{Answer, KeyStore, Lease, StoreError};

/// The pause before the second try; each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An answer on its way into the store.
pub(crate) struct Keeping<K> {
    pub(crate) shared: Arc<Shared<K>>,
    pub(crate) lease: Lease,
    pub(crate) fingerprint: [u8; 32],
    /// Since when the lease runs.
    pub(crate) since: Instant,
    pub(crate) answer: Answer,
    pub(crate) until: Timestamp,
}

impl<K: KeyStore> Keeping<K> {
    /// Tries once, and goes on in a task of its own when that fails: whoever waits for the answer gets it now, and
    /// whoever repeats the request finds its key claimed meanwhile.
    pub(crate) async fn keep(mut self) {
        if !self.offer().await {
            tokio::spawn(self.insist());
        }
    }

    /// Tries until the lease is over. After that the key may be another's.
    async fn insist(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let left = self.shared.settings.lease.saturating_sub(self.since.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(pause.min(left)).await;
            if self.offer().await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether there is nothing left to do.
    async fn offer(&mut self) -> bool {
        match self.remembered().await {
            Ok(true) => true,
            Ok(false) => self.offer_again().await,
            Err(error) => {
                store_failed("remember", &error);
                false
            }
        }
    }

    /// The same once more with a lease of its own, where the store has dropped the first one.
    async fn offer_again(&mut self) -> bool {
        let since = Instant::now();
        let claimed = self.shared.claim_again(&self.lease, self.fingerprint, Some(&self.answer)).await;
        let offered = match claimed {
            Ok(Some(again)) => {
                (self.lease, self.since) = (again, since);
                self.remembered().await
            }
            Ok(None) => return true,
            Err(error) => Err(error),
        };
        offered.inspect_err(|error| store_failed("remember", error)).is_ok()
    }

    async fn remembered(&self) -> Result<bool, StoreError> {
        match self.remember(self.answer.clone()).await {
            // That it was done takes less room than what was answered.
            Err(StoreError::Full(_)) => {
                self.remember(Answer { status: self.answer.status, ..Answer::default() }).await
            }
            offered => offered,
        }
    }

    fn remember(&self, answer: Answer) -> impl Future<Output = Result<bool, StoreError>> + Send {
        self.shared.store.remember(&self.lease, answer, self.until)
    }
}

/// An answer as it is remembered.
pub(crate) fn answer(parts: &Parts, body: Option<Bytes>) -> Answer {
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()))
    };
    Answer { status: parts.status.as_u16(), headers: parts.headers.iter().map(header).collect(), body }
}

/// Says what the store said where operators read it. It can name files and hosts, so no client is told.
pub(crate) fn store_failed(step: &'static str, error: &StoreError) {
    #[cfg(feature = "telemetry")]
    tracing::warn!(step, %error, "the store of idempotency keys does not answer");
    #[cfg(not(feature = "telemetry"))]
    let _ = (step, error);
}
