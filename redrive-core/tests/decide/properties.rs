//! What holds for all policies, histories and failures.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn schedules() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        (1_u32..100_000, 1_u32..5).prop_map(|(ms, times)| format!("{ms}ms x{times}")),
        (1_u32..5_000, 1_u32..4, 1_u32..6).prop_map(|(ms, factor, times)| {
            format!("exponential({ms}ms, factor {factor}, max {}ms, times {times})", ms * 20)
        }),
    ];
    let jitter = prop_oneof![
        Just(""),
        Just(" jitter full"),
        Just(" jitter equal"),
        Just(" jitter 10%"),
        Just(" jitter +33%"),
        Just(" jitter decorrelated"),
    ];
    (prop::collection::vec(step, 1..4), jitter)
        .prop_map(|(steps, jitter)| format!("{}{jitter}", steps.join(", ")))
}

fn specs() -> impl Strategy<Value = PolicySpec> {
    let layer = || prop::option::of(schedules());
    let forever = (layer(), any::<bool>(), prop::option::of(1_u32..40));
    (layer(), layer(), forever, prop::option::of(1_u64..100_000), prop::option::of(1_u64..1_000_000), prop::option::of(1_u32..20))
        .prop_filter_map("a policy that builds", |(local, blocking, (retry, forever, attempts), age, delay, calls)| {
            let retry = match (retry, forever) {
                (Some(retry), true) if !retry.contains("jitter") => Some(format!("{retry}, 1s forever")),
                (retry, _) => retry,
            };
            let spec = serde_json::json!({
                "local": local.unwrap_or_else(|| "0s".into()),
                "blocking": blocking.unwrap_or_else(|| "0s".into()),
                "retry": retry.unwrap_or_else(|| "0s".into()),
                "budgets": { "attempts": attempts, "age": age.map(|ms| format!("{ms}ms")), "delay": delay.map(|ms| format!("{ms}ms")), "calls": calls },
            });
            let spec: PolicySpec = serde_json::from_value(spec).ok()?;
            spec.build().is_ok().then_some(spec)
        })
}

fn failures() -> impl Strategy<Value = Failure> {
    let verdicts = prop::option::weighted(
        0.3,
        prop_oneof![
            Just(Verdict::Retry),
            any::<u32>().prop_map(|ms| Verdict::RetryAfter(Duration::from_millis(ms.into()))),
            Just(Verdict::Park),
            Just(Verdict::Follow("other".into())),
            Just(Verdict::Ack)
        ],
    );
    (
        prop::option::of(any::<u16>()),
        prop::option::of(any::<i32>()),
        any::<String>(),
        prop::option::of(any::<u64>()),
        verdicts,
    )
        .prop_map(|(status, exit, text, retry_after, verdict)| {
            let mut failure = Failure::from_message(text.clone()).with_body(text);
            if let Some(status) = status {
                failure = failure.with_status(status);
            }
            if let Some(exit) = exit {
                failure = failure.with_exit_code(exit);
            }
            if let Some(ms) = retry_after {
                failure = failure.with_retry_after(Duration::from_millis(ms));
            }
            if let Some(verdict) = verdict {
                failure = failure.with_verdict(verdict);
            }
            failure
        })
}

fn histories() -> impl Strategy<Value = History> {
    (any::<[u32; 5]>(), any::<[u64; 3]>(), prop::option::of(any::<i64>()), any::<bool>()).prop_map(
        |([attempts, delayed, calls, cost, crashes], [waited, held, last], first, endpoint_proven)| History {
            attempts,
            delayed,
            calls,
            cost,
            crashes,
            endpoint_proven,
            waited: Duration::from_millis(waited),
            held: Duration::from_millis(held),
            last_wait: Some(Duration::from_millis(last)),
            first_failure: first.map(Timestamp::from_millis),
        },
    )
}

proptest! {
    #[test]
    fn it_is_total_and_equal_inputs_give_equal_decisions(
        spec in specs(), history in histories(), failure in failures(), now in any::<i64>(), seed in any::<u64>(),
    ) {
        let policy = spec.build().unwrap();
        let now = Timestamp::from_millis(now);
        let decide = || decide(&policy, &Subject::default(), &history, &failure, now, &mut SplitMix64::new(seed));
        let decision = decide();
        prop_assert_eq!(&decision, &decide());
        prop_assert!(!decision.to_string().is_empty());
    }

    /// A message that fails for ever, with a class and an advice that change each time, comes to an end within
    /// every budget, and no budget ever grows.
    #[test]
    fn every_policy_ends_within_its_budgets(
        spec in specs(), statuses in prop::collection::vec(prop_oneof![Just(503_u16), Just(409), Just(999)], 1..8),
        advice in prop::option::of(0_u64..100_000), seed in any::<u64>(),
    ) {
        let policy = spec.build().unwrap();
        let mut rng = SplitMix64::new(seed);
        let mut history = History::first();
        let mut now = NOW;
        history.first_failure = Some(now);
        for round in 0_usize.. {
            prop_assert!(round < 200_000, "it goes on and on");
            let mut failure = status(statuses[round % statuses.len()]);
            if let Some(ms) = advice && round % 3 == 0 {
                failure = failure.with_retry_after(Duration::from_millis(ms));
            }
            let decision = decide(&policy, &Subject::default(), &history, &failure, now, &mut rng);
            let wait = match decision.action {
                Action::RetryInPlace { after } => after,
                Action::Block { until } | Action::Delay { until } => until.since(now),
                _ => break,
            };
            now = now + wait;
            history.attempts += 1;
            history.calls += 1;
            history.delayed += u32::from(matches!(decision.action, Action::Delay { .. }));
            history.waited += wait;
            history.last_wait = Some(wait);
            let budgets = policy.budgets();
            prop_assert!(policy.attempts().is_none_or(|allowed| history.attempts <= allowed));
            prop_assert!(budgets.calls.is_none_or(|allowed| history.calls <= allowed));
            prop_assert!(budgets.age.is_none_or(|allowed| history.age(now) <= allowed + Duration::from_millis(1)));
            prop_assert!(budgets.delay.is_none_or(|allowed| history.waited <= allowed + Duration::from_millis(1) * history.attempts));
        }
    }

    /// A rule's own handling and a handler's verdict lift no budget that somebody wrote.
    #[test]
    fn handlings_and_verdicts_end_within_the_budgets(
        spec in specs(), handling in prop::sample::select(Handling::ALL), follow in any::<bool>(), seed in any::<u64>(),
    ) {
        let rule = serde_json::json!({ "when": { "status": 503 }, "class": "TRANSIENT", "handling": handling });
        let policy = PolicySpec { rules: vec![serde_json::from_value(rule).unwrap()], ..spec }.build().unwrap();
        let mut rng = SplitMix64::new(seed);
        let mut now = NOW;
        let mut history = History { first_failure: Some(now), ..History::first() };
        for round in 0_u32.. {
            prop_assert!(round < 200_000, "it goes on and on");
            let failure = if follow && round % 2 == 1 { verdict("follow=other") } else { status(503) };
            let decision = decide(&policy, &Subject::default(), &history, &failure, now, &mut rng);
            let wait = match decision.action {
                Action::RetryInPlace { after } => after,
                Action::Block { until } | Action::Delay { until } => until.since(now),
                Action::Follow { .. } => Duration::ZERO,
                _ => break,
            };
            now = now + wait;
            history.attempts += 1;
            history.calls += 1;
            history.delayed += u32::from(matches!(decision.action, Action::Delay { .. }));
            history.waited += wait;
            let budgets = policy.budgets();
            prop_assert!(budgets.attempts.is_none_or(|allowed| history.attempts <= allowed));
            prop_assert!(budgets.calls.is_none_or(|allowed| history.calls <= allowed));
        }
    }

    #[test]
    fn a_permanent_failure_is_never_retried_by_a_general_schedule(spec in specs(), seed in any::<u64>()) {
        let policy = spec.build().unwrap();
        let decision = decide(&policy, &Subject::default(), &History::first(), &status(422), NOW, &mut SplitMix64::new(seed));
        prop_assert_eq!(decision.action, Action::Park);
        prop_assert_eq!(decision.class, Class::PermanentTechnical);
    }

    #[test]
    fn a_verdict_parses_and_prints_or_is_refused(text in any::<String>()) {
        if let Ok(verdict) = text.parse::<Verdict>() {
            prop_assert_eq!(verdict.to_string().parse(), Ok(verdict));
        }
    }
}
