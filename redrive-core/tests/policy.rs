//! Policies as people write them: layering, findings, presets.

use redrive_core::policy::{Preset, Severity};
use redrive_core::{Class, Exit, Handling, PolicySpec, Reason};

fn spec(json: &str) -> PolicySpec {
    serde_json::from_str(json).unwrap()
}

fn found(json: &str) -> String {
    let findings = spec(json).check();
    let lines: Vec<_> = findings
        .iter()
        .map(|finding| {
            format!("{} {finding}", if finding.severity == Severity::Error { "error" } else { "warning" })
        })
        .collect();
    lines.join("\n")
}

#[test]
fn findings_name_the_place_and_the_way_out() {
    let policies = [
        r#"{ "retry": "10s", "floor": "1m", "cap": "5s" }"#,
        r#"{ "retry": "10s, 1m, 5m, 30m x4", "budgets": { "age": "1h" } }"#,
        r#"{ "retry": "30m x2 jitter 10%", "budgets": { "age": "1h" } }"#,
        r#"{ "retry": "1h x2", "budgets": { "delay": "90m" } }"#,
        r#"{ "local": "1s x2" }"#,
        r#"{ "local": "100ms forever" }"#,
        r#"{ "retry": "1m forever" }"#,
        r#"{ "retry": "1m forever jitter full", "floor": "0s", "budgets": { "age": "1d" } }"#,
        r#"{ "blocking": "1m forever", "retry": "1h" }"#,
        r#"{ "retry": "1s x2", "budgets": { "attempts": 12 } }"#,
        r#"{ "retry": "1s x9", "budgets": { "attempts": 3 } }"#,
        r#"{ "retry": "1s x2", "budgets": { "attempts": 0, "local_attempts": 0, "calls": 0, "broker_attempts": 5 } }"#,
        r#"{ "retry": "1s", "budgets": { "cost": { "per": "json:/id", "calls": 0, "window": "0s" } } }"#,
        r#"{ "retry_after": { "min": "1h", "max": "1m" } }"#,
        r#"{ "retry": "calendar(mon-fri 09:00-17:00 Europe/Berlin, holidays BERLIN)" }"#,
        r#"{ "retry": "0s forever", "budgets": { "age": "24h" } }"#,
        r#"{ "blocking": "0s forever" }"#,
        r#"{ "retry": "1s", "cap": "0s" }"#,
        r#"{ "blocking": "1h x20", "retry": "2h x10", "budgets": { "age": "24h" } }"#,
        r#"{ "retry": "1ms x4000000000", "budgets": { "age": "24h" } }"#,
        r#"{ "retry": "1s", "rules": [ { "when": {}, "class": "UNKNOWN" }, { "when": { "status": 500 }, "class": "TRANSIENT", "handling": "blocking" } ] }"#,
    ];
    let said: Vec<_> = policies.iter().map(|json| format!("{json}\n{}\n", found(json))).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn the_presets_have_no_findings_but_the_clients_long_wait() {
    for preset in Preset::ALL {
        let findings = preset.spec().check();
        let expected = usize::from(*preset == Preset::HttpClient);
        assert_eq!(findings.len(), expected, "{preset}: {findings:?}");
    }
}

#[test]
fn later_layers_win_and_the_rest_stays() {
    let global = spec(
        r#"{ "retry": "10s, 1m", "budgets": { "attempts": 3, "age": "24h" }, "exits": { "POISON": "dead_letter" },
                           "rules": [ { "name": "global", "when": { "status": 500 }, "class": "UNKNOWN" } ] }"#,
    );
    let named = spec(r#"{ "retry": { "CONTENTION": "1s x5" }, "budgets": { "attempts": 6 } }"#);
    let flow = spec(
        r#"{ "rules": [ { "name": "flow", "when": { "status": 500 }, "class": "TRANSIENT" } ], "park_on": ["STALE"] }"#,
    );
    let kind = spec(r#"{ "retry": "5s" }"#);

    let three = flow.clone().over(named.clone()).over(global.clone()).build().unwrap();
    assert_eq!(three.attempts(), Some(6));
    assert_eq!(three.schedule(Handling::Delayed, Class::Contention).unwrap().to_string(), "1s x5");
    assert_eq!(three.schedule(Handling::Delayed, Class::Transient).unwrap().to_string(), "10s, 1m");
    assert_eq!(three.schedule(Handling::Delayed, Class::Poison), None);
    assert_eq!(three.exit(Class::Poison, &Reason::HANDLER_CRASHED), Exit::DeadLetter);
    assert_eq!(three.exit(Class::Transient, &Reason::new("STALE").unwrap()), Exit::Park);
    let names: Vec<_> =
        three.classifier().rules().take(2).map(|rule| rule.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["flow", "global"]);

    // A single schedule replaces the whole layer.
    let four = kind.over(flow).over(named).over(global).build().unwrap();
    assert_eq!(four.schedule(Handling::Delayed, Class::Contention).unwrap().to_string(), "5s");
}

#[test]
fn a_preset_stands_below_what_is_written_beside_it() {
    let base = spec(r#"{ "retry": "1h x9", "exits": { "default": "park" } }"#);
    let policy =
        spec(r#"{ "preset": "time-based", "budgets": { "age": "1h" } }"#).over(base).build().unwrap();
    assert_eq!(policy.attempts(), Some(4));
    assert_eq!(policy.exits().default, Some(Exit::Park));
    assert!(policy.budgets().age.is_some());
}

#[test]
fn the_higher_layer_decides_about_a_reason() {
    let reason = Reason::new("STALE").unwrap();
    let exit = |spec: PolicySpec| spec.build().unwrap().exit(Class::Transient, &reason);
    let discards = || spec(r#"{ "exits": { "STALE": "discard" } }"#);
    let parks = || spec(r#"{ "park_on": ["STALE"] }"#);
    assert_eq!(exit(parks().over(discards())), Exit::Park);
    assert_eq!(exit(discards().over(parks())), Exit::Discard);
    assert_eq!(exit(parks()), Exit::Park);
}

#[test]
fn a_map_replaces_what_it_names_and_a_text_replaces_all() {
    let base = || spec(r#"{ "retry": { "default": "1s", "CONTENTION": "2s" } }"#);
    let text = |spec: PolicySpec, class| {
        let policy = spec.build().unwrap();
        policy.schedule(Handling::Delayed, class).unwrap().to_string()
    };
    let map = || spec(r#"{ "retry": { "default": "9s" } }"#).over(base());
    assert_eq!((text(map(), Class::Transient), text(map(), Class::Contention)), ("9s".into(), "2s".into()));
    let whole = || spec(r#"{ "retry": "9s" }"#).over(base());
    assert_eq!(text(whole(), Class::Contention), "9s");
}

#[test]
fn layers_with_a_preset_are_laid_from_the_bottom_up() {
    let global = spec(r#"{ "retry": "1h x9", "budgets": { "attempts": 10 } }"#);
    let named = spec(r#"{ "preset": "spring" }"#);
    let flow = spec(r#"{ "exits": { "default": "park" } }"#);
    let policy = flow.over(named.over(global)).build().unwrap();
    assert_eq!(policy.attempts(), Some(4));
    assert_eq!(policy.schedule(Handling::Delayed, Class::Transient), None);
}

#[test]
fn what_is_told_ends_as_it_will() {
    let now = redrive_core::Timestamp::default();
    let ends =
        |policy| redrive_core::explain(&policy, Class::Transient, now).ending.map(|ending| ending.ends);
    let rejecting = || spec(r#"{ "retry": "1s", "exits": { "default": "reject" } }"#).build().unwrap();
    assert_eq!(ends(rejecting()), Some("park"));
    assert_eq!(ends(rejecting().with_reject_target()), Some("reject"));
    let long =
        redrive_core::explain(&spec(r#"{ "retry": "1s x5000" }"#).build().unwrap(), Class::Transient, now);
    assert_eq!(
        (long.rows.len(), long.ending.map(|ending| ending.because)),
        (1_000, Some("attempts spent: 5001 of 5001".into()))
    );
}

#[test]
fn without_a_schedule_it_is_the_ladder() {
    let policy = spec(r#"{ "budgets": { "age": "2h" } }"#).build().unwrap();
    assert_eq!(policy.attempts(), Some(6));
    assert_eq!(policy.longest_delay(), std::time::Duration::from_secs(33 * 60));
}

#[test]
fn unknown_keys_and_bad_values_are_refused() {
    for json in [
        r#"{ "retries": "1s" }"#,
        r#"{ "retry": { "TRANSIENTS": "1s" } }"#,
        r#"{ "retry": 5 }"#,
        r#"{ "retry": {} }"#,
        r#"{ "retry": "1 s x" }"#,
        r#"{ "budgets": { "atempts": 1 } }"#,
        r#"{ "exits": { "default": "nowhere" } }"#,
        r#"{ "exits": { "lower": "park" } }"#,
        r#"{ "rules": [ { "when": { "statuses": 1 }, "class": "UNKNOWN" } ] }"#,
        r#"{ "rules": [ { "when": { "status": [] }, "class": "UNKNOWN" } ] }"#,
        r#"{ "rules": [ { "when": { "message": "(" }, "class": "UNKNOWN" } ] }"#,
    ] {
        assert!(serde_json::from_str::<PolicySpec>(json).is_err(), "{json}");
    }
}

#[test]
fn a_policy_survives_json() {
    for preset in Preset::ALL {
        let written = preset.spec();
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<PolicySpec>(&text).unwrap(), written, "{text}");
    }
}
