//! A file that has reached its limit: it refuses while nothing is over, and takes new keys again when something is.

use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_retry::idempotency::{Answer, CallKeys as _, Claim, Claimed, KeyStore as _, Lease, StoreError};
use redrive_sqlite::{Durability, IdempotencyStore};

use crate::claim;

const END: i64 = 3_600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn limited(folder: &tempfile::TempDir) -> IdempotencyStore {
    IdempotencyStore::open_with(folder.path().join("keys.db"), Durability::Relaxed, Some(1 << 20)).unwrap()
}

/// The smallest answer there is. The few that go with a claim free no page.
fn small() -> Answer {
    Answer { status: 204, headers: Vec::new(), body: Some(Bytes::new()) }
}

/// A store that answers of this kind, remembered until [`END`], have filled.
async fn full(folder: &tempfile::TempDir) -> IdempotencyStore {
    let store =
        IdempotencyStore::open_with(folder.path().join("keys.db"), Durability::Relaxed, Some(1 << 20))
            .unwrap();
    for number in 0..50_000 {
        match store.claim(claim(&format!("k{number}"), 0)).await {
            Ok(Claimed::First(lease)) => match store.remember(&lease, small(), at(END)).await {
                Ok(remembered) => assert!(remembered),
                Err(StoreError::Full(_)) => return store,
                Err(other) => panic!("{other}"),
            },
            Err(StoreError::Full(_)) => return store,
            other => panic!("{other:?}"),
        }
    }
    panic!("it never filled");
}

async fn refuses(store: &IdempotencyStore, seconds: i64) -> bool {
    // There may be room for one or another in a page that is there.
    for number in 0..100 {
        let key = format!("new {seconds} {number}");
        match store.claim(claim(&key, seconds)).await {
            Err(StoreError::Full(_)) => return true,
            Ok(Claimed::First(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    false
}

async fn first(store: &IdempotencyStore, claim: Claim<'_>) -> Lease {
    match store.claim(claim).await {
        Ok(Claimed::First(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_full_file_takes_keys_again_when_others_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&folder).await;
    assert!(refuses(&store, 1).await);
    assert!(refuses(&store, END - 1).await, "nothing is over");
    for number in 0..500 {
        first(&store, claim(&format!("next {number}"), END)).await;
    }
}

#[tokio::test]
async fn a_full_file_takes_keys_of_calls_again_when_others_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = limited(&folder);
    let mut names = (0..).map(|number| format!("charge order {number}"));
    let refused = loop {
        let name = names.next().unwrap();
        if let Err(error) = store.key_for(&name, at(1), at(END)).await {
            break error;
        }
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
    for name in names.by_ref().take(3) {
        let refused = store.key_for(&name, at(END - 1), at(2 * END)).await;
        assert!(matches!(refused, Err(StoreError::Full(_))), "nothing is over: {refused:?}");
    }
    let name = names.next().unwrap();
    let key = store.key_for(&name, at(END), at(2 * END)).await.unwrap();
    assert_eq!(store.key_for(&name, at(END), at(2 * END)).await.unwrap(), key);
}

/// An answer that finds no room is lost, and what it answers is done again after its lease.
#[tokio::test]
async fn an_answer_finds_room_where_others_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&folder).await;
    let lease = first(&store, claim("new", END)).await;
    let large = Answer { body: Some(Bytes::from(vec![7; 200_000])), ..small() };
    assert_eq!(store.remember(&lease, large.clone(), at(2 * END)).await, Ok(true));
    assert_eq!(store.claim(claim("new", END + 1)).await, Ok(Claimed::Done(large)));
}
