//! A policy as a person writes it: every part may be left out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::{Finding, Severity};
use super::{ByClass, Exits, Policy, Preset};
use crate::FactSource;
use crate::classify::Rule;
use crate::duration::Period;
use crate::{Class, Exit, Floor, Handling, Limits, Reason, Schedule};

/// A policy, or a part of one, as it stands in a configuration file.
///
/// ```
/// use redrive_core::policy::PolicySpec;
///
/// let base: PolicySpec = serde_json::from_str(r#"{ "retry": "10s, 1m", "budgets": { "age": "24h" } }"#)?;
/// let flow: PolicySpec = serde_json::from_str(r#"{ "budgets": { "attempts": 12 } }"#)?;
/// let both = flow.over(base);
/// let budgets = both.budgets.unwrap_or_default();
/// assert_eq!((budgets.attempts, budgets.age.is_some()), (Some(12), true));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// A ready-made policy to start from: `ladder`, `time-based`, `http-client`, `spring`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Retries in place, the message still in hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<ByClass>,
    /// Retries that hold the lane, the partition or the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocking: Option<ByClass>,
    /// Retries later, others go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ByClass>,
    /// The shortest wait: a duration, or a share of the step. Default 10%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// The longest wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Period>,
    /// What one message may use up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgets: Option<BudgetSpec>,
    /// How far a handler's Retry-After is followed. Default 1s to 15m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfterSpec>,
    /// Rules that classify failures, before the default ones; the first match wins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Where messages go when nothing is left to try, by class or reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<Exits>,
    /// Reasons whose messages are parked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub park_on: Vec<Reason>,
}

/// The budgets as a person writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BudgetSpec {
    /// Calls of the handler, of any layer, the first included. Default: one more than all steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Calls before the message leaves its delivery, the first included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_attempts: Option<u32>,
    /// Delayed steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_attempts: Option<u32>,
    /// Time since the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<Period>,
    /// All waits added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
    /// Calls to downstream systems, of all layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// What one business entity may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostSpec>,
}

/// What the messages of one business entity may cost together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// Where the entity's name is found in a message.
    pub per: FactSource,
    /// How many failed attempts, and what handlers charge, within the window.
    pub calls: u32,
    /// The window.
    pub window: Period,
}

/// How far a handler's Retry-After is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryAfterSpec {
    /// At least so long. Default 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Period>,
    /// At most so long. Default 15m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Period>,
}

impl RetryAfterSpec {
    pub(super) fn range(&self) -> (Duration, Duration) {
        let min = self.min.map_or(Duration::from_secs(1), |period| period.0);
        let max = self.max.map_or(Duration::from_mins(15).max(min), |period| period.0);
        (min, max)
    }
}

impl PolicySpec {
    /// Lays this over `base`: what is given here wins, what is left out stays. Rules given here come first.
    ///
    /// Several layers are laid from the bottom up, `flow.over(named.over(global))`: a preset replaces the schedules
    /// and budgets of everything below it, and only then is it known what is below.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let (this, base) = (self.with_parking_as_exits(), base.with_parking_as_exits());
        this.laid_over(base)
    }

    fn laid_over(self, base: Self) -> Self {
        // A preset stands below everything that is written beside it.
        if let Some(preset) = self.preset {
            let beside = Self { preset: None, ..self };
            let below = Self { preset: None, ..base }.without_schedules();
            return beside.laid_over(preset.spec().laid_over(below));
        }
        Self {
            preset: base.preset,
            local: over(self.local, base.local, ByClass::over),
            blocking: over(self.blocking, base.blocking, ByClass::over),
            retry: over(self.retry, base.retry, ByClass::over),
            floor: self.floor.or(base.floor),
            cap: self.cap.or(base.cap),
            budgets: over(self.budgets, base.budgets, BudgetSpec::over),
            retry_after: over(self.retry_after, base.retry_after, |top, below| RetryAfterSpec {
                min: top.min.or(below.min),
                max: top.max.or(below.max),
            }),
            rules: [self.rules, base.rules].concat(),
            exits: over(self.exits, base.exits, Exits::over),
            park_on: Vec::new(),
        }
    }

    /// `park_on` says the same as exits do; where a layer says both of one reason, the exit counts.
    fn with_parking_as_exits(mut self) -> Self {
        for reason in std::mem::take(&mut self.park_on) {
            let exits = self.exits.get_or_insert_default();
            exits.reasons.entry(reason).or_insert(Exit::Park);
        }
        self
    }

    /// Checks the specification and builds the policy, or says all that is wrong with it.
    pub fn build(&self) -> Result<Policy, Vec<Finding>> {
        let (errors, warnings): (Vec<_>, Vec<_>) =
            self.check().into_iter().partition(|finding| finding.severity == Severity::Error);
        if errors.is_empty() { Ok(Policy::assemble(self, warnings.into())) } else { Err(errors) }
    }

    /// The specification with its preset laid under it, and the ladder where no schedule is named at all.
    pub(super) fn with_defaults(self) -> Self {
        let resolved = self.over(Self::default());
        if resolved.names_a_schedule() {
            return resolved;
        }
        resolved.over(Preset::Ladder.spec())
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { floor: self.floor.unwrap_or_default(), cap: self.cap.map(|period| period.0) }
    }

    fn names_a_schedule(&self) -> bool {
        [&self.local, &self.blocking, &self.retry]
            .into_iter()
            .flatten()
            .any(|layer| layer.iter().next().is_some())
    }

    /// A preset brings its own schedules and budgets; of what lies below it only the rest stays.
    fn without_schedules(self) -> Self {
        Self { local: None, blocking: None, retry: None, floor: None, cap: None, budgets: None, ..self }
    }
}

impl BudgetSpec {
    fn over(self, base: Self) -> Self {
        Self {
            attempts: self.attempts.or(base.attempts),
            local_attempts: self.local_attempts.or(base.local_attempts),
            broker_attempts: self.broker_attempts.or(base.broker_attempts),
            age: self.age.or(base.age),
            delay: self.delay.or(base.delay),
            calls: self.calls.or(base.calls),
            cost: self.cost.or(base.cost),
        }
    }
}

fn over<T>(top: Option<T>, base: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (top, base) {
        (Some(top), Some(base)) => Some(both(top, base)),
        (top, base) => top.or(base),
    }
}

/// The schedule of a layer for a class, as written or by default.
pub(super) fn layer_schedule(by_class: Option<&ByClass>, layer: Handling, class: Class) -> Option<&Schedule> {
    static UNKNOWN_LOCAL: std::sync::LazyLock<Option<Schedule>> =
        std::sync::LazyLock::new(|| "100ms x2".parse().ok());

    match by_class {
        Some(by_class) if by_class.get(class).is_some() => by_class.get(class),
        _ if layer == Handling::InPlace && class == Class::Unknown => UNKNOWN_LOCAL.as_ref(),
        _ => None,
    }
}

/// The general schedule of a layer, or what the layer does when only a rule asks for it.
pub(super) fn general_or(by_class: Option<&ByClass>, layer: Handling) -> Option<Schedule> {
    let written = by_class.and_then(|by_class| by_class.general.clone());
    written.or_else(|| {
        let text = match layer {
            Handling::Never | Handling::InPlace => "100ms x2",
            Handling::Blocking => "exponential(1s, factor 2, max 1m, times 120) jitter 10%",
            Handling::Delayed => "10s, 1m, 5m, 30m jitter 10%",
        };
        text.parse().ok()
    })
}

/// The attempts that the schedules given to a class allow, one more than its steps; nothing means without end.
///
/// What UNKNOWN does in place by default is not given by anyone and so adds nothing: it draws on the same budget.
pub(super) fn attempts_given(spec: &PolicySpec, class: Class) -> Option<u32> {
    let layers = [&spec.local, &spec.blocking, &spec.retry];
    layers
        .into_iter()
        .flatten()
        .filter_map(|layer| layer.get(class))
        .try_fold(1_u32, |sum, schedule| Some(sum.saturating_add(schedule.len()?)))
}

/// The attempts that the schedules given to the most patient class allow.
pub(super) fn most_attempts_given(spec: &PolicySpec) -> Option<u32> {
    Class::ALL.iter().try_fold(1, |most, class| Some(attempts_given(spec, *class)?.max(most)))
}
