//! Findings and problems as people see them: with the lines they are about and a pointer into them.

use std::fmt::{self, Write};

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Severity, SourceCode,
    SourceSpan,
};
use redrive::config::{self, Finding};
use redrive::core::printable;
use textwrap::{WordSeparator, WordSplitter};

use crate::masked::Masked;
use crate::problem::Problem;
use crate::terminal;

/// More findings than this are only counted.
const MOST_SHOWN: usize = 100;
/// A longer line is not shown: nobody could read it.
const LONGEST_LINE: usize = 1_000;

/// A finding or a problem, as the reporter wants it.
#[derive(Debug)]
struct Shown<'a> {
    severity: Severity,
    code: &'a str,
    message: &'a str,
    help: Option<&'a str>,
    source: Option<&'a NamedSource<String>>,
    span: SourceSpan,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source?;
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(None, self.span))))
    }
}

/// Shows findings on stderr, and how many there are.
pub(crate) fn findings(name: &str, source: &str, findings: &[Finding]) {
    let readable = source.lines().all(|line| line.len() <= LONGEST_LINE);
    let masked = Masked::new(if readable { source } else { "" });
    let source = NamedSource::new(name, masked.text.clone());
    let mut text = String::new();
    for finding in findings.iter().take(MOST_SHOWN) {
        let severity = match finding.severity {
            config::Severity::Note => Severity::Advice,
            config::Severity::Warning => Severity::Warning,
            config::Severity::Error => Severity::Error,
        };
        let placed = format!("{name}:{}:{}: {}", finding.line, finding.column, finding.message);
        text.push_str(&drawn(&Shown {
            severity,
            code: finding.code.id(),
            message: if readable { &finding.message } else { &placed },
            help: finding.help.as_deref(),
            source: readable.then_some(&source),
            span: {
                let [start, end] = [finding.span.start, finding.span.end].map(|at| masked.place(at));
                (start, end - start).into()
            },
        }));
        text.push('\n');
    }
    if findings.len() > MOST_SHOWN {
        let _ = writeln!(text, "… and {} more", findings.len() - MOST_SHOWN);
    }
    terminal::say(text.trim_end());
}

/// Shows what ended a command.
pub(crate) fn problem(problem: &Problem) {
    let Some(code) = &problem.code else {
        return terminal::say(&format!("\n{}", problem.message));
    };
    let shown = problem.shown.as_ref().map(|(text, at)| (Masked::new(text), *at));
    let at = shown.as_ref().map_or(0, |(masked, at)| masked.place(*at));
    let source = shown.map(|(masked, _)| NamedSource::new("argument", masked.text));
    let message: String = problem.message.chars().map(|c| if c == '\n' { c } else { printable(c) }).collect();
    let shown = Shown {
        severity: Severity::Error,
        code,
        message: &message,
        help: problem.help.as_deref(),
        source: source.as_ref(),
        span: (at, 0).into(),
    };
    terminal::say(drawn(&shown).trim_end());
}

fn drawn(shown: &Shown<'_>) -> String {
    let theme = if terminal::colours_on_stderr() {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let mut text = String::new();
    // A name is shown in one piece, also one with hyphens, so that it can be searched for and copied.
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_links(false)
        .with_width(100)
        .with_break_words(false)
        .with_word_separator(WordSeparator::AsciiSpace)
        .with_word_splitter(WordSplitter::NoHyphenation);
    if handler.render_report(&mut text, shown).is_err() {
        text = format!("{}: {}", shown.code, shown.message);
    }
    text
}

/// `2 errors, 1 warning`, or that there is nothing.
pub(crate) fn counted(findings: &[Finding]) -> String {
    use config::Severity::{Error, Note, Warning};
    let parts: Vec<_> = [(Error, "error"), (Warning, "warning"), (Note, "note")]
        .into_iter()
        .map(|(severity, name)| {
            (findings.iter().filter(|finding| finding.severity == severity).count(), name)
        })
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { "nothing to complain about".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_broken_over_two_lines() {
        let names: Vec<String> =
            (0..40).map(|n| format!("{}-{n}/orders-eu-west-1.dlq", "x".repeat(n))).collect();
        let message = format!("some things are missing: {}", names.join(", "));
        let shown = Shown {
            severity: Severity::Error,
            code: "RD-RUN-02",
            message: &message,
            help: None,
            source: None,
            span: (0, 0).into(),
        };
        let drawn = drawn(&shown);
        assert!(drawn.lines().count() > 10, "{drawn}");
        for name in names {
            assert!(drawn.contains(&name), "{name} in {drawn}");
        }
    }
}
