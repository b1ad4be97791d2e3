//! Whether a request is the first with its key.

use std::sync::Arc;

use http::request::Parts;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::held::Held;
use super::idempotency::Shared;
use super::keeping::store_failed;
use super::refused::Refused;
use super::request::{IDEMPOTENCY_KEY, is_idempotent};
use crate::idempotency::{Answer, Claim, Claimed, IdempotencyKey, KeyStore, Lease, StoreError};

/// What a claim leads to.
pub(crate) enum First<K: KeyStore> {
    Lease(Held<K>),
    Answer(Answer),
}

impl<K: KeyStore> Shared<K> {
    /// The key by which the request is known, with its scope; nothing when it passes as it is.
    pub(crate) fn key(&self, parts: &Parts) -> Result<Option<String>, Refused> {
        if is_idempotent(&parts.method) {
            return Ok(None);
        }
        let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let key = match (keys.next(), keys.next()) {
            (None, _) if self.settings.required => return Err(Refused::NoKey),
            (None, _) => return Ok(None),
            (Some(key), None) => key,
            _ => return Err(Refused::BadKey("this request has more than one Idempotency-Key".to_owned())),
        };
        let key = key.to_str().map_err(|_| Refused::BadKey("the Idempotency-Key is no text".to_owned()))?;
        let key: IdempotencyKey = key.parse().map_err(|error| Refused::BadKey(format!("{error}")))?;
        Ok(Some(match &self.settings.scope {
            // A space cannot stand in a key, so no scope and key make another's.
            Some(scope) => format!("{} {key}", scope(parts)),
            None => key.to_string(),
        }))
    }

    pub(crate) async fn claim(
        shared: &Arc<Self>,
        key: &str,
        parts: &Parts,
        body: &[u8],
    ) -> Result<First<K>, Refused> {
        let (settings, fingerprint) = (&shared.settings, fingerprint(parts, body));
        let since = Instant::now();
        // As good as random bits go: 122 of an id's 128 are.
        let token = uuid::Uuid::new_v4().as_u64_pair().1;
        match shared.asked(key, fingerprint, token).await {
            Ok(Claimed::First(lease)) => {
                Ok(First::Lease(Held::new(Arc::clone(shared), lease, fingerprint, since)))
            }
            Ok(Claimed::Done(answer)) if answer.body.is_none() => Err(Refused::NotKept),
            Ok(Claimed::Done(answer)) => Ok(First::Answer(answer)),
            Ok(Claimed::Running) => Err(Refused::Running(settings.retry_after)),
            Ok(Claimed::Other) => Err(Refused::Other),
            // Without the store nobody knows whether this is the first, so it is not run.
            Err(error) => {
                store_failed("claim", &error);
                Err(Refused::Store(settings.retry_after))
            }
        }
    }

    async fn asked(&self, key: &str, fingerprint: [u8; 32], token: u64) -> Result<Claimed, StoreError> {
        let (now, lease) = (self.settings.clock.wall(), self.settings.lease);
        self.store.claim(Claim { key, fingerprint, now, lease, token }).await
    }

    /// Claims a key anew whose lease the store has dropped: by a clock that was set forward, or because this process stood
    /// still, it was over. Nothing when the key is another's by now.
    pub(crate) async fn claim_again(
        &self,
        lease: &Lease,
        fingerprint: [u8; 32],
        answer: Option<&Answer>,
    ) -> Result<Option<Lease>, StoreError> {
        match self.asked(&lease.key, fingerprint, lease.token).await? {
            Claimed::First(again) => return Ok(Some(again)),
            // A store that said it could not remember this had done so after all.
            Claimed::Done(remembered) if Some(&remembered) == answer => {}
            _ => lease_lost(),
        }
        Ok(None)
    }
}

/// Says where operators read it that a request was, or is being, run twice.
fn lease_lost() {
    #[cfg(feature = "telemetry")]
    tracing::warn!("the lease of an idempotency key was lost: its request is run by another");
}

/// What tells one request from another.
fn fingerprint(parts: &Parts, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    for part in [parts.method.as_str().as_bytes(), path.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(body);
    hash.finalize().into()
}
