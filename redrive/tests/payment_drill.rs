//! The drill on RabbitMQ does what it says.
//!
//! The test runs itself again as the consumer that is killed.

#[path = "../examples/payment_drill.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own, whose main is not called here")]
mod payment_drill;

use std::process::Command;

use payment_drill::{POISON, WORKER};
use testkit::Services;

const SERVER: &str = "REDRIVE_TEST_DRILL_SERVER";

#[test]
fn five_things_go_wrong_and_no_payment_is_lost_or_taken_twice() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let (Some(folder), Ok(server)) = (std::env::var_os(WORKER), std::env::var(SERVER)) {
        return runtime.block_on(payment_drill::work(&server, folder.as_ref())).unwrap();
    }
    let services = Services::connect();
    let Some(server) = services.rabbitmq() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    let test = "five_things_go_wrong_and_no_payment_is_lost_or_taken_twice";
    again.args([test, "--exact", "--nocapture"]).env(SERVER, server.address());
    let outcome = runtime.block_on(payment_drill::run(server.address(), folder.path(), again)).unwrap();

    assert_eq!(outcome.attempts, [1, 2, 3, 4]);
    assert!(outcome.delayed, "a retry came before its time: {outcome:?}");
    assert_eq!(outcome.parked_after, 1);
    assert!(outcome.killed, "the consumer was not killed between publish and acknowledgement");
    assert_eq!(outcome.captured_after_kill, 1);
    assert_eq!(outcome.captured_by_replays, 1);
    assert_eq!(outcome.healthy, 5);
    assert_eq!(outcome.reasons.get("BAD_PAYLOAD parked"), Some(&(POISON as u64)), "{outcome:?}");
    let contention = outcome.reasons.keys().any(|reason| reason.starts_with("OPTIMISTIC_LOCK"));
    assert!(!contention, "what is retried in place leaves no trace: {outcome:?}");
}
