//! The store in memory holds to what every store does, and to its limits.
#![cfg(feature = "idempotency")]

mod contract;

use std::time::Duration;

use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_retry::idempotency::{
    Answer, Claim, Claimed, KeyStore as _, MemoryLimits, MemoryStore, StoreError,
};

#[tokio::test]
async fn memory_holds_to_the_contract() {
    contract::holds(&MemoryStore::default()).await;
    contract::holds(&std::sync::Arc::new(MemoryStore::default()).as_ref().clone()).await;
}

#[tokio::test]
async fn what_is_full_refuses_until_something_may_be_forgotten() {
    let store = MemoryStore::new(MemoryLimits { keys: 2, bytes: 1_000 });
    let claim = |key, seconds: i64| Claim {
        key,
        fingerprint: [0; 32],
        now: Timestamp::from_millis(seconds * 1_000),
        lease: Duration::from_secs(10),
        token: seconds.cast_unsigned(),
    };
    let Ok(Claimed::First(lease)) = store.claim(claim("a", 0)).await else { panic!("it is empty") };
    let large = Answer { body: Some(Bytes::from(vec![0; 2_000])), ..Answer::default() };
    let full = store.remember(&lease, large, Timestamp::from_millis(100_000)).await;
    assert!(matches!(full, Err(StoreError::Full(_))));
    assert_eq!(store.claim(claim("a", 1)).await, Ok(Claimed::Running), "it is claimed all the same");
    assert!(matches!(store.claim(claim("b", 5)).await, Ok(Claimed::First(_))));
    assert_eq!(
        store.claim(claim("c", 6)).await.unwrap_err().to_string(),
        "the store of idempotency keys is full: it holds 2 keys"
    );
    assert!(matches!(store.claim(claim("c", 10)).await, Ok(Claimed::First(_))), "the first lease is over");
    assert_eq!((store.len(), store.is_empty()), (2, false));
}
