//! A YAML file as a tree in which every key and every value knows its place.
//!
//! Scalars keep their text: what type a plain one is decides the place where it stands, so that `500` where a
//! duration belongs is answered with "expected a unit" and a SQLSTATE needs no quotes. Aliases are refused, which
//! also means that a small file is a small tree.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::finding::Findings;
use crate::codes;

/// Deeper than this nothing in the file goes.
const DEEPEST: usize = 32;

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Something that could not be used; what is wrong with it has been said.
    Unusable,
}

#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes, so that it may be a number.
    pub(crate) plain: bool,
    /// Where the text begins in the file, if it stands there character by character.
    pub(crate) begins: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Node,
}

impl Scalar {
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.text.as_str() {
            "true" | "True" | "TRUE" if self.plain => Some(true),
            "false" | "False" | "FALSE" if self.plain => Some(false),
            _ => None,
        }
    }

    pub(crate) fn as_integer(&self) -> Option<i128> {
        if !self.plain {
            return None;
        }
        let text = self.text.strip_prefix('+').unwrap_or(&self.text);
        if let Some(hex) = text.strip_prefix("0x") {
            return i128::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with(['+', '-']));
        }
        text.parse().ok().filter(|_| !text.starts_with('+'))
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        let looks = self.text.bytes().any(|byte| byte.is_ascii_digit())
            && self.text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        if self.plain && looks {
            self.text.parse().ok().filter(|number: &f64| number.is_finite())
        } else {
            None
        }
    }
}

impl Node {
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Which of the keys are written with a value, whatever that is worth.
    pub(crate) fn given<'k>(&self, keys: &[&'k str]) -> Vec<&'k str> {
        let is_null = |node: &Self| matches!(&node.kind, Kind::Scalar(scalar) if scalar.is_null());
        keys.iter().filter(|key| self.get(key).is_some_and(|node| !is_null(node))).copied().collect()
    }

    /// The value under a path of keys and, in lists, numbers.
    pub(crate) fn find<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> Option<&Node> {
        path.into_iter().try_fold(self, |node, step| match &node.kind {
            Kind::List(items) => items.get(step.parse::<usize>().ok()?),
            _ => node.get(step),
        })
    }

    /// The place of byte `at` of the scalar's text; the whole scalar when it does not stand there as it is.
    pub(crate) fn place_in(&self, at: usize) -> Range<usize> {
        match &self.kind {
            Kind::Scalar(Scalar { text, begins: Some(begins), .. }) => {
                let at = text.floor_char_boundary(at);
                let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
                begins + at..begins + end
            }
            _ => self.span.clone(),
        }
    }

    /// What it is, in a word.
    pub(crate) fn what(&self) -> &'static str {
        match &self.kind {
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
            Kind::Unusable => "something else",
            Kind::Scalar(scalar) if scalar.is_null() => "nothing",
            Kind::Scalar(scalar) if scalar.as_bool().is_some() => "true or false",
            Kind::Scalar(scalar) if scalar.as_number().is_some() => "a number",
            Kind::Scalar(_) => "text",
        }
    }
}

/// Reads a file; nothing when it cannot be read at all. What is wrong is among the findings.
pub(crate) fn read(findings: &mut Findings<'_>) -> Option<Node> {
    let source = findings.source();
    let options = granit_parser::options! {
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
        emit_unresolved_aliases: true,
    };
    let mut reader = Reader { parser: Parser::new_from_str_with_options(source, options), findings, source };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return root,
            Event::DocumentStart(..) if root.is_some() => {
                let at = reader.range(&span);
                let help = "put each configuration into a file of its own".to_owned();
                reader.findings.error(codes::YAML_FEATURE, at, "a second document begins here", help);
                return root;
            }
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => root = Some(reader.node(event, &span, 0)?),
        }
    }
}

struct Reader<'r, 's> {
    parser: Parser<'s, StrInput<'s>>,
    findings: &'r mut Findings<'s>,
    source: &'s str,
}

impl<'s> Reader<'_, 's> {
    fn next(&mut self) -> Option<(Event<'s>, Span)> {
        match self.parser.next_event()? {
            Ok(event) => Some(event),
            Err(error) => {
                let at = error.marker().byte_offset().unwrap_or(0).min(self.source.len());
                let message = error.kind().to_string();
                let help = if self.source[at..].starts_with('\t') || message.contains("tab") {
                    Some("indent with spaces; YAML does not allow tabs there".to_owned())
                } else {
                    None
                };
                let end = self.source[at..].chars().next().map_or(at, |c| at + c.len_utf8());
                self.findings.error(codes::NOT_YAML, at..end, message, help);
                None
            }
        }
    }

    fn range(&self, span: &Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(0..0);
        let start = self.source.floor_char_boundary(range.start.min(self.source.len()));
        start..self.source.floor_char_boundary(range.end.clamp(start, self.source.len()))
    }

    fn node(&mut self, event: Event<'s>, span: &Span, depth: usize) -> Option<Node> {
        let mut range = self.range(span);
        if let Some(tag) = event.tag().filter(|tag| !tag.is_yaml_core_schema_tag("str")) {
            let message = format!("the tag {} has no meaning here", tag.original());
            let place = span.tag_span().map_or_else(|| range.clone(), |span| self.range(&span));
            self.findings.error(codes::YAML_FEATURE, place, message, "leave it out".to_owned());
        }
        if depth > DEEPEST {
            let message = format!("nested deeper than {DEEPEST} levels");
            self.findings.error(codes::YAML_FEATURE, range, message, None);
            return None;
        }
        let kind = match event {
            Event::Scalar(text, style, ..) => {
                let begins = self.begins(&range, &text);
                let plain = style == ScalarStyle::Plain;
                Kind::Scalar(Scalar { text: text.into_owned(), plain, begins })
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        range.end = self.range(&span).end.max(range.start);
                        break Kind::List(items);
                    }
                    items.push(self.node(event, &span, depth + 1)?);
                }
            }
            Event::MappingStart(..) => self.map(&mut range, depth)?,
            // An alias takes the place of a value; it is refused, and reading goes on.
            _ => {
                let help =
                    "write it out; what several flows share belongs into a policy with a name".to_owned();
                self.findings.error(
                    codes::YAML_FEATURE,
                    range.clone(),
                    "an alias is not supported here",
                    help,
                );
                Kind::Unusable
            }
        };
        Some(Node { kind, span: range })
    }

    fn map(&mut self, range: &mut Range<usize>, depth: usize) -> Option<Kind> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                range.end = self.range(&span).end.max(range.start);
                return Some(Kind::Map(entries));
            }
            let line = span.start.line();
            let key = self.node(event, &span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.node(event, &span, depth + 1)?;
            let Kind::Scalar(scalar) = key.kind else {
                let help = "a key is a single word or a text in quotes".to_owned();
                self.findings.error(codes::YAML_FEATURE, key.span, "a list or a map cannot be a key", help);
                continue;
            };
            if let Some(first) = seen.get(&scalar.text) {
                let message = format!("`{}` stands twice; the first is in line {first}", scalar.text);
                let help = "keep one of them".to_owned();
                self.findings.error(codes::DUPLICATE_KEY, key.span, message, help);
                continue;
            }
            seen.insert(scalar.text.clone(), line);
            entries.push(Entry { key: scalar.text, key_span: key.span, value });
        }
    }

    /// Where a scalar's text begins, when it stands in the file as it is.
    fn begins(&self, range: &Range<usize>, text: &str) -> Option<usize> {
        let source = &self.source[range.clone()];
        // Plain at the beginning, quoted behind the quote.
        let at = (0..=1).find(|at| source.get(*at..).is_some_and(|source| source.starts_with(text)));
        at.map(|at| range.start + at)
    }
}
