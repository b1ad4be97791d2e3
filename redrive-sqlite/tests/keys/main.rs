//! Idempotency keys in a file: the contract of every store, and what a file adds to it.

#[path = "../../../redrive-retry/tests/stores/contract.rs"]
mod contract;
mod full;
mod server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_retry::idempotency::{Answer, CallKeys as _, Claim, Claimed, KeyStore as _, StoreError};
use redrive_sqlite::{Durability, IdempotencyStore, OpenError, Options, Store};

fn claim(key: &str, seconds: i64) -> Claim<'_> {
    // Beyond the numbers of rows, which version 1 had for tokens.
    static CLAIMS: AtomicU64 = AtomicU64::new(1_000_000);
    let (now, token) = (Timestamp::from_millis(seconds * 1_000), CLAIMS.fetch_add(1, Ordering::Relaxed));
    Claim { key, fingerprint: [7; 32], now, lease: Duration::from_secs(10), token }
}

#[tokio::test]
async fn a_file_holds_to_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let store = IdempotencyStore::open(folder.path().join("keys.db")).unwrap();
    contract::holds(&store).await;
}

#[tokio::test]
async fn what_was_answered_survives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    let answer = Answer { status: 200, headers: Vec::new(), body: Some(Bytes::from("order 1")) };
    {
        let store = IdempotencyStore::open(&file).unwrap();
        let Ok(Claimed::First(lease)) = store.claim(claim("a", 0)).await else { panic!("it is empty") };
        assert_eq!(store.remember(&lease, answer.clone(), Timestamp::from_millis(99_000)).await, Ok(true));
        assert!(matches!(store.claim(claim("b", 0)).await, Ok(Claimed::First(_))));
    }
    let store = IdempotencyStore::open(&file).unwrap();
    assert_eq!(store.path(), file);
    assert_eq!(store.claim(claim("a", 1)).await, Ok(Claimed::Done(answer)));
    assert_eq!(store.claim(claim("b", 9)).await, Ok(Claimed::Running), "its lease is not over");
    assert!(matches!(store.claim(claim("b", 10)).await, Ok(Claimed::First(_))));
}

/// Version 1 knew a claim by its row.
#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    drop(IdempotencyStore::open(&file).unwrap());
    let old = rusqlite::Connection::open(&file).unwrap();
    let first = "ALTER TABLE idempotency_keys DROP COLUMN token; PRAGMA user_version = 1;
        INSERT INTO idempotency_keys (key, fingerprint, status, headers, body, expires_at)
        VALUES ('done', zeroblob(32), 204, '', NULL, 99000), ('runs', zeroblob(32), NULL, NULL, NULL, 99000);";
    old.execute_batch(first).unwrap();
    drop(old);
    let store = IdempotencyStore::open(&file).unwrap();
    let zero = |key| Claim { fingerprint: [0; 32], ..claim(key, 1) };
    let answer = Answer { status: 204, ..Answer::default() };
    assert_eq!(store.claim(zero("done")).await, Ok(Claimed::Done(answer)));
    assert_eq!(store.claim(zero("runs")).await, Ok(Claimed::Running));
    let late = Claim { now: Timestamp::from_millis(99_000), ..zero("runs") };
    let Ok(Claimed::First(lease)) = store.claim(late).await else { panic!("its lease is over") };
    assert_eq!(store.extend(&lease, Timestamp::from_millis(120_000)).await, Ok(true));
}

#[tokio::test]
async fn two_at_one_file_agree_who_was_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    let stores = [IdempotencyStore::open(&file).unwrap(), IdempotencyStore::open(&file).unwrap()];
    for round in 0..20 {
        let key = format!("k{round}");
        let (one, two) = tokio::join!(stores[0].claim(claim(&key, 0)), stores[1].claim(claim(&key, 0)));
        let firsts = [one, two].iter().filter(|claimed| matches!(claimed, Ok(Claimed::First(_)))).count();
        assert_eq!(firsts, 1);
        let (now, until) = (Timestamp::from_millis(0), Timestamp::from_millis(1));
        let (one, two) =
            tokio::join!(stores[0].key_for(&key, now, until), stores[1].key_for(&key, now, until));
        assert_eq!(one.unwrap(), two.unwrap());
    }
}

#[tokio::test]
async fn what_is_over_goes_and_the_file_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    let store = IdempotencyStore::open_with(&file, Durability::Relaxed, None).unwrap();
    for number in 0..300 {
        store.claim(claim(&format!("k{number}"), number)).await.unwrap();
    }
    drop(store);
    let rows: i64 = rusqlite::Connection::open(&file)
        .unwrap()
        .query_row("SELECT count(*) FROM idempotency_keys", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 10, "the leases that are not over");
}

#[tokio::test]
async fn a_file_at_its_limit_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    let store = IdempotencyStore::open_with(&file, Durability::Relaxed, Some(256 << 10)).unwrap();
    let until = Timestamp::from_millis(i64::from(u32::MAX));
    let large = || Answer { body: Some(Bytes::from(vec![7; 20_000])), ..Answer::default() };
    let refused = 'full: {
        for number in 0..100 {
            let lease = match store.claim(claim(&format!("k{number}"), 0)).await {
                Ok(Claimed::First(lease)) => lease,
                Ok(other) => panic!("{other:?}"),
                Err(error) => break 'full error,
            };
            if let Err(error) = store.remember(&lease, large(), until).await {
                break 'full error;
            }
        }
        panic!("it never filled");
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
    assert!(matches!(store.claim(claim("k0", 1)).await, Ok(Claimed::Done(_))), "what is in it can be read");
}

#[test]
fn a_limit_that_leaves_no_room_for_the_tables_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for limit in [0, 1, 4_095, 4_096, 8_192] {
        let file = folder.path().join(format!("{limit}.db"));
        let Err(OpenError::System { why, .. }) =
            IdempotencyStore::open_with(&file, Durability::Relaxed, Some(limit))
        else {
            panic!("a limit of {limit} bytes was taken");
        };
        assert!(why.contains(&format!("its limit of {limit} bytes")), "{why}");
        assert!(IdempotencyStore::open(&file).is_ok(), "with another limit it can be used");
    }
}

#[tokio::test]
async fn a_limit_under_the_size_of_a_file_refuses_new_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.db");
    drop(IdempotencyStore::open(&file).unwrap());
    let store = IdempotencyStore::open_with(&file, Durability::Relaxed, Some(1)).unwrap();
    let large = Answer { body: Some(Bytes::from(vec![7; 100_000])), ..Answer::default() };
    let Ok(Claimed::First(lease)) = store.claim(claim("k", 0)).await else { panic!("a claim needs no page") };
    let refused = store.remember(&lease, large, Timestamp::from_millis(1)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
}

#[tokio::test]
async fn a_file_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let queues = folder.path().join("redrive.db");
    drop(Store::open(&queues, Options::default()).unwrap());
    assert!(matches!(IdempotencyStore::open(&queues), Err(OpenError::Foreign { .. })));
    let keys = folder.path().join("keys.db");
    drop(IdempotencyStore::open(&keys).unwrap());
    assert!(matches!(Store::open(&keys, Options::default()), Err(OpenError::Foreign { .. })));
    let newer = rusqlite::Connection::open(&keys).unwrap();
    newer.pragma_update(None, "user_version", 3).unwrap();
    drop(newer);
    let Err(OpenError::Newer { found: 3, known: 2, .. }) = IdempotencyStore::open(&keys) else {
        panic!("it was opened");
    };
    let text = folder.path().join("text");
    std::fs::write(&text, "no database at all, and long enough to be read as one").unwrap();
    assert!(matches!(IdempotencyStore::open(&text), Err(OpenError::Damaged { .. })));
}

/// Those who find a new file make its tables and its journal at the same time, and wait for each other.
#[test]
fn many_that_make_one_file_at_the_same_time_all_open_it() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let file = folder.path().join(format!("keys{round}.db"));
        let together = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    IdempotencyStore::open(&file).unwrap();
                });
            }
        });
    }
}
