//! Wrappers by which a Rust handler says how its error is to be retried.
//!
//! A wrapper masks what it wraps: the classifier stops at the first one in the chain. So a "not found" that is
//! only "not there yet" can be retried later, whatever the rules say of "not found".

use std::error::Error;
use std::fmt;

use super::{By, Classification};
use crate::failure::chain;
use crate::{Class, Handling, Reason};

macro_rules! wrapper {
    ($( $(#[$meta:meta])* $name:ident => $handling:ident; )+) => {
        $(
            $(#[$meta])*
            #[derive(Debug)]
            pub struct $name(Box<dyn Error + Send + Sync>);

            impl $name {
                /// Wraps an error.
                pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
                    Self(error.into())
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Display::fmt(&self.0, f)
                }
            }

            impl Error for $name {
                fn source(&self) -> Option<&(dyn Error + 'static)> {
                    Some(self.0.as_ref())
                }
            }
        )+

        /// The handling that the outermost wrapper in the chain asks for.
        pub(crate) fn wrapped_handling(error: &(dyn Error + 'static)) -> Option<Handling> {
            chain(error).find_map(|link| {
                $( if link.is::<$name>() { return Some(Handling::$handling); } )+
                None
            })
        }
    };
}

wrapper! {
    /// An error that no retry can mend.
    ///
    /// ```
    /// use redrive_core::classify::NotRetryable;
    /// use redrive_core::{Failure, Handling};
    ///
    /// let failure = Failure::from_error(NotRetryable::new("the order has no lines"));
    /// assert_eq!(failure.wrapped(), Some(Handling::Never));
    /// ```
    NotRetryable => Never;
    /// An error that is soon over: retried while the message is in hand.
    RetryInPlace => InPlace;
    /// An error that stops everything behind it: the lane, the partition or the flow stands still.
    RetryBlocking => Blocking;
    /// An error of this message alone: retried later, others go on.
    RetryDelayed => Delayed;
}

pub(super) fn classification(handling: Handling) -> Classification {
    let (class, reason) = match handling {
        Handling::Never => (Class::PermanentTechnical, Reason::NOT_RETRYABLE),
        Handling::InPlace | Handling::Blocking | Handling::Delayed => {
            (Class::Transient, Reason::RETRY_REQUESTED)
        }
    };
    Classification { by: By::Wrapper(handling), ..Classification::new(class, reason) }.with_handling(handling)
}
