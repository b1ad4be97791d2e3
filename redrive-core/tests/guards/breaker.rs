use std::time::Duration;

use proptest::prelude::*;
use redrive_core::guard::{
    Admission, Breaker, BreakerConfig, BreakerState, Outcome, Permit, TripCause, Window,
};

use super::breaker_model::{Model, Phase};
use super::{Clock, ms, step};

fn breaker(config: BreakerConfig) -> Breaker {
    Breaker::new(config).unwrap()
}

fn call(breaker: &mut Breaker, now: Duration, outcome: Outcome) -> Option<BreakerState> {
    let permit = breaker.admit(now).permit().expect("admitted");
    breaker.record(now, permit, outcome, Duration::ZERO)
}

#[test]
fn names_the_field_that_is_wrong() {
    let good = BreakerConfig::default;
    let field = |config| Breaker::new(config).unwrap_err().field;
    for share in [f64::NAN, 0.0, -1.0, 1.000_1, f64::INFINITY] {
        assert_eq!(field(BreakerConfig { failure_share: share, ..good() }), "failure_share");
        assert_eq!(field(BreakerConfig { slow_share: share, ..good() }), "slow_share");
    }
    assert_eq!(field(BreakerConfig { min_calls: 0, ..good() }), "min_calls");
    assert_eq!(field(BreakerConfig { window: Window::Time(Duration::ZERO), ..good() }), "window");
    assert_eq!(field(BreakerConfig { window: Window::Count(0), ..good() }), "window");
    assert_eq!(field(BreakerConfig { window: Window::Count(100_001), ..good() }), "window");
    assert_eq!(field(BreakerConfig { window: Window::Count(19), ..good() }), "min_calls");
    assert_eq!(field(BreakerConfig { open: Duration::ZERO, ..good() }), "open");
    assert_eq!(field(BreakerConfig { half_open_probes: 0, ..good() }), "half_open_probes");
    assert_eq!(field(BreakerConfig { half_open_probes: 65, ..good() }), "half_open_probes");
}

#[test]
fn opens_when_nothing_ever_succeeded() {
    let mut breaker = breaker(BreakerConfig::default());
    for _ in 0..4 {
        assert_eq!(call(&mut breaker, ms(0), Outcome::Failure), None);
    }
    assert_eq!(call(&mut breaker, ms(0), Outcome::Failure), Some(BreakerState::Open));
    assert!(!breaker.succeeded_in_window(ms(0)));
    assert_eq!(breaker.snapshot(ms(0)).cause, Some(TripCause::Consecutive));
}

#[test]
fn opens_by_share_only_from_the_minimum_on() {
    let mut breaker = breaker(BreakerConfig { consecutive: 0, ..Default::default() });
    for n in 0..19 {
        let outcome = if n % 2 == 0 { Outcome::Failure } else { Outcome::Success };
        assert_eq!(call(&mut breaker, ms(n), outcome), None);
    }
    assert_eq!(call(&mut breaker, ms(19), Outcome::Failure), Some(BreakerState::Open));
    assert_eq!(breaker.snapshot(ms(19)).cause, Some(TripCause::FailureShare));
}

#[test]
fn opens_at_the_share_itself() {
    // As floats, 0.28 of 25 is a little more than 7.
    let config = BreakerConfig { consecutive: 0, failure_share: 0.28, min_calls: 25, ..Default::default() };
    let mut by_window = breaker(config.clone());
    for n in 0..24 {
        let outcome = if n < 18 { Outcome::Success } else { Outcome::Failure };
        assert_eq!(call(&mut by_window, ms(n), outcome), None, "{n}");
    }
    assert_eq!(call(&mut by_window, ms(24), Outcome::Failure), Some(BreakerState::Open));

    let mut by_probes = breaker(BreakerConfig { half_open_probes: 25, min_calls: 1, ..config });
    call(&mut by_probes, ms(0), Outcome::Failure);
    for n in 0..6 {
        assert_eq!(call(&mut by_probes, ms(20_000), Outcome::Failure), None, "{n}");
    }
    assert_eq!(call(&mut by_probes, ms(20_000), Outcome::Failure), Some(BreakerState::Open));
}

#[test]
fn a_share_under_a_millionth_takes_a_failure() {
    let mut breaker = breaker(BreakerConfig { failure_share: 1e-9, min_calls: 1, ..Default::default() });
    assert_eq!(call(&mut breaker, ms(0), Outcome::Success), None);
    assert_eq!(call(&mut breaker, ms(0), Outcome::Failure), Some(BreakerState::Open));
}

#[test]
fn opens_by_slow_calls() {
    let config = BreakerConfig { slow_call: Some(ms(100)), min_calls: 4, ..Default::default() };
    let mut breaker = breaker(config);
    let mut state = None;
    for took in [100, 101, 100, 101] {
        let permit = breaker.admit(ms(0)).permit().unwrap();
        state = breaker.record(ms(0), permit, Outcome::Success, ms(took));
    }
    assert_eq!(state, Some(BreakerState::Open));
    assert_eq!(breaker.snapshot(ms(0)).cause, Some(TripCause::SlowShare));
}

#[test]
fn poison_leaves_it_closed_and_as_a_probe_closes_it() {
    let mut breaker = breaker(BreakerConfig { half_open_probes: 1, ..Default::default() });
    for _ in 0..1_000 {
        assert_eq!(call(&mut breaker, ms(0), Outcome::Ignored), None);
    }
    for _ in 0..5 {
        call(&mut breaker, ms(0), Outcome::Failure);
    }
    assert_eq!(call(&mut breaker, ms(10_000), Outcome::Ignored), Some(BreakerState::Closed));
}

#[test]
fn a_probe_that_never_reports_wedges_nothing_and_a_late_one_counts() {
    let mut breaker = breaker(BreakerConfig { half_open_probes: 1, consecutive: 1, ..Default::default() });
    call(&mut breaker, ms(0), Outcome::Failure);
    let lost = breaker.admit(ms(10_000)).permit().unwrap();
    assert_eq!(breaker.admit(ms(19_999)), Admission::Refused { retry_at: Some(ms(20_000)) });
    assert!(matches!(breaker.admit(ms(20_000)), Admission::Probe(_)));
    // An endpoint that takes longer than `open` is back all the same.
    assert_eq!(breaker.record(ms(22_000), lost, Outcome::Success, ms(12_000)), Some(BreakerState::Closed));
}

#[test]
fn a_probe_that_was_not_made_frees_its_place() {
    let mut breaker = breaker(BreakerConfig { half_open_probes: 1, consecutive: 1, ..Default::default() });
    call(&mut breaker, ms(0), Outcome::Failure);
    let unused = breaker.admit(ms(10_000)).permit().unwrap();
    breaker.withdraw(unused);
    let probe = breaker.admit(ms(10_000)).permit().unwrap();
    breaker.withdraw(unused);
    assert!(breaker.admit(ms(10_000)).permit().is_none(), "the place is the second probe's");
    assert_eq!(breaker.record(ms(10_000), probe, Outcome::Success, ms(1)), Some(BreakerState::Closed));
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let window = Window::Time(Duration::from_nanos(1));
    let mut breaker =
        breaker(BreakerConfig { window, consecutive: 1, open: Duration::MAX, ..Default::default() });
    assert_eq!(call(&mut breaker, Duration::MAX, Outcome::Success), None);
    assert_eq!(breaker.snapshot(Duration::MAX).calls, 1);
    assert_eq!(call(&mut breaker, Duration::MAX, Outcome::Failure), Some(BreakerState::Open));
    assert_eq!(breaker.state(Duration::MAX), BreakerState::HalfOpen);
}

#[test]
fn a_result_from_before_changes_nothing() {
    let mut breaker = breaker(BreakerConfig { half_open_probes: 1, consecutive: 1, ..Default::default() });
    let early = breaker.admit(ms(0)).permit().unwrap();
    call(&mut breaker, ms(0), Outcome::Failure);
    assert_eq!(breaker.record(ms(1), early, Outcome::Success, ms(1)), None);
    assert_eq!(breaker.state(ms(1)), BreakerState::Open);
    assert!(breaker.succeeded_in_window(ms(1)), "it did succeed");
    let probe = breaker.admit(ms(10_000)).permit().unwrap();
    assert_eq!(breaker.record(ms(10_000), early, Outcome::Failure, ms(1)), None);
    assert_eq!(breaker.record(ms(10_000), probe, Outcome::Success, ms(1)), Some(BreakerState::Closed));
    assert_eq!(breaker.record(ms(10_000), probe, Outcome::Failure, ms(1)), None);
}

#[test]
fn a_persons_order_holds() {
    let mut breaker = breaker(BreakerConfig { half_open_probes: 1, ..Default::default() });
    breaker.force_open();
    assert_eq!(breaker.admit(ms(1_000_000)), Admission::Refused { retry_at: None });
    assert_eq!(breaker.next_at(ms(1_000_000)), None);
    breaker.auto();
    assert!(matches!(breaker.admit(ms(1_000_000)), Admission::Probe(_)));
    breaker.force_close();
    for _ in 0..100 {
        assert_eq!(call(&mut breaker, ms(1_000_000), Outcome::Failure), None);
    }
    let snapshot = breaker.snapshot(ms(1_000_000));
    assert_eq!((snapshot.state, snapshot.forced, snapshot.failures), (BreakerState::Closed, true, 100));
    breaker.auto();
    assert_eq!(breaker.snapshot(ms(1_000_000)).calls, 0);
    for _ in 0..4 {
        assert_eq!(call(&mut breaker, ms(1_000_000), Outcome::Failure), None);
    }
}

#[test]
fn success_is_remembered_for_the_window() {
    let mut by_time = breaker(BreakerConfig::default());
    assert!(!by_time.succeeded_in_window(ms(0)));
    call(&mut by_time, ms(0), Outcome::Success);
    assert!(by_time.succeeded_in_window(ms(29_999)));
    assert!(!by_time.succeeded_in_window(ms(30_000)));
    let mut by_count = breaker(BreakerConfig {
        window: Window::Count(2),
        min_calls: 2,
        failure_share: 1.0,
        ..Default::default()
    });
    call(&mut by_count, ms(0), Outcome::Success);
    call(&mut by_count, ms(0), Outcome::Failure);
    assert!(by_count.succeeded_in_window(ms(1_000_000)));
    call(&mut by_count, ms(0), Outcome::Failure);
    assert!(!by_count.succeeded_in_window(ms(0)));
}

fn config() -> impl Strategy<Value = BreakerConfig> {
    let window = prop_oneof![
        (1u64..20_000).prop_map(|millis| Window::Time(ms(millis))),
        (1u32..30).prop_map(Window::Count),
    ];
    (1u32..=20, 1u32..10, window, 1u64..5_000, 1u32..6, any::<bool>(), 1u32..=20, 0u32..6).prop_map(
        |(failure, min_calls, window, open, half_open_probes, slow, slow_share, consecutive)| BreakerConfig {
            failure_share: f64::from(failure) / 20.0,
            min_calls: if let Window::Count(calls) = window { min_calls.min(calls) } else { min_calls },
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
    /// Report one of the calls under way: which, how it ended, how long it took.
    Report(prop::sample::Index, Outcome, u64),
    /// Give the permit of one of the calls under way back.
    Withdraw(prop::sample::Index),
    Order(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let outcome = prop_oneof![
        2 => Just(Outcome::Success), 3 => Just(Outcome::Failure), 1 => Just(Outcome::Ignored),
    ];
    prop_oneof![
        20 => Just(Act::Admit),
        20 => (any::<prop::sample::Index>(), outcome, 0u64..200)
            .prop_map(|(which, outcome, took)| Act::Report(which, outcome, took)),
        3 => any::<prop::sample::Index>().prop_map(Act::Withdraw),
        1 => (0u8..3).prop_map(Act::Order),
    ]
}

proptest! {
    #[test]
    fn does_what_lists_of_events_say(
        config in config(), history in prop::collection::vec((step(), act()), 0..300),
    ) {
        let mut real = breaker(config.clone());
        let mut model =
            Model { config, phase: Phase::Closed { forced: false }, calls: Vec::new(), spell: 0, trips: 0 };
        let mut clock = Clock::default();
        let mut under_way: Vec<(u32, Permit)> = Vec::new();
        let mut successes: Vec<Duration> = Vec::new();
        let mut since_success = 0usize;
        for (step, act) in history {
            // Other calls tell the breaker no time.
            let tells_time = match act {
                Act::Admit => true,
                Act::Report(..) => !under_way.is_empty(),
                Act::Withdraw(_) | Act::Order(_) => false,
            };
            let (given, now) = clock.pass(if tells_time { step } else { 0 });
            match act {
                Act::Admit => {
                    let expected = model.admit(now);
                    let next = real.next_at(given);
                    let admission = real.admit(given);
                    match (admission, expected) {
                        (Admission::Allowed(permit), Ok(false)) | (Admission::Probe(permit), Ok(true)) => {
                            prop_assert_eq!(next, Some(now));
                            model.admitted(now, permit);
                            under_way.push((model.spell, permit));
                        }
                        (Admission::Refused { retry_at }, Err(at)) => {
                            prop_assert_eq!(retry_at, at);
                            prop_assert_eq!(next, at);
                        }
                        (real, model) => prop_assert!(false, "{real:?} but {model:?}"),
                    }
                }
                Act::Report(which, outcome, took) => {
                    if under_way.is_empty() {
                        continue;
                    }
                    let permit = under_way.swap_remove(which.index(under_way.len()));
                    let before = model.spell;
                    let changed = real.record(given, permit.1, outcome, ms(took));
                    model.record(now, permit, outcome, ms(took));
                    prop_assert_eq!(changed, (model.spell != before).then(|| model.state(now)));
                    match outcome {
                        Outcome::Success => {
                            successes.push(now);
                            since_success = 0;
                        }
                        Outcome::Failure => since_success += 1,
                        Outcome::Ignored => prop_assert_ne!(changed, Some(BreakerState::Open)),
                    }
                }
                Act::Withdraw(which) => {
                    if under_way.is_empty() {
                        continue;
                    }
                    let (spell, permit) = under_way.swap_remove(which.index(under_way.len()));
                    real.withdraw(permit);
                    if let Phase::HalfOpen { probes, .. } = &mut model.phase && spell == model.spell {
                        probes.retain(|probe| probe.permit != permit);
                    }
                }
                Act::Order(0) => {
                    real.force_open();
                    if !matches!(model.phase, Phase::Open { until: None }) {
                        model.trips += 1;
                        model.enter(Phase::Open { until: None });
                    }
                }
                Act::Order(1) => {
                    real.force_close();
                    if !matches!(model.phase, Phase::Closed { forced: true }) {
                        model.calls.clear();
                        model.enter(Phase::Closed { forced: true });
                    }
                }
                Act::Order(_) => {
                    real.auto();
                    match model.phase {
                        Phase::Open { until: None } => {
                            model.enter(Phase::HalfOpen { probes: Vec::new(), results: Vec::new() });
                        }
                        Phase::Closed { forced: true } => {
                            model.calls.clear();
                            model.enter(Phase::Closed { forced: false });
                        }
                        _ => {}
                    }
                }
            }
            let shown = real.snapshot(given);
            prop_assert_eq!(real.state(given), model.state(now));
            prop_assert_eq!(shown.state, model.state(now));
            prop_assert_eq!(shown.trips, model.trips);
            let window = model.window(now);
            prop_assert_eq!(shown.calls, window.len() as u64);
            prop_assert_eq!(shown.failures, window.iter().filter(|call| call.0).count() as u64);
            prop_assert_eq!(shown.slow, window.iter().filter(|call| call.1).count() as u64);
            let has_succeeded = successes.iter().any(|at| match model.config.window {
                Window::Time(time) => now.saturating_sub(*at) < time,
                Window::Count(calls) => since_success < calls as usize,
            });
            prop_assert_eq!(real.succeeded_in_window(given), has_succeeded);
        }
    }

    #[test]
    fn what_messages_cause_never_opens_it(
        config in config(), steps in prop::collection::vec((step(), 0u64..1_000), 1..300),
    ) {
        let mut breaker = breaker(BreakerConfig { slow_call: Some(ms(10)), ..config });
        let mut clock = Clock::default();
        for (step, took) in steps {
            let (now, _) = clock.pass(step);
            let Admission::Allowed(permit) = breaker.admit(now) else {
                return Err(TestCaseError::fail("it opened"));
            };
            prop_assert_eq!(breaker.record(now, permit, Outcome::Ignored, ms(took)), None);
        }
    }

    #[test]
    fn failures_alone_always_open_it(config in config(), steps in prop::collection::vec(1u64..20, 30)) {
        let mut breaker = breaker(BreakerConfig { window: Window::Count(30), ..config });
        let mut now = Duration::ZERO;
        for step in steps {
            now += ms(step);
            match breaker.admit(now).permit() {
                Some(permit) => breaker.record(now, permit, Outcome::Failure, Duration::ZERO),
                None => return Ok(()),
            };
            if breaker.state(now) == BreakerState::Open {
                return Ok(());
            }
        }
        prop_assert!(false, "it is still closed");
    }

    #[test]
    fn any_time_and_any_settings_are_taken(
        shares in (any::<f64>(), any::<f64>()),
        numbers in (any::<u32>(), 0u32..200_000, 0u32..70, any::<u32>()),
        times in (any::<Duration>(), any::<Duration>(), any::<bool>()),
        history in prop::collection::vec((any::<Duration>(), any::<bool>(), any::<Duration>()), 0..40),
    ) {
        let by_count = times.2;
        let made = Breaker::new(BreakerConfig {
            failure_share: shares.0.fract().abs(),
            slow_share: shares.1.fract().abs(),
            min_calls: numbers.0 % 50,
            window: if by_count { Window::Count(numbers.1) } else { Window::Time(times.0) },
            open: times.1,
            half_open_probes: numbers.2,
            slow_call: Some(ms(1)),
            consecutive: numbers.3 % 8,
        });
        if let Ok(mut breaker) = made {
            for (now, failed, took) in history {
                let outcome = if failed { Outcome::Failure } else { Outcome::Success };
                if let Some(permit) = breaker.admit(now).permit() {
                    breaker.record(now, permit, outcome, took);
                }
                breaker.snapshot(now);
            }
        }
    }
}
