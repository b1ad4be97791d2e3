use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use redrive_core::guard::RetryBudget;
use redrive_retry::SharedBudget;
use redrive_retry::guard::RetryBudgetConfig;

use super::{ByHand, ms};

proptest! {
    #[test]
    fn does_what_the_reference_does(
        window in 10u64..5_000, share in 1u32..20,
        calls in 0u32..5_000, history in prop::collection::vec((0u64..300, 0u8..10), 0..300),
    ) {
        let config =
            RetryBudgetConfig { share: f64::from(share) / 10.0, floor: None, window: ms(window) };
        let clock = Arc::new(ByHand::default());
        let shared = SharedBudget::with_clock(config.clone(), Arc::clone(&clock)).unwrap();
        let mut reference = RetryBudget::new(config).unwrap();
        let mut now = ms(0);
        // With many calls before, there is so much room that a thread gets retries ahead.
        for _ in 0..calls {
            shared.deposit();
            reference.deposit(now);
        }
        for (step, act) in history {
            now += ms(step);
            clock.set(now);
            if act < 3 {
                prop_assert_eq!(shared.try_spend(), reference.try_spend(now));
            } else {
                shared.deposit();
                reference.deposit(now);
            }
        }
    }
}

#[test]
fn threads_together_never_spend_more_than_the_share_and_get_all_of_it() {
    let clock = Arc::new(ByHand::default());
    let config = RetryBudgetConfig { share: 0.3, floor: None, ..RetryBudgetConfig::default() };
    let budget = SharedBudget::with_clock(config, Arc::clone(&clock)).unwrap();
    let spent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..80 {
            let (budget, spent) = (&budget, &spent);
            scope.spawn(move || {
                for call in 0..500 {
                    budget.deposit();
                    if call % 2 == 0 && budget.try_spend() {
                        spent.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    while budget.try_spend() {
        spent.fetch_add(1, Ordering::SeqCst);
    }
    assert_eq!(spent.load(Ordering::SeqCst), 80 * 500 * 3 / 10);
}
