//! Reading the headers of a message that anybody may have written.

use std::time::Duration;

use bytes::Bytes;

use super::number::{self, Read};
use super::spelling::{Alias, Form, MOST_ALIASES};
use super::trail::{
    MAX_ATTEMPT, MAX_ERROR_MESSAGE, MAX_ERROR_TYPE, MAX_ID, MAX_RESPONSE, MAX_SPAN, MAX_TOPIC, bounded_route,
};
use super::{Field, FieldSet, Origin, Replay, Spelling, Trail};
use crate::{Headers, Text, Timestamp};

/// What the headers of a message say, and what could not be taken as it stood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The content, every value within its bounds.
    pub trail: Trail,
    /// The value of `x-redrive-mac`, for [`Keyring::verify`](super::Keyring::verify).
    pub mac: Option<Bytes>,
    /// A delay that the `plain` spelling's `next-delay-ms` gave while no header gave a due time. It counts from
    /// the record's own timestamp, which only the broker knows.
    pub next_delay: Option<Duration>,
    /// Headers whose value was cut or held to its bound.
    pub clamped: FieldSet,
    /// Headers whose value was unreadable, or outside its bounds where the nearest value would name something
    /// else.
    pub ignored: FieldSet,
}

/// Reads Redrive's own headers and those of the spelling. Never fails.
///
/// The last header of a name counts. Redrive's own name comes first; the spelling's is asked when that one is
/// absent or unreadable. An attempt header that cannot be read at all still tells of an attempt: it reads as 1.
pub fn decode(headers: &Headers, spelling: Spelling) -> Decoded {
    let mut reader = Reader::new(spelling.aliases());
    for header in headers {
        reader.see(header.name.as_str(), header.value.as_ref());
    }
    reader.finish()
}

/// The last value of each name: absent, null, or bytes.
type Slot<'a> = Option<Option<&'a Bytes>>;

struct Reader<'a> {
    own: [Slot<'a>; Field::COUNT],
    other: [Slot<'a>; MOST_ALIASES],
    aliases: &'static [Alias],
    clamped: FieldSet,
    ignored: FieldSet,
}

impl<'a> Reader<'a> {
    fn new(aliases: &'static [Alias]) -> Self {
        Self {
            own: [None; Field::COUNT],
            other: [None; MOST_ALIASES],
            aliases,
            clamped: FieldSet::default(),
            ignored: FieldSet::default(),
        }
    }

    fn see(&mut self, name: &str, value: Option<&'a Bytes>) {
        if let Some(field) = Field::of(name) {
            self.own[field as usize] = Some(value);
        } else if let Some(place) = self.aliases.iter().position(|alias| alias.name == name)
            && let Some(slot) = self.other.get_mut(place)
        {
            *slot = Some(value);
        }
    }

    /// The first usable value of a field, asking Redrive's own name and then the spelling's, in order.
    fn read<T>(&mut self, field: Field, parse: impl Fn(&'a Bytes, Form) -> Read<T>) -> Option<T> {
        if let Some(value) = self.own[field as usize]
            && let Some(value) = self.take(field, value.map_or(Read::Bad, |bytes| parse(bytes, Form::Same)))
        {
            return Some(value);
        }
        for (place, alias) in self.aliases.iter().enumerate() {
            if alias.field == field
                && alias.form != Form::DelayMillis
                && let Some(value) = self.other.get(place).copied().flatten()
                && let Some(value) =
                    self.take(field, value.map_or(Read::Bad, |bytes| parse(bytes, alias.form)))
            {
                return Some(value);
            }
        }
        None
    }

    /// The value, if there is a usable one; what was wrong with it is noted.
    fn take<T>(&mut self, field: Field, read: Read<T>) -> Option<T> {
        match read {
            Read::Good(value) => Some(value),
            Read::Clamped(value) => {
                self.clamped.insert(field);
                Some(value)
            }
            Read::Bad => {
                self.ignored.insert(field);
                None
            }
        }
    }

    fn counter(&mut self, field: Field) -> Option<u32> {
        self.read(field, |bytes, _| number::decimal(bytes, u64::from(MAX_ATTEMPT)).map(|value| value as u32))
    }

    fn span(&mut self, field: Field) -> Duration {
        let max = MAX_SPAN.as_millis() as u64;
        self.read(field, |bytes, _| number::decimal(bytes, max).map(Duration::from_millis))
            .unwrap_or_default()
    }

    fn time(&mut self, field: Field) -> Option<Timestamp> {
        self.read(field, |bytes, form| match form {
            Form::Rfc3339 => rfc3339(bytes),
            _ => number::decimal(bytes, MAX_MILLIS).map(millis),
        })
    }

    /// Text for people: its readable beginning, cut.
    fn text(&mut self, field: Field, max: usize) -> Option<Text> {
        let text = self.read(field, |bytes, _| {
            let readable = Text::from_utf8_prefix(bytes.clone());
            let whole = readable.len() == bytes.len();
            if whole && !readable.is_longer_than(max) {
                Read::Good(readable)
            } else if readable.is_empty() {
                Read::Bad
            } else {
                Read::Clamped(readable.cut(max))
            }
        });
        text.filter(|text| !text.is_empty())
    }

    fn whole_text(&mut self, field: Field, check: impl Fn(Text) -> Option<Text>) -> Option<Text> {
        self.read(field, |bytes, _| {
            Text::from_utf8(bytes.clone()).and_then(&check).map_or(Read::Bad, Read::Good)
        })
    }

    fn id(&mut self, field: Field) -> Option<Text> {
        self.whole_text(field, |text| text.into_id(MAX_ID))
    }

    fn parsed<T: std::str::FromStr>(&mut self, field: Field) -> Option<T> {
        self.read(field, |bytes, _| {
            let text = std::str::from_utf8(bytes).ok();
            text.and_then(|text| text.parse().ok()).map_or(Read::Bad, Read::Good)
        })
    }

    fn attempt(&mut self) -> u32 {
        let attempt = self.counter(Field::RetryAttempt);
        if attempt.is_none() && self.ignored.contains(Field::RetryAttempt) {
            self.clamped.insert(Field::RetryAttempt);
            return 1;
        }
        attempt.unwrap_or(0)
    }

    fn origin(&mut self) -> Origin {
        Origin {
            topic: self.whole_text(Field::OriginalTopic, |text| text.into_id(MAX_TOPIC)),
            partition: self.read(Field::OriginalPartition, |bytes, _| {
                number::exact(bytes, 4, i32::MAX as u64).map(|value| (value as u32).cast_signed())
            }),
            offset: self.read(Field::OriginalOffset, |bytes, _| {
                number::exact(bytes, 8, i64::MAX as u64).map(u64::cast_signed)
            }),
            timestamp: self
                .read(Field::OriginalTimestamp, |bytes, _| number::exact(bytes, 8, MAX_MILLIS).map(millis)),
        }
    }

    fn replay(&mut self) -> Option<Replay> {
        let replayed = self.read(Field::Replayed, |bytes, _| match &bytes[..] {
            b"true" => Read::Good(true),
            b"false" => Read::Good(false),
            _ => Read::Bad,
        });
        (replayed == Some(true)).then(|| Replay {
            id: self.id(Field::ReplayId),
            by: self.text(Field::ReplayedBy, MAX_ERROR_TYPE),
            reason: self.text(Field::ReplayReason, MAX_ERROR_MESSAGE),
            death_count: self.counter(Field::OriginalDeathCount).unwrap_or(0),
        })
    }

    fn next_delay(&mut self) -> Option<Duration> {
        let place = self.aliases.iter().position(|alias| alias.form == Form::DelayMillis)?;
        let value = (*self.other.get(place)?)?;
        let max = MAX_SPAN.as_millis() as u64;
        let read = value.map_or(Read::Bad, |bytes| number::decimal(bytes, max));
        self.take(Field::ProcessAfter, read).map(Duration::from_millis)
    }

    fn finish(mut self) -> Decoded {
        let max = self.counter(Field::RetryMax).map(|max| {
            if max == 0 {
                self.clamped.insert(Field::RetryMax);
            }
            max.max(1)
        });
        let status = self.read(Field::ApiStatusCode, |bytes, _| match number::decimal(bytes, 999) {
            Read::Good(status) if status >= 100 => Read::Good(status as u16),
            _ => Read::Bad,
        });
        let process_after = self.time(Field::ProcessAfter);
        let next_delay = if process_after.is_none() { self.next_delay() } else { None };
        let trail = Trail {
            attempt: self.attempt(),
            max,
            process_after,
            origin: self.origin(),
            first_attempt_at: self.time(Field::FirstAttemptTimestamp),
            first_failure_at: self.time(Field::FirstFailureTimestamp),
            last_failure_at: self.time(Field::LastFailureTimestamp),
            error_type: self.text(Field::LastErrorType, MAX_ERROR_TYPE),
            error_message: self.text(Field::LastErrorMessage, MAX_ERROR_MESSAGE),
            class: self.parsed(Field::FailureClass),
            reason: self.parsed(Field::FailureReason),
            status,
            response: self.text(Field::ApiResponse, MAX_RESPONSE),
            delay_route: self.whole_text(Field::DelayRoute, bounded_route),
            delay_counter: self.counter(Field::DelayCounter).unwrap_or(0),
            delay_reason: self.text(Field::DelayReason, MAX_ERROR_MESSAGE),
            wait_id: self.id(Field::WaitId),
            entry_id: self.id(Field::EntryId),
            idempotency_key: self.id(Field::IdempotencyKey),
            calls_used: self.counter(Field::CallsUsed).unwrap_or(0),
            delay_total: self.span(Field::DelayTotal),
            held: self.span(Field::Held),
            handler_version: self.text(Field::HandlerVersion, MAX_ERROR_TYPE),
            correlation_id: self.id(Field::CorrelationId),
            causation_id: self.id(Field::CausationId),
            forward_to: self.whole_text(Field::ForwardTo, |text| text.into_id(MAX_TOPIC)),
            mac_failures: self.counter(Field::MacFailures).unwrap_or(0),
            replay: self.replay(),
        };
        // A null MAC is a malformed one, not a missing one: somebody wrote the header.
        let mac = self.own[Field::Mac as usize].map(|value| value.cloned().unwrap_or_default());
        Decoded { trail, mac, next_delay, clamped: self.clamped, ignored: self.ignored }
    }
}

const MAX_MILLIS: u64 = Timestamp::MAX.as_millis() as u64;

fn millis(since_1970: u64) -> Timestamp {
    Timestamp::from_millis(since_1970.cast_signed())
}

fn rfc3339(bytes: &[u8]) -> Read<Timestamp> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= 64);
    match text.and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(at) if at.as_millis() >= 0 => Read::Good(at),
        Some(_) => Read::Clamped(Timestamp::from_millis(0)),
        None => Read::Bad,
    }
}
