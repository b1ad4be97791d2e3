//! A policy: how often, how long and until when a failure is retried, and what comes after.
//!
//! People write a [`PolicySpec`], in pieces: a global default, named policies, what a flow changes, what a message
//! type changes. The pieces are laid over each other with [`PolicySpec::over`] in that order, the later over the
//! earlier, and built into a [`Policy`], which is checked, complete and quick to ask.

mod by_class;
mod check;
mod exits;
mod preset;
mod spec;

use std::sync::Arc;
use std::time::Duration;

pub use by_class::ByClass;
pub use check::{Finding, Severity};
pub use exits::Exits;
pub use preset::Preset;
pub use spec::{BudgetSpec, CostSpec, PolicySpec, RetryAfterSpec};

use crate::classify::{Classifier, Resolver};
use crate::{Class, Exit, Handling, Limits, Reason, Schedule};

/// An in-place wait longer than this frees its slot; the message stays in hand.
pub const IN_PLACE_SLOT: Duration = Duration::from_millis(250);

/// A complete, checked policy.
///
/// ```
/// use redrive_core::policy::{Policy, PolicySpec};
///
/// let policy = Policy::default();
/// assert_eq!(policy.attempts(), Some(6));
///
/// let spec: PolicySpec = serde_json::from_str(r#"{ "retry": "1s, 10s, 1m x3 jitter 10%" }"#)?;
/// let policy = spec.build().map_err(|findings| findings[0].to_string())?;
/// assert_eq!(policy.attempts(), Some(6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) local: [Option<Schedule>; CLASSES],
    pub(crate) blocking: [Option<Schedule>; CLASSES],
    pub(crate) delayed: [Option<Schedule>; CLASSES],
    pub(crate) forced: Forced,
    pub(crate) limits: Limits,
    pub(crate) attempts: Option<u32>,
    pub(crate) budgets: Budgets,
    pub(crate) retry_after: (Duration, Duration),
    pub(crate) classifier: Classifier,
    pub(crate) exits: Exits,
    pub(crate) rejects: bool,
    pub(crate) warnings: Arc<[Finding]>,
}

pub(crate) const CLASSES: usize = Class::ALL.len();

/// What a layer uses when a rule or a wrapper asks for it and the policy has no schedule there for the class.
#[derive(Debug, Clone)]
pub(crate) struct Forced {
    pub(crate) local: Option<Schedule>,
    pub(crate) blocking: Option<Schedule>,
    pub(crate) delayed: Option<Schedule>,
}

/// The limits of what one message may use up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budgets {
    /// Calls of the handler, of any layer, as written; nothing leaves the end to the schedules.
    pub attempts: Option<u32>,
    /// Calls without leaving the delivery, the first included.
    pub local_attempts: Option<u32>,
    /// Delayed steps.
    pub broker_attempts: Option<u32>,
    /// Time since the first failure.
    pub age: Option<Duration>,
    /// All waits added up.
    pub delay: Option<Duration>,
    /// Calls to downstream systems, of all layers.
    pub calls: Option<u32>,
    /// What one business entity may cost within a window.
    pub cost: Option<CostSpec>,
}

impl Default for Policy {
    /// The `ladder`: in place after 100 ms, then 10 s, 1 m, 5 m, 30 m ± 10 %, six attempts.
    fn default() -> Self {
        Self::assemble(&Preset::Ladder.spec(), Arc::new([]))
    }
}

impl Policy {
    /// The attempts allowed in all, as written or as the schedules add up; nothing means without end.
    pub fn attempts(&self) -> Option<u32> {
        self.attempts
    }

    /// The budgets.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// The schedule of a layer for a class.
    pub fn schedule(&self, layer: Handling, class: Class) -> Option<&Schedule> {
        let layer = match layer {
            Handling::Never => return None,
            Handling::InPlace => &self.local,
            Handling::Blocking => &self.blocking,
            Handling::Delayed => &self.delayed,
        };
        layer[class as usize].as_ref()
    }

    /// The floor and the cap of every wait that comes from a schedule. What a handler asks for has its own clamp.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The shortest and the longest wait that a handler may ask for.
    pub fn retry_after(&self) -> (Duration, Duration) {
        self.retry_after
    }

    /// The classifier, with the policy's rules before the default ones.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// The exits.
    pub fn exits(&self) -> &Exits {
        &self.exits
    }

    /// What was found questionable when the policy was built.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// The longest that a message can wait in one delayed step; what topology has to provide for.
    pub fn longest_delay(&self) -> Duration {
        let steps = self.delayed.iter().flatten().map(|schedule| schedule.longest_with(&self.limits));
        steps.chain([self.retry_after.1]).max().unwrap_or_default()
    }

    /// Adds code that classifies, asked before the rules.
    #[must_use]
    pub fn with_resolvers(mut self, resolvers: Vec<Arc<dyn Resolver>>) -> Self {
        let rules = self.classifier.rules().cloned().collect();
        self.classifier = Classifier::without_defaults(resolvers, rules);
        self
    }

    /// Says that rejection events have somewhere to go. Without it, what should be rejected is parked.
    #[must_use]
    pub fn with_reject_target(mut self) -> Self {
        self.rejects = true;
        self
    }

    /// The exit for a failure of this class and reason when nothing is left to try.
    pub fn exit(&self, class: Class, reason: &Reason) -> Exit {
        self.exits.of(class, reason)
    }

    /// Puts a specification together that has been checked; what it leaves out takes its default.
    fn assemble(spec: &PolicySpec, warnings: Arc<[Finding]>) -> Self {
        let spec = spec.clone().with_defaults();
        let layer = |by_class: &Option<ByClass>, layer| {
            std::array::from_fn(|i| spec::layer_schedule(by_class.as_ref(), layer, Class::ALL[i]).cloned())
        };
        let budget = spec.budgets.clone().unwrap_or_default();
        let clamp = spec.retry_after.clone().unwrap_or_default();
        Self {
            forced: Forced {
                local: spec::general_or(spec.local.as_ref(), Handling::InPlace),
                blocking: spec::general_or(spec.blocking.as_ref(), Handling::Blocking),
                delayed: spec::general_or(spec.retry.as_ref(), Handling::Delayed),
            },
            local: layer(&spec.local, Handling::InPlace),
            blocking: layer(&spec.blocking, Handling::Blocking),
            delayed: layer(&spec.retry, Handling::Delayed),
            limits: spec.limits(),
            attempts: budget.attempts.or_else(|| spec::most_attempts_given(&spec)),
            budgets: Budgets {
                attempts: budget.attempts,
                local_attempts: budget.local_attempts,
                broker_attempts: budget.broker_attempts,
                age: budget.age.map(|period| period.0),
                delay: budget.delay.map(|period| period.0),
                calls: budget.calls,
                cost: budget.cost,
            },
            retry_after: clamp.range(),
            classifier: Classifier::new(Vec::new(), spec.rules.clone()),
            exits: spec.exits.clone().unwrap_or_default(),
            rejects: false,
            warnings,
        }
    }
}
