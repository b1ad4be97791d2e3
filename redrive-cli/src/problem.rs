//! What ended a command: a code with its page, what is wrong, what to do, and the exit code.

use std::borrow::Cow;

use redrive::codes::Code;
use redrive::core::TextError;

/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// What was asked for is not there.
pub(crate) const MISSING: u8 = 3;
/// It failed.
pub(crate) const FAILED: u8 = 1;
/// A role, a state or a guard does not allow it.
pub(crate) const REFUSED: u8 = 4;

/// What ended a command.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Nothing when the findings behind it have been shown, each with its own.
    pub(crate) code: Option<Cow<'static, str>>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// A text with a place in it, shown under the message.
    pub(crate) shown: Option<(String, usize)>,
    pub(crate) exit: u8,
}

impl Problem {
    pub(crate) fn new(code: Code, exit: u8, message: impl Into<String>) -> Self {
        let code = Some(Cow::Borrowed(code.id()));
        Self { code, message: message.into(), help: None, shown: None, exit }
    }

    /// One whose code came with an answer of the API.
    pub(crate) fn with_id(code: &str, exit: u8, message: impl Into<String>) -> Self {
        let code = Some(Cow::Owned(code.to_owned()));
        Self { code, message: message.into(), help: None, shown: None, exit }
    }

    /// What sums up findings that have been shown.
    pub(crate) fn summary(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), help: None, shown: None, exit: USAGE }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// A text that could not be read, pointed into.
    pub(crate) fn in_text(code: Code, text: &str, error: &TextError) -> Self {
        Self { shown: Some((text.to_owned(), error.at())), ..Self::new(code, USAGE, error.to_string()) }
    }
}
