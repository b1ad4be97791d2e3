//! Where keys are remembered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive_core::Timestamp;

use super::IdempotencyKey;

/// A call that asks whether it is the first with its key.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The key, with whatever keeps the keys of different callers apart.
    pub key: &'a str,
    /// What tells one request from another: two with the same key and different fingerprints are not a repetition.
    pub fingerprint: [u8; 32],
    /// The time of day.
    pub now: Timestamp,
    /// How long the first may go without [extending](KeyStore::extend) it before another takes its place, as after a
    /// crash.
    pub lease: Duration,
    /// What tells this claim from any other: drawn at random by whoever makes it. A claim that is made once more with the
    /// token of the one that runs is that one, as when nobody heard of its answer.
    pub token: u64,
}

/// The right of the first to say how it went.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The key that was claimed.
    pub key: Arc<str>,
    /// What tells this claim from a later one on the same key: as it was claimed.
    pub token: u64,
}

/// What a claim finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is the first: the call may be made, and the lease is to be given back.
    First(Lease),
    /// The first is still running.
    Running,
    /// The first was answered with this.
    Done(Answer),
    /// The key was used for another request.
    Other,
}

/// An answer as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, in order.
    pub headers: Vec<(String, Bytes)>,
    /// The body; nothing when it was too large to be kept, took too long or broke off.
    pub body: Option<Bytes>,
}

impl Answer {
    /// About how much memory it takes.
    pub fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        headers + self.body.as_ref().map_or(0, Bytes::len) + 64
    }
}

/// Why a store could not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It holds as much as it may, and nothing of that may be forgotten yet.
    #[error("the store of idempotency keys is full: {0}")]
    Full(String),
    /// It cannot be reached or written now.
    #[error("the store of idempotency keys is not available: {0}")]
    Unavailable(String),
}

/// Remembers which keys were used, and what was answered. One store serves every instance of a server.
///
/// Each method is one step that others see whole or not at all.
pub trait KeyStore: Send + Sync + 'static {
    /// Asks for a key. What runs by the same token is claimed once more: the answer is the lease again, until the new time.
    fn claim(&self, claim: Claim<'_>) -> impl Future<Output = Result<Claimed, StoreError>> + Send;

    /// Holds the key until then, for a call that is still running. False, and nothing changes, when it was answered, or the
    /// lease was over and is another's by now, or nobody's.
    fn extend(
        &self,
        lease: &Lease,
        until: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Remembers the answer until then. False, and nothing changes, when the lease was over and is another's by now, or
    /// nobody's.
    fn remember(
        &self,
        lease: &Lease,
        answer: Answer,
        until: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Forgets that the key was used: the call had no effect, or one that must be repeated.
    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl<S: KeyStore> KeyStore for Arc<S> {
    fn claim(&self, claim: Claim<'_>) -> impl Future<Output = Result<Claimed, StoreError>> + Send {
        (**self).claim(claim)
    }

    fn extend(
        &self,
        lease: &Lease,
        until: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        (**self).extend(lease, until)
    }

    fn remember(
        &self,
        lease: &Lease,
        answer: Answer,
        until: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        (**self).remember(lease, answer, until)
    }

    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).release(lease)
    }
}

/// Keeps the keys of a client's own calls, for a process that may end between two attempts.
pub trait CallKeys: Send + Sync + 'static {
    /// The key of the logical call with this name, made when it is asked for the first time and kept until then.
    fn key_for(
        &self,
        call: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> impl Future<Output = Result<IdempotencyKey, StoreError>> + Send;

    /// The call is over: the next with this name is another.
    fn forget(&self, call: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}
