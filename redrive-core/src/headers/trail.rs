//! The typed content of Redrive's own headers.

use std::time::Duration;

use crate::{Class, Reason, Text, Timestamp};

/// The most attempts a header can tell: what a 32-bit signed integer holds, since other readers use one.
pub const MAX_ATTEMPT: u32 = i32::MAX as u32;
/// The longest error type, handler version or name of a person, in characters.
pub const MAX_ERROR_TYPE: usize = 256;
/// The longest error message and the longest free reason, in characters.
pub const MAX_ERROR_MESSAGE: usize = 512;
/// The longest excerpt of a handler's answer, in characters.
pub const MAX_RESPONSE: usize = 1_024;
/// The longest id, in characters.
pub const MAX_ID: usize = 300;
/// The longest name of a topic or a queue, in characters.
pub const MAX_TOPIC: usize = 255;
/// The longest delay route, in characters.
pub const MAX_ROUTE: usize = 4_096;
/// The most topics a delay route can name: eight hops, and room for a target and other writers.
pub const MAX_ROUTE_HOPS: usize = 16;
/// The longest time span a header can tell: a hundred years.
pub const MAX_SPAN: Duration = Duration::from_hours(24 * 36_525);

/// Where a message was first read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The topic or queue.
    pub topic: Option<Text>,
    /// The partition, on Kafka.
    pub partition: Option<i32>,
    /// The offset, on Kafka.
    pub offset: Option<i64>,
    /// When it was published, as its record says.
    pub timestamp: Option<Timestamp>,
}

/// What a replay added to a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// The replay job.
    pub id: Option<Text>,
    /// Who started it.
    pub by: Option<Text>,
    /// Why.
    pub reason: Option<Text>,
    /// How many attempts had failed before the replay.
    pub death_count: u32,
}

/// What a message carries from attempt to attempt: the content of all of Redrive's own headers.
///
/// Counters and spans that are zero, and options that are `None`, have no header. Times count from 1970 on and
/// spans are whole milliseconds, as they stand in the headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trail {
    /// Attempts already made, of all layers. Zero on a first delivery.
    pub attempt: u32,
    /// Attempts allowed.
    pub max: Option<u32>,
    /// When the message is due. It is what the header says, however far away: whoever waits for it bounds it by
    /// the policy's longest delay.
    pub process_after: Option<Timestamp>,
    /// Where the message was first read.
    pub origin: Origin,
    /// When the first attempt was made.
    pub first_attempt_at: Option<Timestamp>,
    /// When the first attempt failed.
    pub first_failure_at: Option<Timestamp>,
    /// When the last attempt failed.
    pub last_failure_at: Option<Timestamp>,
    /// The type of the last error.
    pub error_type: Option<Text>,
    /// The message of the last error, at most [`MAX_ERROR_MESSAGE`] characters.
    pub error_message: Option<Text>,
    /// The class of the last failure.
    pub class: Option<Class>,
    /// The reason of the last failure.
    pub reason: Option<Reason>,
    /// The HTTP status of the last answer.
    pub status: Option<u16>,
    /// An excerpt of the last answer, redacted before it is put here, at most [`MAX_RESPONSE`] characters.
    pub response: Option<Text>,
    /// The remaining topics of the way, separated by commas; see [`route`](Self::route).
    pub delay_route: Option<Text>,
    /// Delayed steps taken.
    pub delay_counter: u32,
    /// Why the message is delayed.
    pub delay_reason: Option<Text>,
    /// The id of this waiting copy, spent when it arrives.
    pub wait_id: Option<Text>,
    /// The id of the message's entry in the ledger.
    pub entry_id: Option<Text>,
    /// The idempotency key, the same across attempts.
    pub idempotency_key: Option<Text>,
    /// Downstream calls charged so far.
    pub calls_used: u32,
    /// The sum of all delays so far.
    pub delay_total: Duration,
    /// Time spent held by Redrive itself, which does not count as age.
    pub held: Duration,
    /// The version of the handler that failed last.
    pub handler_version: Option<Text>,
    /// The correlation id; written only when the message has none.
    pub correlation_id: Option<Text>,
    /// The causation id; written only when the message has none.
    pub causation_id: Option<Text>,
    /// Where the message asks to be sent on to, when its flow forwards.
    pub forward_to: Option<Text>,
    /// How many of the message's copies came with a MAC that did not hold; see
    /// [`after_bad_mac`](super::after_bad_mac).
    pub mac_failures: u32,
    /// What a replay added.
    pub replay: Option<Replay>,
}

impl Trail {
    /// The remaining topics of the way, in order.
    ///
    /// They are names that a header gave: follow one only when it is a topic of the flow's own.
    pub fn route(&self) -> impl Iterator<Item = &str> {
        let route = self.delay_route.as_deref().unwrap_or_default();
        route.split(',').map(str::trim).filter(|topic| !topic.is_empty())
    }

    /// The same trail with every value as a reader would get it back: texts cut, numbers held to their bounds,
    /// ids that are none removed.
    ///
    /// [`encode`](super::encode) and [`Keyring::sign`](super::Keyring::sign) do this by themselves.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.attempt = self.attempt.min(MAX_ATTEMPT);
        self.max = self.max.map(|max| max.clamp(1, MAX_ATTEMPT));
        self.delay_counter = self.delay_counter.min(MAX_ATTEMPT);
        self.calls_used = self.calls_used.min(MAX_ATTEMPT);
        self.mac_failures = self.mac_failures.min(MAX_ATTEMPT);
        self.delay_total = whole_millis(self.delay_total);
        self.held = whole_millis(self.held);
        for time in [
            &mut self.process_after,
            &mut self.first_attempt_at,
            &mut self.first_failure_at,
            &mut self.last_failure_at,
        ] {
            *time = time.map(|at| at.max(Timestamp::from_millis(0)));
        }
        self.origin.topic = self.origin.topic.and_then(|topic| topic.into_id(MAX_TOPIC));
        self.forward_to = self.forward_to.and_then(|target| target.into_id(MAX_TOPIC));
        self.origin.partition = self.origin.partition.filter(|partition| *partition >= 0);
        self.origin.offset = self.origin.offset.filter(|offset| *offset >= 0);
        self.origin.timestamp = self.origin.timestamp.filter(|at| at.as_millis() >= 0);
        self.status = self.status.filter(|status| (100..=999).contains(status));
        self.delay_route = self.delay_route.and_then(bounded_route);
        cut(&mut self.error_type, MAX_ERROR_TYPE);
        cut(&mut self.error_message, MAX_ERROR_MESSAGE);
        cut(&mut self.response, MAX_RESPONSE);
        cut(&mut self.delay_reason, MAX_ERROR_MESSAGE);
        cut(&mut self.handler_version, MAX_ERROR_TYPE);
        for id in [
            &mut self.wait_id,
            &mut self.entry_id,
            &mut self.idempotency_key,
            &mut self.correlation_id,
            &mut self.causation_id,
        ] {
            *id = id.take().and_then(|id| id.into_id(MAX_ID));
        }
        if let Some(replay) = &mut self.replay {
            replay.id = replay.id.take().and_then(|id| id.into_id(MAX_ID));
            cut(&mut replay.by, MAX_ERROR_TYPE);
            cut(&mut replay.reason, MAX_ERROR_MESSAGE);
            replay.death_count = replay.death_count.min(MAX_ATTEMPT);
        }
        self
    }
}

fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(span.min(MAX_SPAN).as_millis() as u64)
}

fn cut(text: &mut Option<Text>, max: usize) {
    *text = text.take().map(|text| text.cut(max)).filter(|text| !text.is_empty());
}

/// A route is whole or nothing: a cut one would end at another topic.
pub(super) fn bounded_route(route: Text) -> Option<Text> {
    let route = route.into_id(MAX_ROUTE)?;
    let fits = route.split(',').count() <= MAX_ROUTE_HOPS
        && route.split(',').all(|topic| !topic.trim().is_empty() && topic.chars().count() <= MAX_TOPIC);
    fits.then_some(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_reads_with_and_without_blanks() {
        let trail = Trail { delay_route: Some("delay_10, delay_5,delay_1".into()), ..Trail::default() };
        assert_eq!(trail.route().collect::<Vec<_>>(), ["delay_10", "delay_5", "delay_1"]);
        assert_eq!(Trail::default().route().count(), 0);
    }

    #[test]
    fn a_route_is_whole_or_nothing() {
        assert!(bounded_route(Text::from("a,b")).is_some());
        for route in ["", ",", "a,,b", "a\nb", &"a,".repeat(16), &"a".repeat(256)] {
            assert_eq!(bounded_route(Text::from(route)), None, "{route:?}");
        }
    }
}
