//! `decide` from the outside: every branch, and what holds for all policies, histories and failures.

mod properties;

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::classify::Subject;
use redrive_core::guard::Outcome;
use redrive_core::{
    Action, Class, Decision, End, Failure, Handling, History, Policy, PolicySpec, Reason, SplitMix64,
    Timestamp, Verdict, decide,
};

const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

fn policy(json: &str) -> Policy {
    let spec: PolicySpec = serde_json::from_str(json).unwrap();
    spec.build().unwrap()
}

fn decide_on(policy: &Policy, history: &History, failure: &Failure) -> Decision {
    decide(policy, &Subject::default(), history, failure, NOW, &mut SplitMix64::new(7))
}

fn status(code: u16) -> Failure {
    Failure::from_message("failed").with_status(code)
}

fn verdict(text: &str) -> Failure {
    Failure::default().with_verdict(text.parse().unwrap())
}

/// What decide said in one line, without the waits.
fn line(decision: &Decision) -> String {
    let Decision { action, class, reason, because, .. } = decision;
    format!("{} {class} {reason}: {because}", action.name())
}

#[test]
fn the_layers_come_one_after_the_other() {
    let policy = policy(
        r#"{ "local": "20ms x2", "blocking": { "CONTENTION": "200ms x2" }, "retry": "10s, 1m",
             "exits": { "default": "dead_letter" } }"#,
    );
    let mut history = History::first();
    let mut said = Vec::new();
    loop {
        let decision = decide_on(&policy, &history, &status(409));
        said.push(line(&decision));
        if !decision.action.is_retry() {
            break;
        }
        history.attempts += 1;
        history.delayed += u32::from(matches!(decision.action, Action::Delay { .. }));
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    retry_in_place CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; retry in place 1 of 2
    retry_in_place CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; retry in place 2 of 2
    block CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; blocking retry 1 of 2
    block CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; blocking retry 2 of 2
    delay CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; delayed retry 1 of 2
    delay CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; delayed retry 2 of 2
    dead_letter CONTENTION OPTIMISTIC_LOCK_CONFLICT: rule `http-conflict`; attempts spent: 7 of 7
    ");
}

#[test]
fn a_change_of_class_keeps_the_counters() {
    let policy = policy(r#"{ "retry": { "TRANSIENT": "10s x5", "CONTENTION": "1s x2" } }"#);
    let history = History { attempts: 4, delayed: 3, ..History::first() };
    assert_eq!(
        line(&decide_on(&policy, &history, &status(503))),
        "delay TRANSIENT DOWNSTREAM_UNAVAILABLE: rule `http-unavailable`; delayed retry 4 of 5"
    );
    assert_eq!(
        line(&decide_on(&policy, &history, &status(423))),
        "dead_letter CONTENTION LOCKED: rule `http-locked`; the schedule is at its end"
    );
}

/// One call for every way a decision can come out; the test fails when an action or an end has no way to it.
#[test]
fn every_branch_is_reached_from_outside() {
    let ladder = Policy::default();
    let first = History::first();
    let budget = |json: &str| policy(&format!(r#"{{ "retry": "1h x9 jitter none", "budgets": {json} }}"#));
    let tired = History {
        attempts: 3,
        delayed: 2,
        calls: 9,
        cost: 5,
        waited: Duration::from_secs(7_200),
        first_failure: Some(Timestamp::from_millis(NOW.as_millis() - 7_200_000)),
        ..History::first()
    };
    let late = Subject { deadline: Some(NOW + Duration::from_secs(1)), ..Subject::default() };
    let unproven = History { endpoint_proven: false, ..History::first() };
    let rejecting = policy(r#"{ "exits": { "PERMANENT_BUSINESS": "reject", "default": "discard" } }"#);
    let blocking = policy(r#"{ "blocking": "1s forever" }"#);

    let mut rng = SplitMix64::new(1);
    let decisions = [
        decide_on(&ladder, &first, &verdict("ack")),
        decide_on(&ladder, &first, &verdict("retry")),
        decide_on(&ladder, &first, &verdict("retry-after=2m")),
        decide_on(&ladder, &first, &verdict("park")),
        decide_on(&ladder, &first, &verdict("dead")),
        decide_on(&ladder, &first, &verdict("discard")),
        decide_on(&ladder, &first, &verdict("reject")),
        decide_on(&ladder.clone().with_reject_target(), &first, &verdict("reject")),
        decide_on(&ladder, &first, &verdict("follow=order-17")),
        decide_on(&ladder, &History { attempts: 6, ..History::first() }, &verdict("retry")),
        decide_on(&ladder, &History { attempts: 6, ..History::first() }, &verdict("follow=order-17")),
        decide_on(&budget(r#"{ "age": "1h" }"#), &tired, &verdict("follow=order-17")),
        decide_on(&ladder, &first, &status(400)),
        decide_on(&ladder, &first, &status(401)),
        decide_on(&ladder, &unproven, &status(401)),
        decide_on(&ladder, &first, &status(503).with_retry_after(Duration::from_secs(30))),
        decide_on(&ladder, &first, &status(503).with_retry_after(Duration::from_secs(86_400))),
        decide_on(&blocking, &first, &status(503)),
        decide_on(&budget(r#"{ "attempts": 3 }"#), &tired, &status(503)),
        decide_on(&budget(r#"{ "calls": 9 }"#), &tired, &status(503)),
        decide_on(
            &budget(r#"{ "cost": { "per": "json:/order/id", "calls": 5, "window": "24h" } }"#),
            &tired,
            &status(503),
        ),
        decide_on(&budget(r#"{ "age": "2h30m" }"#), &tired, &status(503)),
        decide_on(&budget(r#"{ "delay": "2h30m" }"#), &tired, &status(503)),
        decide_on(&budget(r#"{ "broker_attempts": 2 }"#), &tired, &status(503)),
        decide(&ladder, &late, &History { attempts: 2, ..History::first() }, &status(503), NOW, &mut rng),
        decide_on(&rejecting, &History { attempts: 6, delayed: 4, ..History::first() }, &status(503)),
    ];
    let said: Vec<_> = decisions.iter().map(line).collect();
    insta::assert_snapshot!(said.join("\n"));

    let actions: BTreeSet<_> = decisions.iter().map(|decision| decision.action.name()).collect();
    assert_eq!(
        actions.into_iter().collect::<Vec<_>>(),
        [
            "ack",
            "block",
            "dead_letter",
            "delay",
            "discard",
            "follow",
            "park",
            "reject",
            "retry_in_place",
            "return"
        ]
    );
    let ends: BTreeSet<_> =
        decisions.iter().filter_map(|decision| decision.because.end).map(|end| end_name(&end)).collect();
    assert_eq!(ends.len(), 10);
}

/// Exhaustive on purpose: a new end has to be given a way to it above.
fn end_name(end: &End) -> &'static str {
    match end {
        End::Verdict => "verdict",
        End::NotRetried => "not retried",
        End::Schedule => "schedule",
        End::Attempts { .. } => "attempts",
        End::Calls { .. } => "calls",
        End::Cost { .. } => "cost",
        End::Age { .. } => "age",
        End::Delay { .. } => "delay",
        End::Deadline { .. } => "deadline",
        End::EndpointUnproven => "endpoint unproven",
    }
}

/// Its breaker is told so, whatever becomes of the message.
#[test]
fn a_failure_speaks_against_the_endpoint_for_it_or_not_at_all() {
    let policy = policy(
        r#"{ "retry": "1s x9", "rules":
             [{ "when": { "error": "DeskFull" }, "class": "TRANSIENT", "reason": "RATE_LIMITED", "fault": "not_asked" }] }"#,
    );
    let (proven, unproven) = (History::first(), History { endpoint_proven: false, ..History::first() });
    let full = Failure::from_message("nobody is free").with_type("shop::DeskFull");
    let cases = [
        (&proven, status(503), "delay", Some(Outcome::Failure)),
        (&proven, status(401), "park", Some(Outcome::Failure)),
        (&unproven, status(401), "return", Some(Outcome::Failure)),
        (&unproven, status(404), "return", Some(Outcome::Failure)),
        (&proven, status(404), "park", Some(Outcome::Ignored)),
        (&proven, status(422), "park", Some(Outcome::Ignored)),
        (&proven, full.clone(), "delay", None),
        (&unproven, full.clone(), "delay", None),
        (&History { attempts: 10, delayed: 9, ..History::first() }, full, "dead_letter", None),
    ];
    for (history, failure, action, shown) in cases {
        let decision = decide_on(&policy, history, &failure);
        assert_eq!((decision.action.name(), decision.shown), (action, shown), "{failure:?} {history:?}");
    }
}

#[test]
fn what_redrive_held_back_is_no_age() {
    let policy = policy(r#"{ "retry": "1m x9", "budgets": { "age": "1h" } }"#);
    let first_failure = Some(Timestamp::from_millis(NOW.as_millis() - 10 * 3_600_000));
    let held = History {
        attempts: 2,
        delayed: 1,
        first_failure,
        held: Duration::from_secs(10 * 3_600 - 60),
        ..History::first()
    };
    assert!(matches!(decide_on(&policy, &held, &status(503)).action, Action::Delay { .. }));
    let not_held = History { held: Duration::ZERO, ..held };
    assert_eq!(decide_on(&policy, &not_held, &status(503)).action, Action::DeadLetter);
}

#[test]
fn a_decision_as_json() {
    let decision = decide_on(
        &Policy::default(),
        &History::first(),
        &status(429).with_retry_after(Duration::from_secs(30)),
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(&decision).unwrap());
}

#[test]
fn a_handling_uses_its_layer_alone() {
    let policy = policy(
        r#"{ "local": "20ms x2", "retry": "10s x5",
             "rules": [ { "name": "deadlock", "when": { "sqlstate": "40P01" }, "class": "CONTENTION", "reason": "DEADLOCK", "handling": "in_place" },
                        { "name": "outage", "when": { "status": 503 }, "class": "TRANSIENT", "handling": "blocking" } ] }"#,
    );
    let deadlock = Failure::from_message("deadlock detected").with_sqlstate("40P01".parse().unwrap());
    let spent = History { attempts: 3, ..History::first() };
    assert!(matches!(decide_on(&policy, &History::first(), &deadlock).action, Action::RetryInPlace { .. }));
    assert_eq!(
        line(&decide_on(&policy, &spent, &deadlock)),
        "dead_letter CONTENTION DEADLOCK: rule `deadlock`; the schedule is at its end"
    );
    // No blocking schedule is written, so the default one holds; the steps of other layers do not bound it.
    let outage = decide_on(&policy, &History { attempts: 100, ..History::first() }, &status(503));
    assert_eq!(line(&outage), "block TRANSIENT TRANSIENT: rule `outage`; blocking retry 100 of 120");
}

#[test]
fn a_retry_after_leaves_the_hand_for_the_next_layer() {
    let wait = Duration::from_secs(600);
    let all = policy(r#"{ "local": "20ms x2", "blocking": "1s x2", "retry": "10s" }"#);
    let no_delay = policy(r#"{ "local": "20ms x2", "blocking": "1s x2" }"#);
    let no_block = policy(r#"{ "local": "20ms x2", "retry": "10s" }"#);
    let only_local = policy(r#"{ "local": "20ms x2" }"#);
    let actions = [all, no_delay, no_block, only_local].map(|policy| {
        decide_on(&policy, &History::first(), &status(503).with_retry_after(wait)).action.name()
    });
    assert_eq!(actions, ["block", "block", "delay", "retry_in_place"]);
}

#[test]
fn to_come_back_at_once_is_no_advice() {
    let policy = policy(r#"{ "retry": "10s", "retry_after": { "min": "0s" } }"#);
    let decision = decide_on(&policy, &History::first(), &status(503).with_retry_after(Duration::ZERO));
    assert_eq!(decision.action, Action::Delay { until: NOW + Duration::from_secs(10) });
}

#[test]
fn what_asks_for_too_much_does_not_come_back_all_at_once() {
    let policy = policy(r#"{ "retry": "10s jitter 10%" }"#);
    let failure = status(503).with_retry_after(Duration::from_secs(86_400));
    let due: BTreeSet<_> = (0..50)
        .filter_map(|seed| {
            let mut rng = SplitMix64::new(seed);
            let decided = decide(&policy, &Subject::default(), &History::first(), &failure, NOW, &mut rng);
            match decided.action {
                Action::Delay { until } => Some(until.since(NOW).as_secs()),
                _ => None,
            }
        })
        .collect();
    assert!(due.len() > 20, "{due:?}");
    assert!(due.iter().all(|seconds| (810..=900).contains(seconds)), "{due:?}");
}

#[test]
fn the_wait_of_another_layer_does_not_count_for_decorrelated_jitter() {
    let policy = policy(r#"{ "local": "100ms", "retry": "10s, 1m x3 jitter decorrelated" }"#);
    let history = History { attempts: 2, last_wait: Some(Duration::from_millis(100)), ..History::first() };
    let waits: BTreeSet<_> = (0..50)
        .filter_map(|seed| {
            let mut rng = SplitMix64::new(seed);
            let decided = decide(&policy, &Subject::default(), &history, &status(503), NOW, &mut rng);
            match decided.action {
                Action::Delay { until } => Some(until.since(NOW).as_millis()),
                _ => None,
            }
        })
        .collect();
    assert!(waits.len() > 20, "{waits:?}");
}

#[test]
fn an_error_that_is_its_own_source_is_read_once_around() {
    #[derive(Debug)]
    struct Circle;
    impl std::fmt::Display for Circle {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("round and round")
        }
    }
    impl std::error::Error for Circle {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&Circle)
        }
    }
    assert_eq!(Failure::from_error(Circle).chain().len(), redrive_core::MAX_CHAIN);
}

#[test]
fn handlings_have_their_short_names() {
    let short: Vec<Handling> =
        ["NRE", "SLE", "SBE", "SNBE"].iter().map(|name| name.parse().unwrap()).collect();
    assert_eq!(short, Handling::ALL);
    assert_eq!(Reason::new("HANDLER_VERDICT").unwrap(), Reason::HANDLER_VERDICT);
}
