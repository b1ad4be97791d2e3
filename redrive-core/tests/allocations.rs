//! The retry path allocates nothing: a storm of failures must not become a storm of allocations.

use redrive_core::classify::Subject;
use redrive_core::{Action, Failure, History, Policy, SplitMix64, Timestamp, decide};

#[test]
fn a_retry_is_decided_without_allocating() {
    let policy = Policy::default();
    let failure = Failure::from_message("busy").with_status(503);
    let now = Timestamp::from_millis(1_782_896_400_000);
    let mut rng = SplitMix64::new(1);
    let delayed = History { attempts: 3, delayed: 1, ..History::first() };
    for history in [History::first(), delayed] {
        let mut retried = false;
        let counted = allocation_counter::measure(|| {
            let decision = decide(&policy, &Subject::default(), &history, &failure, now, &mut rng);
            retried = matches!(decision.action, Action::RetryInPlace { .. } | Action::Delay { .. });
        });
        assert!(retried);
        assert_eq!(counted.count_total, 0);
    }
}
