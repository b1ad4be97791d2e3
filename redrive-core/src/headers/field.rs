//! The names of Redrive's own headers, and how one is recognised quickly.

use crate::message::HeaderName;

macro_rules! fields {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )+) => {
        /// A header of Redrive's own, in the order they are written.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Field {
            $( $(#[$meta])* #[doc = concat!("`", $name, "`")] $variant ),+
        }

        impl Field {
            /// Every header of Redrive's own.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name of the header.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

fields! {
    RetryAttempt = "x-retry-attempt",
    RetryMax = "x-retry-max",
    ProcessAfter = "x-process-after",
    OriginalTopic = "x-original-topic",
    OriginalPartition = "x-original-partition",
    OriginalOffset = "x-original-offset",
    OriginalTimestamp = "x-original-timestamp",
    FirstAttemptTimestamp = "x-first-attempt-timestamp",
    FirstFailureTimestamp = "x-first-failure-timestamp",
    LastFailureTimestamp = "x-last-failure-timestamp",
    LastErrorType = "x-last-error-type",
    LastErrorMessage = "x-last-error-message",
    FailureClass = "x-failure-class",
    FailureReason = "x-failure-reason",
    ApiStatusCode = "x-api-status-code",
    ApiResponse = "x-api-response",
    DelayRoute = "x-delay-route",
    DelayCounter = "x-delay-counter",
    DelayReason = "x-delay-reason",
    WaitId = "x-wait-id",
    EntryId = "x-entry-id",
    IdempotencyKey = "x-idempotency-key",
    CallsUsed = "x-calls-used",
    DelayTotal = "x-delay-total-ms",
    Held = "x-held-ms",
    HandlerVersion = "x-handler-version",
    CorrelationId = "x-correlation-id",
    CausationId = "x-causation-id",
    Replayed = "x-replayed",
    ReplayId = "x-replay-id",
    ReplayedBy = "x-replayed-by",
    ReplayReason = "x-replay-reason",
    OriginalDeathCount = "x-original-death-count",
    ForwardTo = "x-forward-to",
    MacFailures = "x-redrive-mac-failures",
    Mac = "x-redrive-mac",
}

impl Field {
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// The header of that exact name, if it is one of Redrive's own.
    pub fn of(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        if bytes.len() < SHORTEST {
            return None;
        }
        let field = *Self::ALL.get(usize::from(SLOTS[slot(bytes, SEED)]))?;
        (field.name() == name).then_some(field)
    }

    pub(crate) const fn header_name(self) -> HeaderName {
        HeaderName::from_static(self.name())
    }
}

// A perfect hash made when the crate is built: one multiplication and one comparison per header of a message,
// where a chain of comparisons would cost dozens. The build fails if a new name leaves no such hash.
const SLOT_BITS: u32 = 8;
const SHORTEST: usize = 9;
const EMPTY: u8 = u8::MAX;

const fn slot(name: &[u8], seed: u32) -> usize {
    let len = name.len();
    let picked = (name[len / 2] as u32) << 24
        | (name[len - 3] as u32) << 16
        | (name[len - 1] as u32) << 8
        | (name[4] as u32);
    ((picked ^ (len as u32).wrapping_mul(0x9e37_79b9)).wrapping_mul(seed) >> (32 - SLOT_BITS)) as usize
}

const fn try_seed(seed: u32) -> Option<[u8; 1 << SLOT_BITS]> {
    let mut slots = [EMPTY; 1 << SLOT_BITS];
    let mut i = 0;
    while i < Field::COUNT {
        let name = Field::ALL[i].name().as_bytes();
        assert!(name.len() >= SHORTEST, "a name is shorter than the hash reads");
        let at = slot(name, seed);
        if slots[at] != EMPTY {
            return None;
        }
        slots[at] = i as u8;
        i += 1;
    }
    Some(slots)
}

const fn find_seed() -> u32 {
    let mut seed: u32 = 0x85eb_ca6b;
    let mut tries = 0;
    while tries < 2_000 {
        if try_seed(seed).is_some() {
            return seed;
        }
        seed = seed.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f) | 1;
        tries += 1;
    }
    panic!("no perfect hash over the header names was found");
}

const SEED: u32 = find_seed();
static SLOTS: [u8; 1 << SLOT_BITS] = match try_seed(SEED) {
    Some(slots) => slots,
    None => panic!("the seed that was found does not hold"),
};

/// A set of [`Field`]s, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldSet(u64);

const _: () = assert!(Field::COUNT <= 64, "a set of fields is one word");

impl FieldSet {
    pub(crate) fn insert(&mut self, field: Field) {
        self.0 |= 1 << field as u32;
    }

    /// Whether the field is in the set.
    pub const fn contains(self, field: Field) -> bool {
        self.0 & (1 << field as u32) != 0
    }

    /// Whether no field is.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The fields in the set.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |field| self.contains(*field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_recognised_and_no_other() {
        for &field in Field::ALL {
            assert_eq!(Field::of(field.name()), Some(field));
            assert_eq!(Field::of(&field.name().to_uppercase()), None);
            assert_eq!(Field::of(&format!("{}x", field.name())), None);
            assert_eq!(Field::of(&field.name()[1..]), None);
        }
        for name in ["", "x", "x-", "x-death", "x-unknown-header", "ééééééééé"] {
            assert_eq!(Field::of(name), None, "{name}");
        }
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = FieldSet::default();
        assert!(set.is_empty());
        set.insert(Field::Mac);
        set.insert(Field::RetryAttempt);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Field::RetryAttempt, Field::Mac]);
    }
}
