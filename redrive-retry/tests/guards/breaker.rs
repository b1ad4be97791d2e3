use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use redrive_core::guard::{Breaker, Permit as Right};
use redrive_retry::CircuitBreaker;
use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome, Permit, TripCause, Window};

use super::{ByHand, ms};

fn config() -> impl Strategy<Value = BreakerConfig> {
    let window = prop_oneof![
        (30u64..20_000).prop_map(|millis| Window::Time(ms(millis))),
        (4u32..30).prop_map(Window::Count)
    ];
    (1u32..=20, 1u32..5, window, 1u64..5_000, 1u32..6, any::<bool>(), 1u32..=20, 0u32..6).prop_map(
        |(failure, min_calls, window, open, half_open_probes, slow, slow_share, consecutive)| BreakerConfig {
            failure_share: f64::from(failure) / 20.0,
            min_calls,
            window,
            open: ms(open),
            half_open_probes,
            slow_call: slow.then_some(ms(100)),
            slow_share: f64::from(slow_share) / 20.0,
            consecutive,
        },
    )
}

#[derive(Debug, Clone)]
enum Act {
    Admit,
    /// Report the oldest call under way.
    Report(Outcome),
    /// Give the newest up.
    GiveUp,
    Order(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let outcome = prop_oneof![
        10 => Just(Outcome::Success), 3 => Just(Outcome::Failure), 1 => Just(Outcome::Ignored),
    ];
    prop_oneof![
        20 => Just(Act::Admit),
        20 => outcome.prop_map(Act::Report),
        2 => Just(Act::GiveUp),
        1 => (0u8..3).prop_map(Act::Order),
    ]
}

proptest! {
    /// The breaker that counts beside its lock does what the one does that is told of everything at once.
    #[test]
    fn does_what_the_reference_does(
        config in config(), history in prop::collection::vec((0u64..300, act()), 0..400),
    ) {
        let clock = Arc::new(ByHand::default());
        let shared = CircuitBreaker::with_clock(config.clone(), Arc::clone(&clock)).unwrap();
        let mut reference = Breaker::new(config).unwrap();
        let mut now = ms(0);
        let mut under_way: VecDeque<(Permit<'_>, Right, std::time::Duration)> = VecDeque::new();
        for (step, act) in history {
            now += ms(step);
            clock.set(now);
            match act {
                Act::Admit => match (shared.admit(), reference.admit(now)) {
                    (Ok(permit), admission) if admission.permit().is_some() => {
                        under_way.push_back((permit, admission.permit().unwrap(), now));
                    }
                    (Err(open), redrive_core::guard::Admission::Refused { retry_at }) => {
                        prop_assert_eq!(open.retry_after, retry_at.map(|at| at.saturating_sub(now)));
                    }
                    (shared, reference) => prop_assert!(false, "{shared:?} but {reference:?}"),
                },
                Act::Report(outcome) => {
                    if let Some((permit, right, began)) = under_way.pop_front() {
                        permit.report(outcome);
                        reference.record(now, right, outcome, now.saturating_sub(began));
                    }
                }
                Act::GiveUp => {
                    if let Some((permit, right, _)) = under_way.pop_back() {
                        drop(permit);
                        reference.withdraw(right);
                    }
                }
                Act::Order(0) => {
                    shared.force_open();
                    reference.force_open();
                }
                Act::Order(1) => {
                    shared.force_close();
                    reference.force_close();
                }
                Act::Order(_) => {
                    shared.auto();
                    reference.auto();
                }
            }
            // Asking adds everything up, so it is asked now and then only.
            if step % 5 == 0 {
                prop_assert_eq!(shared.snapshot(), reference.snapshot(now));
                prop_assert_eq!(shared.state(), reference.state(now));
            }
        }
        prop_assert_eq!(shared.snapshot(), reference.snapshot(now));
    }
}

#[test]
fn listeners_hear_of_every_change_and_may_ask_back() {
    use BreakerState::{Closed, HalfOpen, Open};

    let clock = Arc::new(ByHand::default());
    let config = BreakerConfig { consecutive: 2, half_open_probes: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, Arc::clone(&clock)).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (theirs, asked) = (Arc::clone(&heard), breaker.clone());
    breaker.on_change(move |change| {
        theirs.lock().unwrap().push((change.from, change.to, change.cause));
        assert_eq!(asked.state(), change.to);
    });
    for _ in 0..2 {
        breaker.admit().unwrap().report(Outcome::Failure);
    }
    clock.set(ms(10_000));
    breaker.admit().unwrap().report(Outcome::Success);
    breaker.force_open();
    breaker.force_open();
    breaker.auto();
    let (row, forced) = (Some(TripCause::Consecutive), Some(TripCause::Forced));
    assert_eq!(
        *heard.lock().unwrap(),
        [
            (Closed, Open, row),
            (Open, HalfOpen, row),
            (HalfOpen, Closed, row),
            (Closed, Open, forced),
            (Open, HalfOpen, forced)
        ]
    );
}

/// What was heard, as the states before and after.
type Heard = Arc<Mutex<Vec<(BreakerState, BreakerState)>>>;

fn hears(breaker: &CircuitBreaker) -> Heard {
    let heard = Heard::default();
    let theirs = Arc::clone(&heard);
    breaker.on_change(move |change| theirs.lock().unwrap().push((change.from, change.to)));
    heard
}

const THERE_AND_BACK: [(BreakerState, BreakerState); 2] =
    [(BreakerState::Closed, BreakerState::Open), (BreakerState::Open, BreakerState::Closed)];

#[test]
fn a_listener_that_changes_the_breaker_is_heard_in_its_order() {
    let breaker = CircuitBreaker::new(BreakerConfig::default()).unwrap();
    let ours = breaker.clone();
    breaker.on_change(move |change| {
        if change.to == BreakerState::Open {
            ours.force_close();
        }
    });
    let heard = hears(&breaker);
    breaker.force_open();
    assert_eq!(*heard.lock().unwrap(), THERE_AND_BACK);
}

#[test]
fn changes_of_two_threads_are_heard_in_their_order() {
    let breaker = CircuitBreaker::new(BreakerConfig::default()).unwrap();
    let (tells, told) = std::sync::mpsc::channel();
    let (goes_on, go_on) = std::sync::mpsc::channel();
    let go_on = Mutex::new(go_on);
    // The thread that opens it is held up while it tells so.
    breaker.on_change(move |change| {
        if change.to == BreakerState::Open {
            tells.send(()).unwrap();
            go_on.lock().unwrap().recv().unwrap();
        }
    });
    let heard = hears(&breaker);
    std::thread::scope(|scope| {
        scope.spawn(|| breaker.force_open());
        told.recv().unwrap();
        breaker.force_close();
        goes_on.send(()).unwrap();
    });
    assert_eq!(*heard.lock().unwrap(), THERE_AND_BACK);
}

#[test]
fn a_listener_that_panics_does_not_silence_the_next_change() {
    let breaker = CircuitBreaker::new(BreakerConfig::default()).unwrap();
    let heard = hears(&breaker);
    breaker.on_change(|change| assert_ne!(change.to, BreakerState::Open, "it does not like that"));
    let theirs = breaker.clone();
    assert!(std::thread::spawn(move || theirs.force_open()).join().is_err());
    breaker.force_close();
    assert_eq!(*heard.lock().unwrap(), THERE_AND_BACK);
}

#[test]
fn nothing_that_threads_report_is_lost() {
    let clock = Arc::new(ByHand::default());
    let config = BreakerConfig { consecutive: 0, failure_share: 1.0, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::with_clock(config, Arc::clone(&clock)).unwrap();
    let failures = AtomicU64::new(0);
    // More threads than counters have places for: some take the lock.
    std::thread::scope(|scope| {
        for thread in 0..80_u64 {
            let (breaker, failures) = (&breaker, &failures);
            scope.spawn(move || {
                for call in 0..500_u64 {
                    let permit = breaker.admit().unwrap();
                    if (call + thread) % 97 == 0 {
                        permit.report(Outcome::Failure);
                        failures.fetch_add(1, Ordering::SeqCst);
                    } else {
                        permit.report(Outcome::Success);
                    }
                }
            });
        }
    });
    let shown = breaker.snapshot();
    assert_eq!((shown.calls, shown.failures), (80 * 500, failures.load(Ordering::SeqCst)));
}
