//! A budget of calls that several take from at once.

use std::sync::atomic::{AtomicU32, Ordering};

use redrive_retry::CallBudget;

#[test]
fn no_more_calls_are_taken_at_once_than_there_are() {
    for _ in 0..200 {
        let (budget, taken) = (CallBudget::new(Some(100), None), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let budget = budget.clone();
                let taken = &taken;
                scope.spawn(move || {
                    while budget.try_take() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((taken.into_inner(), budget.used(), budget.left()), (100, 100, Some(0)));
    }
}

/// A task that outlives the call that it was made for goes on with that call's budget.
#[test]
fn a_budget_that_somebody_still_has_is_not_renewed_under_his_hands() {
    let mut budget = CallBudget::new(Some(2), None);
    assert!(budget.try_take());
    let kept = budget.clone();
    budget.renew(Some(5), None);
    assert!(kept.try_take() && !kept.try_take(), "it had one left");
    assert_eq!((kept.used(), budget.used(), budget.left()), (2, 0, Some(5)));
    drop(kept);
    assert!(budget.try_take());
    budget.renew(None, None);
    assert_eq!((budget.used(), budget.left()), (0, None));
}
