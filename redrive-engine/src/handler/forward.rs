//! Sending messages on when they are due: the scheduler as a service.
//!
//! Any service writes a message with `x-forward-to` and, when it is to go later, `x-process-after` into one shared queue
//! or topic. It is moved to its target then, with its own headers and without Redrive's. Until then it waits where the
//! flow's retries wait, and none of that is an attempt.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::headers::{Field, Trail};
use redrive_core::{Failure, Message, Reason, Timestamp, Verdict};

use super::{Attempted, Context, Handler, Instead};

/// The furthest a due time may lie away unless a flow says otherwise: seven days.
pub const LONGEST: Duration = Duration::from_hours(7 * 24);

/// Moves each message to the target that it names itself, when it is due.
///
/// ```
/// use redrive_core::headers::Trail;
/// use redrive_core::{Message, Timestamp};
/// use redrive_engine::handler::{Forward, Handler, Instead};
///
/// let forward = Forward::new(["orders.*", "mail"]);
/// let trail = Trail { forward_to: Some("orders.due".into()), ..Trail::default() };
/// let instead = forward.instead(&Message::default(), &trail, Timestamp::from_millis(0));
/// assert!(matches!(instead, Some(Instead::SendOn { target }) if target == "orders.due"));
/// ```
#[derive(Debug, Clone)]
pub struct Forward {
    allow: Vec<Allowed>,
    longest: Duration,
}

/// A target that messages may name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    Name(String),
    Prefix(String),
}

impl Allowed {
    fn of(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Name(text.to_owned()),
        }
    }

    fn allows(&self, target: &str) -> bool {
        match self {
            Self::Name(name) => name == target,
            Self::Prefix(prefix) => target.starts_with(prefix.as_str()),
        }
    }
}

impl Forward {
    /// Sends on to these targets and to no others: names of queues or topics at the flow's own broker, or the beginning
    /// of names with a `*` behind it.
    pub fn new<T: AsRef<str>>(allow: impl IntoIterator<Item = T>) -> Self {
        let allow = allow.into_iter().map(|target| Allowed::of(target.as_ref())).collect();
        Self { allow, longest: LONGEST }
    }

    /// How far away a due time may lie.
    #[must_use]
    pub const fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    fn plan(&self, message: &Message, trail: &Trail, now: Timestamp) -> Result<Instead, String> {
        let asked = trail.forward_to.as_deref();
        let asked = asked.ok_or("x-forward-to names no queue or topic that could be read and trusted")?;
        let target = asked.strip_prefix("queue:").unwrap_or(asked);
        if !self.allow.iter().any(|allowed| allowed.allows(target)) {
            return Err(format!("`{target}` is no target that this flow allows"));
        }
        let said = message.headers.contains(Field::ProcessAfter.name());
        match trail.process_after {
            // Never at once because of a time that nobody can read.
            None if said => {
                Err("x-process-after is no time in unix milliseconds that can be trusted".to_owned())
            }
            // A copy that has waited comes when it is due, or when a person sends it.
            Some(due) if due > now && trail.wait_id.is_none() => {
                if due.since(now) > self.longest {
                    let longest = redrive_core::duration::print(self.longest);
                    return Err(format!("it is due at {due}, and this flow waits for {longest} at most"));
                }
                Ok(Instead::Later { until: due, because: format!("it goes to {target} when it is due") })
            }
            _ => Ok(Instead::SendOn { target: target.to_owned() }),
        }
    }
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::from_message(why).with_reason(Reason::FORWARD_REFUSED).with_verdict(Verdict::Park)
}

#[async_trait]
impl Handler for Forward {
    async fn call(&self, _: &Message, _: Context) -> Attempted {
        Attempted::failure(refused("a message is sent on by its flow, and by nobody else"))
    }

    fn instead(&self, message: &Message, trail: &Trail, now: Timestamp) -> Option<Instead> {
        Some(self.plan(message, trail, now).unwrap_or_else(|why| Instead::Refuse(Box::new(refused(why)))))
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::Text;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

    fn trail(to: &str, due: Option<i64>) -> Trail {
        Trail {
            forward_to: (!to.is_empty()).then(|| Text::from(to)),
            process_after: due.map(|millis| Timestamp::from_millis(NOW.as_millis() + millis)),
            ..Trail::default()
        }
    }

    fn planned(trail: &Trail) -> Result<Instead, String> {
        let forward = Forward::new(["orders.*", "mail"]).longest(Duration::from_secs(60));
        forward.plan(&Message::default(), trail, NOW)
    }

    #[test]
    fn targets_are_allowed_by_name_or_by_the_beginning_of_one() {
        for target in ["mail", "orders.due", "orders.", "queue:mail"] {
            assert!(planned(&trail(target, None)).is_ok(), "{target}");
        }
        for target in ["", "mails", "mai", "orders", "Mail", "*", "orders*"] {
            assert!(planned(&trail(target, None)).is_err(), "{target}");
        }
        assert!(Forward::new([""; 0]).plan(&Message::default(), &trail("mail", None), NOW).is_err());
    }

    #[test]
    fn a_message_waits_until_it_is_due_and_not_for_longer_than_allowed() {
        assert!(matches!(planned(&trail("mail", Some(1))), Ok(Instead::Later { .. })));
        assert!(matches!(planned(&trail("mail", Some(60_000))), Ok(Instead::Later { .. })));
        assert!(planned(&trail("mail", Some(60_001))).is_err());
        for due in [0, -1, -1_000_000] {
            assert!(matches!(planned(&trail("mail", Some(due))), Ok(Instead::SendOn { .. })), "{due}");
        }
        // It has waited, and a person sends it before its time.
        let sent = Trail { wait_id: Some(Text::from("w")), ..trail("mail", Some(50_000)) };
        assert!(matches!(planned(&sent), Ok(Instead::SendOn { .. })));
    }

    #[test]
    fn a_time_that_cannot_be_read_is_never_at_once() {
        let mut message = Message::default();
        message.headers.push("x-process-after", "tomorrow");
        assert!(Forward::new(["mail"]).plan(&message, &trail("mail", None), NOW).is_err());
    }
}
