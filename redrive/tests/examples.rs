//! The examples do what they say.

#[path = "../examples/order_projector.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own, whose main is not called here")]
mod order_projector;
#[path = "../examples/payment_capture.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own, whose main is not called here")]
mod payment_capture;

use payment_capture::Done;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_projected_in_spite_of_contention() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = order_projector::run(folder.path()).await.unwrap();
    let events = i64::from(order_projector::EVENTS);
    assert_eq!(
        (outcome.version, outcome.cents),
        (events, 100 * events * (events + 1) / 2),
        "each event once"
    );
    assert!(
        outcome.conflicts >= order_projector::EVENTS - 1,
        "all but one met a row that had moved: {outcome:?}"
    );
    assert_eq!((outcome.parked, outcome.others), (1, 0), "a conflict leaves no trace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_captured_once_because_of_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |name: &str, key| payment_capture::run(&folder.path().join(name), key).await.unwrap();
    let with = run("with.db", true).await;
    assert!(with.calls > 1 && with.captures == 1, "{with:?}");
    assert_eq!(run("without.db", false).await, Done { calls: 4, captures: 4 }, "one at each attempt");
}
