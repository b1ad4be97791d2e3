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

/// Fills a store with small answers, or with claims alone, and says how many it took.
async fn filled(store: &MemoryStore, answered: bool) -> usize {
    for number in 0..usize::MAX {
        let key = format!("shop/3f2504e0-4f89-41d3-9a0c-{number:012}");
        let claim = Claim {
            key: &key,
            fingerprint: [0; 32],
            now: Timestamp::from_millis(0),
            lease: Duration::from_hours(1),
            token: 1,
        };
        let lease = match store.claim(claim).await {
            Ok(Claimed::First(lease)) => lease,
            Ok(other) => panic!("{other:?}"),
            Err(_) => return number,
        };
        let headers = || ("content-type".to_owned(), Bytes::from(b"application/json".to_vec()));
        let answer = Answer { status: 201, headers: vec![headers(); 3], body: Some(vec![7; 200].into()) };
        if answered && store.remember(&lease, answer, Timestamp::from_millis(86_400_000)).await.is_err() {
            return number;
        }
    }
    usize::MAX
}

/// A server of a few requests with a key in a second, each kept for a day.
#[tokio::test]
async fn by_default_a_few_hundred_thousand_small_answers_have_room() {
    let MemoryLimits { keys, bytes } = MemoryLimits::default();
    let a_sixteenth = MemoryStore::new(MemoryLimits { keys: keys / 16, bytes: bytes / 16 });
    let taken = filled(&a_sixteenth, true).await * 16;
    assert!((250_000..400_000).contains(&taken), "{taken}");
}

#[test]
fn its_bytes_are_about_those_that_it_takes() {
    for answered in [false, true] {
        for limit in [1_000_000, 2_000_000, 2_700_000, 4_000_000, 5_300_000] {
            let store = MemoryStore::new(MemoryLimits { keys: usize::MAX, bytes: limit });
            let filling = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let taken = allocation_counter::measure(|| {
                filling.block_on(filled(&store, answered));
            });
            let share = taken.bytes_current as f64 / limit as f64;
            assert!((0.6..1.3).contains(&share), "{share} of {limit} bytes, answered: {answered}");
        }
    }
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
