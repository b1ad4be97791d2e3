//! Keys that make a repetition safe.
//!
//! Whoever gives up waiting for an answer does not know whether the call had its effect. A key that stays the same
//! over all attempts of one logical call lets the other side tell a repetition, and answer it with what it answered
//! first. The client's part is [`IdempotencyKey`], and [`CallKeys`] where it has to survive the process; the server's
//! part is a [`KeyStore`], and with the feature `http` the layer [`IdempotencyLayer`](crate::http::IdempotencyLayer).

mod key;
mod memory;
mod store;

pub use key::{IdempotencyKey, KeyError, MAX_KEY};
pub use memory::{MemoryLimits, MemoryStore};
pub use store::{Answer, CallKeys, Claim, Claimed, KeyStore, Lease, StoreError};
