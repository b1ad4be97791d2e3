//! The three small vocabularies of failure: what kind it is, how it is retried, where it ends.

/// A name that is not in a closed vocabulary, with the names that are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {what}; expected one of {expected}")]
pub struct ParseNameError {
    /// Which vocabulary was asked, such as `class`.
    pub what: &'static str,
    /// The text that was found, cut to 64 characters.
    pub found: String,
    /// The accepted names, separated by commas.
    pub expected: &'static str,
}

macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        $name:ident as $what:literal, expected $expected:literal {
            $( $(#[$vmeta:meta])* $variant:ident = $text:literal $(| $alias:literal)* ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $( $(#[$vmeta])* #[serde(rename = $text $(, alias = $alias)*)] $variant ),+
        }

        impl $name {
            /// Every member, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as people write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ParseNameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $text $(| $alias)* => Ok(Self::$variant), )+
                    _ => Err($crate::ParseNameError {
                        what: $what,
                        found: text.chars().take(64).collect(),
                        expected: $expected,
                    }),
                }
            }
        }
    };
}

pub(crate) use vocabulary;

vocabulary! {
    /// What kind of failure an attempt left behind.
    ///
    /// ```
    /// use redrive_core::Class;
    ///
    /// assert_eq!("CONTENTION".parse(), Ok(Class::Contention));
    /// assert!(!Class::Poison.is_retried());
    /// ```
    Class as "class",
    expected "TRANSIENT, CONTENTION, PERMANENT_TECHNICAL, PERMANENT_BUSINESS, POISON, UNKNOWN" {
        /// The same message may succeed later: a time-out, a 503, a restart.
        Transient = "TRANSIENT",
        /// A conflict over a resource: a lock, a version, a deadlock.
        Contention = "CONTENTION",
        /// The message cannot be handled by this code: bad bytes, unsupported schema.
        PermanentTechnical = "PERMANENT_TECHNICAL",
        /// The domain says no: order already cancelled, account closed.
        PermanentBusiness = "PERMANENT_BUSINESS",
        /// The message harms its handler: it crashes it, or fails every time.
        Poison = "POISON",
        /// Nothing is known about the failure.
        Unknown = "UNKNOWN",
    }
}

impl Class {
    /// Whether a schedule that names no class applies to this one.
    ///
    /// Permanent failures and poison are retried only by a schedule that names their class.
    pub const fn is_retried(self) -> bool {
        matches!(self, Self::Transient | Self::Contention | Self::Unknown)
    }
}

vocabulary! {
    /// How a failure is retried. The short names of the retry literature are accepted too.
    Handling as "handling", expected "never (NRE), in_place (SLE), blocking (SBE), delayed (SNBE)" {
        /// Not at all: straight to the exit.
        Never = "never" | "NRE",
        /// In the same delivery, the message still in hand.
        InPlace = "in_place" | "SLE",
        /// The lane, the partition or the flow stands still until it succeeds.
        Blocking = "blocking" | "SBE",
        /// Later, others go on.
        Delayed = "delayed" | "SNBE",
    }
}

vocabulary! {
    /// Where a message goes when nothing is left to try.
    Exit as "exit", expected "dead_letter, park, discard, reject" {
        /// The machine gave up: a budget is spent.
        DeadLetter = "dead_letter",
        /// A person is needed.
        Park = "park",
        /// Dropped on purpose, with an audit record.
        Discard = "discard",
        /// Acknowledged, and a business-rejection event is published.
        Reject = "reject",
    }
}
