//! What every store of idempotency keys holds to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_retry::idempotency::{Answer, CallKeys, Claim, Claimed, KeyStore, Lease};

const MINUTE: Duration = Duration::from_mins(1);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_782_896_400_000 + seconds * 1_000)
}

/// A claim like no other.
fn claim(key: &str, body: u8, seconds: i64) -> Claim<'_> {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    // Every bit of a token counts.
    let token = !CLAIMS.fetch_add(1, Ordering::Relaxed);
    Claim { key, fingerprint: [body; 32], now: at(seconds), lease: MINUTE, token }
}

fn answer() -> Answer {
    let headers = vec![
        ("content-type".to_owned(), Bytes::from("text/plain")),
        ("set-cookie".to_owned(), Bytes::from_static(b"a=\xff")),
        ("set-cookie".to_owned(), Bytes::new()),
    ];
    Answer { status: 201, headers, body: Some(Bytes::from_static(b"\0order 1")) }
}

async fn first<S: KeyStore>(store: &S, claim: Claim<'_>) -> Lease {
    match store.claim(claim).await.unwrap() {
        Claimed::First(lease) => lease,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn holds<S: KeyStore + CallKeys>(store: &S) {
    one_is_the_first(store).await;
    a_released_key_is_free(store).await;
    a_lease_ends(store).await;
    a_lease_is_extended(store).await;
    a_claim_whose_answer_was_lost_is_made_again(store).await;
    an_answer_is_forgotten_in_time(store).await;
    of_many_at_once_one_is_the_first(store).await;
    calls_keep_their_keys(store).await;
}

async fn one_is_the_first<S: KeyStore>(store: &S) {
    let lease = first(store, claim("a", 1, 0)).await;
    assert_eq!(&*lease.key, "a");
    assert_eq!(store.claim(claim("a", 1, 1)).await, Ok(Claimed::Running));
    assert_eq!(store.claim(claim("a", 2, 1)).await, Ok(Claimed::Other));
    assert_eq!(store.remember(&lease, answer(), at(3_600)).await, Ok(true));
    assert_eq!(store.remember(&lease, Answer::default(), at(3_600)).await, Ok(false), "it is said once");
    assert_eq!(store.claim(claim("a", 1, 2)).await, Ok(Claimed::Done(answer())));
    assert_eq!(store.claim(claim("a", 2, 2)).await, Ok(Claimed::Other));
    store.release(&lease).await.unwrap();
    assert_eq!(store.claim(claim("a", 1, 3)).await, Ok(Claimed::Done(answer())), "what is done stays done");
    let lease = first(store, claim("a b", 1, 0)).await;
    let too_large = Answer { body: None, ..answer() };
    assert_eq!(store.remember(&lease, too_large.clone(), at(3_600)).await, Ok(true));
    assert_eq!(store.claim(claim("a b", 1, 1)).await, Ok(Claimed::Done(too_large)));
}

async fn a_released_key_is_free<S: KeyStore>(store: &S) {
    let lease = first(store, claim("b", 1, 0)).await;
    store.release(&lease).await.unwrap();
    let next = first(store, claim("b", 2, 1)).await;
    assert_ne!(next.token, lease.token);
    store.release(&lease).await.unwrap();
    assert_eq!(store.claim(claim("b", 2, 2)).await, Ok(Claimed::Running), "an old lease frees nothing");
}

async fn a_lease_ends<S: KeyStore>(store: &S) {
    let dead = first(store, claim("c", 1, 0)).await;
    assert_eq!(store.claim(claim("c", 1, 59)).await, Ok(Claimed::Running));
    let next = first(store, claim("c", 1, 60)).await;
    assert_eq!(store.remember(&dead, answer(), at(3_600)).await, Ok(false), "it is another's by now");
    assert_eq!(store.claim(claim("c", 1, 61)).await, Ok(Claimed::Running));
    assert_eq!(store.remember(&next, answer(), at(3_600)).await, Ok(true));
}

async fn a_lease_is_extended<S: KeyStore>(store: &S) {
    let lease = first(store, claim("g", 1, 0)).await;
    assert_eq!(store.extend(&lease, at(90)).await, Ok(true));
    assert_eq!(store.claim(claim("g", 1, 89)).await, Ok(Claimed::Running));
    let next = first(store, claim("g", 1, 90)).await;
    assert_eq!(store.extend(&lease, at(1_000)).await, Ok(false), "it is another's by now");
    assert_eq!(store.remember(&next, answer(), at(200)).await, Ok(true));
    assert_eq!(store.extend(&next, at(1_000)).await, Ok(false), "it was answered");
    let free = first(store, claim("g", 1, 200)).await;
    store.release(&free).await.unwrap();
    assert_eq!(store.extend(&free, at(1_000)).await, Ok(false), "nobody has it");
}

async fn a_claim_whose_answer_was_lost_is_made_again<S: KeyStore>(store: &S) {
    let asked = claim("h", 1, 0);
    let lease = first(store, asked).await;
    assert_eq!(lease.token, asked.token);
    assert_eq!(first(store, Claim { now: at(50), ..asked }).await, lease);
    assert_eq!(store.claim(claim("h", 1, 109)).await, Ok(Claimed::Running), "it holds for the new time");
    let other = Claim { fingerprint: [2; 32], now: at(51), ..asked };
    assert_eq!(store.claim(other).await, Ok(Claimed::Other));
    assert_eq!(store.remember(&lease, answer(), at(3_600)).await, Ok(true));
    assert_eq!(store.claim(Claim { now: at(52), ..asked }).await, Ok(Claimed::Done(answer())));
}

async fn an_answer_is_forgotten_in_time<S: KeyStore>(store: &S) {
    let lease = first(store, claim("d", 1, 0)).await;
    store.remember(&lease, answer(), at(100)).await.unwrap();
    assert_eq!(store.claim(claim("d", 1, 99)).await, Ok(Claimed::Done(answer())));
    first(store, claim("d", 2, 100)).await;
}

async fn of_many_at_once_one_is_the_first<S: KeyStore>(store: &S) {
    let claims = (0..50).map(|_| store.claim(claim("e", 1, 0)));
    let claimed = futures_util::future::join_all(claims).await;
    let firsts = claimed.iter().filter(|claimed| matches!(claimed, Ok(Claimed::First(_)))).count();
    let running = claimed.iter().filter(|claimed| matches!(claimed, Ok(Claimed::Running))).count();
    assert_eq!((firsts, running), (1, 49));
}

async fn calls_keep_their_keys<S: KeyStore + CallKeys>(store: &S) {
    let key = store.key_for("charge order 771", at(0), at(100)).await.unwrap();
    assert_eq!(store.key_for("charge order 771", at(99), at(200)).await.unwrap(), key);
    assert_ne!(store.key_for("charge order 772", at(0), at(100)).await.unwrap(), key);
    assert_ne!(store.key_for("charge order 771", at(100), at(200)).await.unwrap(), key, "its time is over");
    let kept = store.key_for("refund", at(0), at(100)).await.unwrap();
    store.forget("refund").await.unwrap();
    assert_ne!(store.key_for("refund", at(1), at(100)).await.unwrap(), kept);
    // The name of a call is never the key of a request, in no scope.
    first(store, claim("refund", 1, 1)).await;
    first(store, claim("call refund", 1, 1)).await;
}
