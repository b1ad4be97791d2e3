//! Why a decision was made, for an operator to read and a program to match on.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::classify::By;
use crate::duration::print;
use crate::{Handling, Timestamp};

/// The reasons of a decision: who classified the failure, which step comes, or what ended the retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Because {
    /// Who said what class it is.
    pub by: By,
    /// The step that comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepTaken>,
    /// What made the wait as long as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_by: Option<WaitBy>,
    /// What ended the retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// It should have been rejected, but rejections have nowhere to go, so it is parked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_reject_target: bool,
}

/// A step of a layer's schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StepTaken {
    /// The layer.
    pub layer: Handling,
    /// The step's number, from 1.
    pub number: u32,
    /// How many steps the layer has; nothing means without end.
    pub of: Option<u32>,
}

/// What made a wait as long as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WaitBy {
    /// The schedule.
    Schedule,
    /// The handler asked for it.
    RetryAfter {
        /// What it asked for.
        #[serde(rename = "asked_ms", serialize_with = "super::as_millis")]
        asked: Duration,
        /// What the policy made of it.
        #[serde(rename = "clamped_ms", serialize_with = "super::as_millis")]
        clamped: Duration,
    },
}

/// What ended the retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum End {
    /// The handler said so.
    Verdict,
    /// Failures of this kind are not retried.
    NotRetried,
    /// The schedule has no further step.
    Schedule,
    /// The attempts are spent.
    Attempts {
        /// Attempts made.
        made: u32,
        /// Attempts allowed.
        allowed: u32,
    },
    /// The calls to downstream systems are spent.
    Calls {
        /// Calls made.
        made: u32,
        /// Calls allowed.
        allowed: u32,
    },
    /// The business entity has cost enough.
    Cost {
        /// What it has cost.
        used: u32,
        /// What it may cost.
        allowed: u32,
    },
    /// The next attempt would come too long after the first failure.
    Age {
        /// The age that it would have.
        #[serde(rename = "would_be_ms", serialize_with = "super::as_millis")]
        would_be: Duration,
        /// The age allowed.
        #[serde(rename = "allowed_ms", serialize_with = "super::as_millis")]
        allowed: Duration,
    },
    /// The waits would add up to too much.
    Delay {
        /// What they would add up to.
        #[serde(rename = "would_be_ms", serialize_with = "super::as_millis")]
        would_be: Duration,
        /// What they may add up to.
        #[serde(rename = "allowed_ms", serialize_with = "super::as_millis")]
        allowed: Duration,
    },
    /// The next attempt would come after the message's own deadline.
    Deadline {
        /// The deadline.
        deadline: Timestamp,
    },
    /// The endpoint has not succeeded lately, so the message is not charged for its fault.
    EndpointUnproven,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.by)?;
        if let Some(step) = &self.step {
            write!(f, "; {step}")?;
        }
        if let Some(WaitBy::RetryAfter { asked, clamped }) = &self.wait_by {
            write!(f, "; the handler asked for {}", print(*asked))?;
            if asked != clamped {
                write!(f, ", held to {}", print(*clamped))?;
            }
        }
        if let Some(end) = &self.end {
            write!(f, "; {end}")?;
        }
        if self.no_reject_target {
            f.write_str("; rejections have nowhere to go, so it is parked")?;
        }
        Ok(())
    }
}

impl fmt::Display for StepTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = match self.layer {
            Handling::Never | Handling::InPlace => "retry in place",
            Handling::Blocking => "blocking retry",
            Handling::Delayed => "delayed retry",
        };
        match self.of {
            Some(of) => write!(f, "{layer} {} of {of}", self.number),
            None => write!(f, "{layer} {}, without end", self.number),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict => f.write_str("the handler decides"),
            Self::NotRetried => f.write_str("not retried"),
            Self::Schedule => f.write_str("the schedule is at its end"),
            Self::Attempts { made, allowed } => write!(f, "attempts spent: {made} of {allowed}"),
            Self::Calls { made, allowed } => write!(f, "calls spent: {made} of {allowed}"),
            Self::Cost { used, allowed } => write!(f, "cost of its entity spent: {used} of {allowed}"),
            Self::Age { would_be, allowed } => {
                write!(
                    f,
                    "too old: the next attempt would come at an age of {}, allowed {}",
                    print(*would_be),
                    print(*allowed)
                )
            }
            Self::Delay { would_be, allowed } => {
                write!(
                    f,
                    "waits spent: with the next they would be {}, allowed {}",
                    print(*would_be),
                    print(*allowed)
                )
            }
            Self::Deadline { deadline } => write!(f, "the next attempt would miss the deadline {deadline}"),
            Self::EndpointUnproven => {
                f.write_str("no call has succeeded lately, so the endpoint is at fault")
            }
        }
    }
}
