//! What is wrong, or only questionable, in a policy before a single message has seen it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{ByClass, IN_PLACE_SLOT, PolicySpec, spec};
use crate::duration::print;
use crate::{Class, Floor, Handling, Schedule, Timestamp};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works, but perhaps not as meant.
    Warning,
    /// It cannot be used.
    Error,
}

/// One thing found in a policy, with its place and the way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where: the keys from the policy down, such as `budgets.age`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.help)
    }
}

impl Finding {
    fn error(path: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { severity: Severity::Error, path: path.into(), message: message.into(), help: help.into() }
    }

    fn warning(path: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, message, help) }
    }
}

impl PolicySpec {
    /// Everything wrong or questionable in this specification, errors first.
    pub fn check(&self) -> Vec<Finding> {
        let spec = self.clone().with_defaults();
        let mut found = Vec::new();
        check_counts(&spec, &mut found);
        check_limits(&spec, &mut found);
        check_endings(&spec, &mut found);
        check_time_budgets(&spec, &mut found);
        check_attempts(&spec, &mut found);
        check_in_place(&spec, &mut found);
        check_holidays(&spec, &mut found);
        check_rules(&spec, &mut found);
        found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        found
    }

    fn layers(&self) -> [(&'static str, Option<&ByClass>); 3] {
        [("local", self.local.as_ref()), ("blocking", self.blocking.as_ref()), ("retry", self.retry.as_ref())]
    }

    /// Every schedule that is written, with its path.
    fn schedules(&self) -> impl Iterator<Item = (String, &'static str, &Schedule)> {
        self.layers().into_iter().filter_map(|(layer, by_class)| Some((layer, by_class?))).flat_map(
            |(layer, by_class)| {
                by_class.iter().map(move |(key, schedule)| {
                    let whole = key == "default" && by_class.classes.is_empty();
                    (if whole { layer.to_owned() } else { format!("{layer}.{key}") }, layer, schedule)
                })
            },
        )
    }
}

fn check_counts(spec: &PolicySpec, found: &mut Vec<Finding>) {
    let Some(budgets) = &spec.budgets else { return };
    for (key, value) in [
        ("attempts", budgets.attempts),
        ("local_attempts", budgets.local_attempts),
        ("calls", budgets.calls),
        ("cost.calls", budgets.cost.as_ref().map(|cost| cost.calls)),
    ] {
        if value == Some(0) {
            found.push(Finding::error(
                format!("budgets.{key}"),
                "0 allows not even the first call",
                "the first call counts: 1 means no retry",
            ));
        }
    }
    if budgets.cost.as_ref().is_some_and(|cost| cost.window.0.is_zero()) {
        found.push(Finding::error(
            "budgets.cost.window",
            "a window of no time holds nothing",
            "give a window such as 24h",
        ));
    }
}

fn check_limits(spec: &PolicySpec, found: &mut Vec<Finding>) {
    let limits = spec.limits();
    if limits.cap.is_some_and(|cap| cap.is_zero()) {
        found.push(Finding::error(
            "cap",
            "a cap of zero makes every retry come at once",
            "give a longer one, or leave it out",
        ));
    }
    if let (Floor::Fixed(floor), Some(cap)) = (limits.floor, limits.cap)
        && cap < floor
    {
        found.push(Finding::warning(
            "cap",
            format!("the cap {} is under the floor {}, and wins", print(cap), print(floor)),
            "raise the cap or lower the floor",
        ));
    }
    if let Some(clamp) = &spec.retry_after {
        let (min, max) = clamp.range();
        if min > max {
            found.push(Finding::error(
                "retry_after",
                format!("min {} is over max {}", print(min), print(max)),
                "swap them, or leave one out",
            ));
        }
    }
}

/// Only a blocking schedule may go on for ever by itself.
fn check_endings(spec: &PolicySpec, found: &mut Vec<Finding>) {
    let budgets = spec.budgets.clone().unwrap_or_default();
    let counted = budgets.attempts.is_some();
    let ends = counted || budgets.age.is_some() || budgets.delay.is_some() || budgets.calls.is_some();
    let limits = spec.limits();
    for (path, layer, schedule) in spec.schedules().filter(|(_, _, schedule)| schedule.is_unlimited()) {
        // The last element is what goes on, and any step far out is of it.
        let at_once =
            schedule.range(u32::MAX, &limits, Timestamp::default()).is_some_and(|wait| wait.min.is_zero());
        match layer {
            "local" => found.push(Finding::error(
                path,
                "a retry in place cannot go on for ever: the message never leaves the process",
                "give it an end with `times N` or `xN`, or move it to `blocking`",
            )),
            "retry" if !ends => found.push(Finding::error(
                path,
                "nothing ends this schedule",
                "give budgets.attempts, budgets.age, budgets.delay or budgets.calls, or end it with `times N` or `xN`",
            )),
            "retry" if at_once && !counted && budgets.calls.is_none() => found.push(Finding::error(
                path,
                "its waits can be zero, and a time budget alone does not bound the attempts then",
                "give budgets.attempts, a longer wait, or a floor",
            )),
            "blocking" if at_once => found.push(Finding::warning(
                path,
                "its waits can be zero: while it blocks, the handler is called without a pause",
                "give a longer wait, or a floor",
            )),
            "blocking" if !ends && spec.retry.is_some() => found.push(Finding::warning(
                path,
                "it never ends, so the delayed retries are never reached for its classes",
                "end it with `times N` or `xN`, or take `retry` away",
            )),
            _ => {}
        }
    }
}

fn check_time_budgets(spec: &PolicySpec, found: &mut Vec<Finding>) {
    let Some(budgets) = &spec.budgets else { return };
    let limits = spec.limits();
    for (key, budget) in [("age", budgets.age), ("delay", budgets.delay)] {
        let Some(budget) = budget.map(|period| period.0) else { continue };
        let before = found.len();
        for (path, _, schedule) in spec.schedules() {
            let Some(total) = schedule.total() else { continue };
            if total > budget {
                let steps = match steps_within(schedule, budget) {
                    MANY_STEPS => String::new(),
                    steps => {
                        format!(": only {steps} of {} steps are reached", schedule.len().unwrap_or(u32::MAX))
                    }
                };
                found.push(Finding::warning(
                    path,
                    format!(
                        "its waits add up to {}, over budgets.{key} {}{steps}",
                        print(total),
                        print(budget)
                    ),
                    format!("shorten the schedule or raise budgets.{key}"),
                ));
            } else if let Some(most) = schedule.total_with(&limits).filter(|most| *most > budget) {
                found.push(Finding::warning(
                    path,
                    format!(
                        "with jitter its waits can add up to {}, over budgets.{key} {}",
                        print(most),
                        print(budget),
                    ),
                    format!("raise budgets.{key}, or accept that some messages end one step early"),
                ));
            }
        }
        if found.len() == before {
            check_layers_together(spec, key, budget, found);
        }
    }
}

/// Each layer may fit where all of them, one after the other, do not.
fn check_layers_together(spec: &PolicySpec, key: &str, budget: Duration, found: &mut Vec<Finding>) {
    let longest = Class::ALL.iter().filter_map(|class| {
        let mut layers = spec.layers().into_iter().filter_map(|(_, by_class)| by_class?.get(*class));
        let total =
            layers.try_fold(Duration::ZERO, |sum, schedule| Some(sum.saturating_add(schedule.total()?)));
        Some((total?, class))
    });
    if let Some((total, class)) = longest.max_by_key(|(total, _)| *total).filter(|(total, _)| *total > budget)
    {
        found.push(Finding::warning(
            format!("budgets.{key}"),
            format!("the waits of all layers add up to {} for {class}, over {}", print(total), print(budget)),
            format!("shorten the schedules or raise budgets.{key}"),
        ));
    }
}

/// More steps than this are not counted: a schedule may have billions.
const MANY_STEPS: usize = 10_000;

/// How many whole steps fit into the budget, at most [`MANY_STEPS`].
fn steps_within(schedule: &Schedule, budget: Duration) -> usize {
    let mut sum = Duration::ZERO;
    schedule
        .iter(Timestamp::default())
        .take(MANY_STEPS)
        .take_while(|wait| {
            sum = sum.saturating_add(*wait);
            sum <= budget
        })
        .count()
}

fn check_attempts(spec: &PolicySpec, found: &mut Vec<Finding>) {
    let Some(budgets) = &spec.budgets else { return };
    // UNKNOWN goes through more steps by design, within the same budget.
    let known = Class::ALL.iter().filter(|class| **class != Class::Unknown);
    let most_known = known.filter_map(|class| spec::attempts_given(spec, *class)).max();
    if let (Some(attempts), Some(given)) = (budgets.attempts, spec::most_attempts_given(spec)) {
        if attempts > given {
            found.push(Finding::warning(
                "budgets.attempts",
                format!("{attempts} attempts are never reached: the schedules end after {given}"),
                "lengthen the schedules, or leave attempts out",
            ));
        } else if let Some(given) = most_known.filter(|given| attempts < *given && attempts > 0) {
            found.push(Finding::warning(
                "budgets.attempts",
                format!("{attempts} attempts end the schedules early: they allow {given}"),
                "raise attempts, or leave it out",
            ));
        }
    }
    let delayed = Class::ALL.iter().filter_map(|class| spec.retry.as_ref()?.get(*class)?.len()).max();
    if let (Some(allowed), Some(steps)) = (budgets.broker_attempts, delayed)
        && allowed > steps
    {
        found.push(Finding::warning(
            "budgets.broker_attempts",
            format!("{allowed} delayed attempts are never reached: the schedule has {steps}"),
            "lengthen `retry`, or leave broker_attempts out",
        ));
    }
}

fn check_in_place(spec: &PolicySpec, found: &mut Vec<Finding>) {
    let limits = spec.limits();
    for (path, _, schedule) in spec.schedules().filter(|(_, layer, _)| *layer == "local") {
        let longest = schedule.longest_with(&limits);
        if longest > IN_PLACE_SLOT {
            found.push(Finding::warning(
                path,
                format!(
                    "a wait in place of up to {} is longer than a slot should be held ({})",
                    print(longest),
                    print(IN_PLACE_SLOT),
                ),
                "the slot is freed, but the message stays in hand; for longer waits use `blocking` or `retry`",
            ));
        }
    }
}

fn check_holidays(spec: &PolicySpec, found: &mut Vec<Finding>) {
    for (path, _, schedule) in spec.schedules() {
        for name in schedule.holidays_wanted() {
            found.push(Finding::error(
                path.clone(),
                format!("the holidays `{name}` are not defined"),
                "list their dates under `holidays:`, or write the dates into the schedule",
            ));
        }
    }
}

fn check_rules(spec: &PolicySpec, found: &mut Vec<Finding>) {
    for (i, rule) in spec.rules.iter().enumerate() {
        let Some(layer) = rule.handling.filter(|layer| *layer != Handling::Never) else { continue };
        let (key, by_class) = match layer {
            Handling::Never | Handling::InPlace => ("local", &spec.local),
            Handling::Blocking => ("blocking", &spec.blocking),
            Handling::Delayed => ("retry", &spec.retry),
        };
        if by_class
            .as_ref()
            .is_some_and(|by_class| by_class.get(rule.class).or(by_class.general.as_ref()).is_some())
        {
            continue;
        }
        if let Some(schedule) = spec::general_or(by_class.as_ref(), layer) {
            found.push(Finding::warning(
                format!("rules[{i}].handling"),
                format!("no `{key}` schedule is given for it, so it is `{schedule}`"),
                format!("write the schedule you want under `{key}`"),
            ));
        }
    }
    let Some(all) = spec.rules.iter().position(|rule| rule.when.is_empty()) else { return };
    if all + 1 < spec.rules.len() {
        found.push(Finding::warning(
            format!("rules[{all}]"),
            "it matches everything, so no rule after it is ever asked",
            "move it to the end",
        ));
    }
}
