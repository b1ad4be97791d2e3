//! An hour without the endpoint, in virtual time: a hundred thousand messages arrive meanwhile, none is given up, and
//! the endpoint never sees more calls than it stands.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::PolicySpec;
use redrive_core::guard::{BreakerConfig, BreakerState};
use redrive_engine::port::EntryState;
use testkit::outage::{Outage, Story};

/// What the ladder does, and a message may not be older than ten minutes: an hour of holding is no age.
fn outage() -> Outage {
    let text = r#"{ "preset": "ladder", "budgets": { "age": "10m" } }"#;
    let policy: PolicySpec = serde_json::from_str(text).expect("a policy");
    Outage { policy: Arc::new(policy.build().expect("it can be used")), ..Outage::default() }
}

#[test]
fn an_hour_without_the_endpoint_costs_nobody_anything() {
    let outage = outage();
    let story = outage.simulate();
    everything_is_delivered_once(&story, &outage);
    nothing_is_given_up(&story);
    the_limit_is_kept(&story, &outage);
    while_it_is_down_only_probes_call(&story, &outage);
    only_what_opened_the_breaker_is_charged(&story);
    it_recovers_at_the_limit(&story, &outage);
}

#[test]
fn the_order_of_a_thousand_keys_survives_it() {
    let outage = Outage { keys: 1_000, ..outage() };
    let story = outage.simulate();
    everything_is_delivered_once(&story, &outage);
    nothing_is_given_up(&story);
    the_limit_is_kept(&story, &outage);
    while_it_is_down_only_probes_call(&story, &outage);
    only_what_opened_the_breaker_is_charged(&story);
    let mut last = HashMap::new();
    for call in story.calls.iter().filter(|call| call.ok) {
        let before = last.insert(call.message % outage.keys, call.message);
        assert!(before < Some(call.message), "{} came after {before:?}", call.message);
    }
}

fn everything_is_delivered_once(story: &Story, outage: &Outage) {
    let mut times = vec![0_u8; outage.messages as usize];
    story.calls.iter().filter(|call| call.ok).for_each(|call| times[call.message as usize] += 1);
    let wrong: Vec<_> = times.iter().enumerate().filter(|(_, times)| **times != 1).take(10).collect();
    assert!(wrong.is_empty(), "messages and how often they were delivered: {wrong:?}");
}

fn nothing_is_given_up(story: &Story) {
    let left: Vec<_> =
        story.ledger.iter().filter(|(state, count)| *state != EntryState::Recovered && *count > 0).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(story.problems.is_empty(), "{:?}", story.problems);
}

/// A bucket that loses a second's worth in a second never runs over, so no stretch of time has seen more calls than the
/// limit and one second's worth of it at once.
fn the_limit_is_kept(story: &Story, outage: &Outage) {
    let limit = f64::from(outage.limit);
    let (mut level, mut last) = (0.0_f64, Duration::ZERO);
    for call in &story.calls {
        level = (level - limit * call.at.saturating_sub(last).as_secs_f64()).max(0.0) + 1.0;
        last = call.at;
        assert!(level <= limit + 1e-6, "{level} in the bucket at {:?}", call.at);
    }
}

/// Three probes in ten seconds, and nothing else, from the moment the breaker is open.
fn while_it_is_down_only_probes_call(story: &Story, outage: &Outage) {
    let breaker = BreakerConfig::default();
    let opened = story.seconds.iter().position(|second| second.breaker == Some(BreakerState::Open));
    let opened = opened.expect("the breaker opens") as u64;
    assert!((outage.down.start..outage.down.start + 2).contains(&opened), "it opened at {opened} s");
    let down = Duration::from_secs(opened + 1)..Duration::from_secs(outage.down.end);
    let probes: Vec<Duration> =
        story.calls.iter().map(|call| call.at).filter(|at| down.contains(at)).collect();
    let most = breaker.half_open_probes as usize;
    assert!(probes.len() > 300, "somebody looks whether it is back: {} calls", probes.len());
    for (nth, at) in probes.iter().enumerate().skip(most) {
        let since = at.saturating_sub(probes[nth - most]);
        assert!(since >= breaker.open, "{} calls within {since:?} at {at:?}", most + 1);
    }
}

/// Attempts were charged for what opened the breaker and for what was under way then, and for nothing after.
fn only_what_opened_the_breaker_is_charged(story: &Story) {
    let charged: u32 = story.calls.iter().filter(|call| call.ok).map(|call| call.attempt - 1).sum();
    let at_once = story.calls.iter().filter(|call| !call.ok).map(|call| call.at_once).max().unwrap_or(0);
    let most = BreakerConfig::default().consecutive + at_once;
    assert!((1..=most).contains(&charged), "{charged} attempts charged, not 1 to {most}");
}

/// Once the endpoint is back, the backlog leaves as fast as it may: all but the wait for the next probe is at the limit.
fn it_recovers_at_the_limit(story: &Story, outage: &Outage) {
    let (took, at_limit) = story.recovery(outage);
    assert!(took <= at_limit.mul_f64(1.01) + BreakerConfig::default().open, "{took:?}, not {at_limit:?}");
}
