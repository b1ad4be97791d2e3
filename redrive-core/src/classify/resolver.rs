//! Rules as code, for what data cannot say.

use std::error::Error;
use std::fmt;

use super::{Classification, Seen};
use crate::failure::chain;
use crate::{Class, Reason};

/// A piece of code that may know what a failure is. Asked before the rules; the first that answers wins.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The name that stands in the `because`.
    fn name(&self) -> &str;

    /// The classification, or nothing when this resolver does not know it.
    fn resolve(&self, seen: &Seen<'_>) -> Option<Classification>;
}

type Matches = fn(&(dyn Error + 'static)) -> bool;

/// Rust error types and what they mean, wherever in the source chain they stand.
///
/// ```
/// use redrive_core::classify::{Classifier, ErrorTypes, Seen, Subject};
/// use redrive_core::{Class, Failure, History, Reason};
/// use std::sync::Arc;
///
/// let types = ErrorTypes::default().on::<std::num::ParseIntError>(Class::PermanentTechnical, Reason::new("BAD_ID")?);
/// let classifier = Classifier::new(vec![Arc::new(types)], Vec::new());
/// let failure = Failure::from_error("x".parse::<u32>().unwrap_err());
/// let seen = Seen { subject: &Subject::default(), history: &History::first(), failure: &failure };
/// assert_eq!(classifier.classify(&seen).reason.as_str(), "BAD_ID");
/// # Ok::<(), redrive_core::ReasonError>(())
/// ```
#[derive(Default)]
pub struct ErrorTypes {
    types: Vec<(Matches, &'static str, Classification)>,
}

impl ErrorTypes {
    /// Says what an error of type `E` means; the outermost match in the chain wins.
    #[must_use]
    pub fn on<E: Error + 'static>(self, class: Class, reason: Reason) -> Self {
        self.on_as::<E>(Classification::new(class, reason))
    }

    /// Says what an error of type `E` means, with a handling or an exit of its own.
    #[must_use]
    pub fn on_as<E: Error + 'static>(mut self, found: Classification) -> Self {
        self.types.push((|error| error.is::<E>(), std::any::type_name::<E>(), found));
        self
    }

    /// Whether no type is named.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}

impl fmt::Debug for ErrorTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.types.iter().map(|(_, name, found)| (name, &found.reason))).finish()
    }
}

impl Resolver for ErrorTypes {
    fn name(&self) -> &'static str {
        "error types"
    }

    fn resolve(&self, seen: &Seen<'_>) -> Option<Classification> {
        let error = seen.failure.error()?;
        chain(error).find_map(|link| {
            self.types.iter().find(|(matches, _, _)| matches(link)).map(|(_, _, found)| found.clone())
        })
    }
}
