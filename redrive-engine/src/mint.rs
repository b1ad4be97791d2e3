//! Ids that sort by time.

use std::hash::{BuildHasher as _, Hasher as _};

use redrive_core::Timestamp;

use crate::port::EntryId;

/// A new id that sorts by time.
pub(crate) fn mint(now: Timestamp, random: [u64; 2]) -> EntryId {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&random[0].to_le_bytes());
    bytes[8..].copy_from_slice(&random[1].to_le_bytes()[..2]);
    let millis = u64::try_from(now.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

/// A number that nobody can guess, another one each time.
pub(crate) fn seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
