//! Messages that cannot be handled as they are: they are parked without a call, and none is charged.

use std::time::Duration;

use redrive_core::classify::By;
use redrive_core::{Action, Because, Class, Decision, End, Failure, Reason};

use super::divert::Diversion;
use super::job::{Began, Job};
use super::log;
use super::shared::Shared;

impl Shared {
    /// Parks a message whose body is gone: without it the handler would take it for another.
    pub(crate) async fn park_bodiless(&self, job: Box<Job>) {
        let text = "the body is gone: its source keeps messages for less time than this one waited";
        let failure = Failure::from_message(text).with_reason(Reason::BODY_GONE);
        self.park_untried(job, &failure, By::Body, Class::PermanentTechnical, Reason::BODY_GONE).await;
    }

    /// Parks a message without having called anybody for it.
    pub(crate) async fn park_untried(
        &self,
        mut job: Box<Job>,
        failure: &Failure,
        by: By,
        class: Class,
        reason: Reason,
    ) {
        let (spec, now) = (&self.spec, self.clock.now());
        let message = &job.delivery.message;
        let facts = spec.facts.find(&message.headers, message.body.as_deref());
        let because =
            Because { by, step: None, wait_by: None, end: Some(End::NotRetried), no_reject_target: false };
        let decision = Decision { action: Action::Park, class, reason, because, shown: None };
        job.refused(now);
        log::diversion(spec, &job, &decision, now);
        self.metrics.diverted(&decision);
        let diversion = Diversion {
            spec,
            facts: &facts,
            failure,
            decision: &decision,
            attempts_allowed: spec.policy_for(facts.message_type.as_deref()).attempts(),
            began: Began { at: now, took: Duration::ZERO, calls: 0 },
            now,
            random: self.random(),
        };
        let settlement = diversion.settle(job);
        self.tell_before(&settlement).await;
        self.settle(settlement);
    }
}
