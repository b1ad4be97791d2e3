//! A policy told attempt by attempt, for people who want to see it before it runs.

use std::time::Duration;

use serde::Serialize;

use super::{End, History, exit_of, next_step, spent};
use crate::classify::Classification;
use crate::policy::Policy;
use crate::{Class, Handling, Reason, Timestamp};

/// How many attempts of an unlimited policy are told.
const UNLIMITED_ROWS: usize = 100;
/// How many attempts of any policy are told.
const MOST_ROWS: usize = 1_000;

/// A policy attempt by attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The attempts, in order; of a policy with very many, the first.
    pub rows: Vec<Row>,
    /// What comes after the last; nothing when it goes on beyond the rows told.
    pub ending: Option<Ending>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its number, from 1.
    pub attempt: u32,
    /// `first`, `in_place`, `blocking` or `delayed`.
    pub kind: &'static str,
    /// The shortest wait before it, in milliseconds.
    #[serde(rename = "min_ms", serialize_with = "super::as_millis")]
    pub min: Duration,
    /// The mean wait before it.
    #[serde(rename = "mean_ms", serialize_with = "super::as_millis")]
    pub mean: Duration,
    /// The longest wait before it.
    #[serde(rename = "max_ms", serialize_with = "super::as_millis")]
    pub max: Duration,
    /// The longest time since the first failure.
    #[serde(rename = "age_max_ms", serialize_with = "super::as_millis")]
    pub age_max: Duration,
    /// The budget that can end the retries before this attempt, when the waits turn out long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_end_by: Option<&'static str>,
}

/// What comes after the last attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// The exit.
    pub ends: &'static str,
    /// What ended the retries.
    pub because: String,
}

/// Tells what a policy does with a message that fails again and again with one class.
///
/// `now` is when the first attempt fails; only calendars look at it.
///
/// ```
/// use redrive_core::{Class, Policy, Timestamp, explain};
///
/// let told = explain(&Policy::default(), Class::Transient, Timestamp::default());
/// assert_eq!(told.rows.len(), 6);
/// assert_eq!(told.ending.map(|ending| ending.ends), Some("dead_letter"));
/// ```
pub fn explain(policy: &Policy, class: Class, now: Timestamp) -> Explained {
    let found = Classification::new(class, Reason::from_static(class.as_str()));
    let limit = if policy.attempts().is_some() { MOST_ROWS } else { UNLIMITED_ROWS };
    let mut history = History::first();
    let mut ages = Ages::default();
    let mut rows = vec![Row {
        attempt: 1,
        kind: "first",
        min: Duration::ZERO,
        mean: Duration::ZERO,
        max: Duration::ZERO,
        age_max: Duration::ZERO,
        may_end_by: None,
    }];
    let end = loop {
        if !policy.retries(&found) {
            break Some(End::NotRetried);
        }
        if let Some(end) = spent(policy, &found, &history) {
            break Some(end);
        }
        let Some(step) = next_step(policy, &found, &history, None) else { break Some(End::Schedule) };
        if rows.len() >= limit {
            // What has an end is told with it, even where not every row is.
            break policy.attempts().map(|allowed| End::Attempts { made: allowed, allowed });
        }
        let Some(wait) = step.schedule.range(step.index, policy.limits(), now + ages.mean) else {
            break Some(End::Schedule);
        };
        let next = Ages {
            min: ages.min.saturating_add(wait.min),
            mean: ages.mean.saturating_add(wait.mean),
            max: ages.max.saturating_add(wait.max),
        };
        if let Some(end) = next.surely_over(policy) {
            break Some(end);
        }
        ages = next;
        history.attempts = history.attempts.saturating_add(1);
        history.calls = history.calls.saturating_add(1);
        history.delayed += u32::from(step.layer == Handling::Delayed);
        rows.push(Row {
            attempt: history.attempts,
            kind: step.layer.as_str(),
            min: wait.min,
            mean: wait.mean,
            max: wait.max,
            age_max: ages.max,
            may_end_by: ages.perhaps_over(policy),
        });
    };
    let ending = end.map(|end| {
        let (action, _) = exit_of(policy, &found);
        Ending { ends: action.name(), because: end.to_string() }
    });
    Explained { rows, ending }
}

/// The time since the first failure: at least, on average and at most.
#[derive(Debug, Clone, Copy, Default)]
struct Ages {
    min: Duration,
    mean: Duration,
    max: Duration,
}

impl Ages {
    fn surely_over(self, policy: &Policy) -> Option<End> {
        let budgets = policy.budgets();
        let age = budgets.age.filter(|allowed| self.min > *allowed);
        let delay = budgets.delay.filter(|allowed| self.min > *allowed);
        age.map(|allowed| End::Age { would_be: self.min, allowed })
            .or(delay.map(|allowed| End::Delay { would_be: self.min, allowed }))
    }

    fn perhaps_over(self, policy: &Policy) -> Option<&'static str> {
        let budgets = policy.budgets();
        let over = |budget: Option<Duration>| budget.is_some_and(|allowed| self.max > allowed);
        if over(budgets.age) { Some("age") } else { over(budgets.delay).then_some("delay") }
    }
}
