//! The errors of a foreign failure: what the headers name, completed by what the stack trace tells.
//!
//! Most writers name the outermost error only, and that is often the framework's own wrapper. The error that rules
//! know stands further down, after `Caused by:`.

use super::ForeignFailure;
use super::values::MAX_READ;
use crate::headers::MAX_ERROR_TYPE;
use crate::{ErrorLink, MAX_CHAIN, MAX_TEXT, Text};

/// What one writer's headers say of the error.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) cause: Option<&'a str>,
    pub(super) trace: Option<&'a str>,
}

impl Told<'_> {
    /// Whether the headers say anything of an error.
    pub(super) fn is_empty(&self) -> bool {
        self.kind.is_none() && self.message.is_none() && self.cause.is_none() && self.trace.is_none()
    }

    /// Adds the errors to a failure, behind those that it has, and its stack trace unless it has one.
    pub(super) fn add_to(&self, failure: &mut ForeignFailure) {
        for link in self.links() {
            if failure.chain.len() < MAX_CHAIN {
                failure.chain.push(link);
            }
        }
        if failure.stack_trace.is_none() {
            // A copy, so that 16 KB of it do not keep a megabyte in memory.
            failure.stack_trace = self.trace.map(|trace| Text::from(cut(trace, MAX_TEXT)));
        }
    }

    fn links(&self) -> Vec<ErrorLink> {
        let mut links = Vec::new();
        if self.kind.is_some() || self.message.is_some() {
            links.push(link(self.kind.unwrap_or_default(), self.message.unwrap_or_default()));
        }
        let mut traced = self.trace.map(from_trace).unwrap_or_default();
        if let Some(named) = links.first() {
            let same_message = |link: &ErrorLink| link.message.lines().next() == named.message.lines().next();
            if named.kind.is_empty() {
                // Some writers tell the message of the cause, and its type nowhere: the trace has both, and a message of
                // several lines with its first one alone.
                if let Some(meant) = traced.iter_mut().find(|link| same_message(link)) {
                    meant.message.clone_from(&named.message);
                    links.clear();
                }
            } else if traced.first().is_some_and(|first| first.kind == named.kind) {
                traced.remove(0);
            }
        }
        // Frameworks put wrappers of their own in between: the trace knows better where the cause belongs.
        if let Some(cause) = self.cause
            && links.iter().chain(&traced).all(|link| link.kind != cause)
        {
            links.push(link(cause, ""));
        }
        links.extend(traced);
        links.truncate(MAX_CHAIN);
        links
    }
}

fn link(kind: &str, message: &str) -> ErrorLink {
    ErrorLink { kind: cut(kind, MAX_ERROR_TYPE).to_owned(), message: cut(message, MAX_TEXT).to_owned() }
}

/// The errors that a stack trace names, outermost first: its first line, and each cause of it.
///
/// Java begins a cause with `Caused by: ` at the line's start (an indented one belongs to a suppressed error),
/// .NET with ` ---> `.
fn from_trace(trace: &str) -> Vec<ErrorLink> {
    let trace = cut(trace, MAX_READ);
    let mut links = Vec::new();
    for (number, line) in trace.lines().enumerate() {
        let error = match number {
            0 => Some(line),
            _ => line.strip_prefix("Caused by: ").or_else(|| line.strip_prefix(" ---> ")),
        };
        if let Some(found) = error.and_then(error_line) {
            links.push(found);
        }
        if links.len() == MAX_CHAIN {
            break;
        }
    }
    links
}

/// `type: message`, or a type alone.
fn error_line(line: &str) -> Option<ErrorLink> {
    let line = line.trim_end();
    let (kind, message) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    let is_type = kind.len() <= MAX_ERROR_TYPE
        && kind.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && kind.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '+' | '`' | ':' | '/'));
    is_type.then(|| link(kind, message))
}

fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAVA: &str = "org.example.Wrapper: Listener failed\n\
        \tat org.example.A.a(A.java:1)\n\
        \tSuppressed: org.example.Other: not this\n\
        \tCaused by: org.example.Other: nor this\n\
        Caused by: java.lang.IllegalStateException: closed: for good\n\
        \t... 3 more\n\
        Caused by: java.lang.NullPointerException\n";

    fn kinds(told: Told<'_>) -> Vec<String> {
        told.links().into_iter().map(|link| link.kind).collect()
    }

    #[test]
    fn a_java_trace_gives_its_causes() {
        let links = from_trace(JAVA);
        let told: Vec<_> = links.iter().map(|l| (l.kind.as_str(), l.message.as_str())).collect();
        assert_eq!(
            told,
            [
                ("org.example.Wrapper", "Listener failed"),
                ("java.lang.IllegalStateException", "closed: for good"),
                ("java.lang.NullPointerException", ""),
            ]
        );
    }

    #[test]
    fn a_dotnet_trace_gives_its_causes() {
        let trace = "System.AggregateException: many\r\n ---> System.TimeoutException: late\r\n   at A.B()";
        let told = Told { trace: Some(trace), ..Told::default() };
        assert_eq!(kinds(told), ["System.AggregateException", "System.TimeoutException"]);
    }

    #[test]
    fn no_error_is_named_twice() {
        let told = Told {
            kind: Some("org.example.Wrapper"),
            message: Some("Listener failed; really"),
            cause: Some("java.lang.IllegalStateException"),
            trace: Some(JAVA),
        };
        let links = told.links();
        assert_eq!(links.len(), 3);
        assert_eq!(links[0].message, "Listener failed; really");
        let told = Told { trace: None, ..told };
        assert_eq!(kinds(told), ["org.example.Wrapper", "java.lang.IllegalStateException"]);
    }

    #[test]
    fn a_message_without_a_type_gets_the_traces_one() {
        let told = Told { message: Some("Listener failed"), trace: Some(JAVA), ..Told::default() };
        assert_eq!(kinds(told)[0], "org.example.Wrapper");
        assert_eq!(told.links().len(), 3);
    }

    #[test]
    fn a_message_without_a_type_may_be_that_of_a_cause() {
        let message = "closed: for good\nreally";
        let told = Told { message: Some(message), trace: Some(JAVA), ..Told::default() };
        let links = told.links();
        assert_eq!(links.len(), 3);
        assert_eq!(
            (links[1].kind.as_str(), &*links[1].message),
            ("java.lang.IllegalStateException", message)
        );
        let told = Told { message: Some("said nowhere"), ..told };
        assert_eq!(kinds(told)[..2], ["", "org.example.Wrapper"]);
    }

    #[test]
    fn a_sentence_is_not_a_type() {
        for line in ["", "could not do it: because", "   at A.B()", ": x", "1st: x"] {
            assert_eq!(error_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_long_chain_is_cut() {
        let trace = (0..100).map(|n| format!("Caused by: E{n}: m\n")).collect::<String>();
        let told = Told { kind: Some("A"), trace: Some(&trace), ..Told::default() };
        assert_eq!(told.links().len(), MAX_CHAIN);
    }
}
