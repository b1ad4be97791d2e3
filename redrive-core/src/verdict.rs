//! What a handler says about a message in its own words.
//!
//! A handler knows more than its status code: it may know that a retry is pointless, or when one makes sense.
//! A verdict replaces the classification. It never lifts a budget.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::duration;

/// The longest verdict text that is read, in bytes. An id in `follow=` has to fit.
pub const MAX_VERDICT_LEN: usize = 512;

/// A handler's own decision, as in the response header `redrive-verdict`.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::Verdict;
///
/// assert_eq!("retry-after=30s".parse(), Ok(Verdict::RetryAfter(Duration::from_secs(30))));
/// assert!("maybe".parse::<Verdict>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The message is done, whatever the status says.
    Ack,
    /// Try again by the policy; counts as a transient failure.
    Retry,
    /// Try again after this long, within the policy's clamp.
    RetryAfter(Duration),
    /// A person is needed.
    Park,
    /// Give up.
    Dead,
    /// Drop it on purpose, with an audit record.
    Discard,
    /// Acknowledge it and publish a business rejection.
    Reject,
    /// Wait for the message with this id.
    Follow(Arc<str>),
}

/// A verdict that nobody defined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a verdict; expected ack, retry, retry-after=<duration>, park, dead, discard, reject or follow=<id>"
)]
pub struct VerdictError(String);

impl Verdict {
    /// The verdict's name without its argument.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Retry => "retry",
            Self::RetryAfter(_) => "retry-after",
            Self::Park => "park",
            Self::Dead => "dead",
            Self::Discard => "discard",
            Self::Reject => "reject",
            Self::Follow(_) => "follow",
        }
    }
}

impl FromStr for Verdict {
    type Err = VerdictError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || VerdictError(text.chars().take(64).collect());
        if text.len() > MAX_VERDICT_LEN {
            return Err(refuse());
        }
        let trimmed = text.trim();
        let (name, argument) = match trimmed.split_once('=') {
            Some((name, argument)) => (name.trim_end(), Some(argument.trim())),
            None => (trimmed, None),
        };
        match (name, argument) {
            ("ack", None) => Ok(Self::Ack),
            ("retry", None) => Ok(Self::Retry),
            ("park", None) => Ok(Self::Park),
            ("dead", None) => Ok(Self::Dead),
            ("discard", None) => Ok(Self::Discard),
            ("reject", None) => Ok(Self::Reject),
            ("retry-after", Some(wait)) => duration::parse(wait).map(Self::RetryAfter).map_err(|_| refuse()),
            ("follow", Some(id)) if !id.is_empty() => Ok(Self::Follow(id.into())),
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::RetryAfter(wait) => write!(f, "={}", duration::print(*wait)),
            Self::Follow(id) => write!(f, "={id}"),
            _ => Ok(()),
        }
    }
}
