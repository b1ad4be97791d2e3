//! What a check found, each with its place in the file.

use std::fmt;
use std::ops::Range;

use redrive_core::printable;
use serde::Serialize;

use crate::codes::Code;

/// More findings than this help nobody.
const MOST: usize = 500;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// It works, but perhaps not as meant.
    Warning,
    /// The file cannot be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing found in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The code, which has a page of documentation.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The place in bytes.
    #[serde(skip)]
    pub span: Range<usize>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, code, message, line, column, .. } = self;
        write!(f, "{line}:{column}: {severity} {code}: {message}")?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

/// A text without what could confuse a terminal; it may be of several lines.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { printable(c) }).collect()
}

/// Findings as they come in, before they are put into the order of the file.
pub(crate) struct Findings<'s> {
    source: &'s str,
    /// Where each line begins.
    lines: Vec<usize>,
    found: Vec<Finding>,
}

impl<'s> Findings<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        let breaks = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { source, lines: std::iter::once(0).chain(breaks).collect(), found: Vec::new() }
    }

    pub(crate) fn source(&self) -> &'s str {
        self.source
    }

    pub(crate) fn add(
        &mut self,
        severity: Severity,
        code: Code,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        // Errors are counted apart: whatever else there is, a file with an error must not pass.
        let error = severity == Severity::Error;
        if self.found.iter().filter(|finding| (finding.severity == Severity::Error) == error).count() >= MOST
        {
            return;
        }
        let start = self.source.floor_char_boundary(span.start);
        let line = self.lines.partition_point(|begin| *begin <= start);
        let begin = self.lines[line.saturating_sub(1)];
        let finding = Finding {
            severity,
            code,
            message: shown(&message.into()),
            help: help.into().map(|help| shown(&help)),
            line,
            column: self.source[begin..start].chars().count() + 1,
            span: start..span.end.clamp(start, self.source.len()),
        };
        if !self.found.contains(&finding) {
            self.found.push(finding);
        }
    }

    pub(crate) fn error(
        &mut self,
        code: Code,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        self.add(Severity::Error, code, span, message, help);
    }

    /// Whether there are so many errors that another would not be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.found.iter().filter(|finding| finding.severity == Severity::Error).count() >= MOST
    }

    pub(crate) fn has(&self, code: Code, message: &str) -> bool {
        self.found.iter().any(|finding| finding.code == code && finding.message == message)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Whether something is wrong within a place.
    pub(crate) fn has_error_in(&self, place: &Range<usize>) -> bool {
        let within = |span: &Range<usize>| place.start <= span.start && span.end <= place.end;
        self.found.iter().any(|finding| finding.severity == Severity::Error && within(&finding.span))
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Takes back what was found after there were `len` findings.
    pub(crate) fn take_after(&mut self, len: usize) -> Vec<Finding> {
        self.found.split_off(len.min(self.found.len()))
    }

    pub(crate) fn put_back(&mut self, findings: Vec<Finding>) {
        self.found.extend(findings);
    }

    pub(crate) fn into_sorted(mut self) -> Vec<Finding> {
        self.found
            .sort_by(|a, b| (a.span.start, b.severity, a.code).cmp(&(b.span.start, a.severity, b.code)));
        self.found
    }
}
