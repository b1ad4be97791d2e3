//! YAML line by line, with comments.

use std::fmt::Write;
use std::ops::Range;

use redrive_core::printable;

use super::Node;

/// Longer comment lines are broken.
const WIDTH: usize = 100;

pub(super) struct Writer {
    text: String,
    indent: usize,
    /// What of the settings is being written down.
    place: Range<usize>,
    /// What each line was written from.
    places: Vec<Range<usize>>,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut writer = Self { text: String::new(), indent: 0, place: 0..0, places: Vec::new() };
        writer.line("version: 1");
        writer
    }

    /// Says which setting the lines from here on are written from, so that what is wrong with them can be told there.
    pub(super) fn from(&mut self, node: &Node) {
        self.place = node.span.clone();
    }

    pub(super) fn line(&mut self, line: &str) {
        self.places.push(self.place.clone());
        self.text.push_str(&" ".repeat(self.indent * 2));
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub(super) fn blank(&mut self) {
        self.places.push(self.place.clone());
        self.text.push('\n');
    }

    pub(super) fn comment(&mut self, comment: &str) {
        let mut line = String::from("#");
        // Nothing that stands in a foreign file may end the comment.
        for word in comment.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH - self.indent * 2 && line.len() > 1 {
                self.line(&line);
                "#".clone_into(&mut line);
            }
            line.push(' ');
            line.extend(word.chars().map(printable));
        }
        self.line(&line);
    }

    /// A key whose value is a map or a list.
    pub(super) fn open(&mut self, key: &str) {
        self.line(&format!("{}:", quoted_key(key)));
        self.indent += 1;
    }

    pub(super) fn close(&mut self) {
        self.indent = self.indent.saturating_sub(1);
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.line(&format!("{key}: {}", quoted(value)));
    }

    /// A flow that shows how the policy is used; it cannot be known from the settings, so it stands as a comment.
    pub(super) fn example_flow(&mut self, lines: &[&str]) {
        self.blank();
        self.line("# The settings name no source and no handler. Fill in a flow:");
        self.line("# flows:");
        self.line("#   orders:");
        self.line("#     from: kafka://localhost:9092/orders?group=orders-worker");
        self.line("#     to: http://127.0.0.1:3000/orders");
        for line in lines {
            self.line(&format!("#     {line}"));
        }
    }

    /// The file, and what each of its lines was written from.
    pub(super) fn finish(self) -> (String, Vec<Range<usize>>) {
        (self.text, self.places)
    }
}

/// A value in double quotes, in which nothing is taken for a variable.
pub(super) fn quoted(text: &str) -> String {
    escaped(&text.replace("${", "$${"))
}

/// A text in double quotes. Every JSON string is one of YAML; what could confuse whoever looks at the file is written
/// by its number.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in serde_json::to_string(text).unwrap_or_default().chars() {
        if c == printable(c) {
            escaped.push(c);
        } else {
            let _ = write!(escaped, "\\U{:08X}", u32::from(c));
        }
    }
    escaped
}

/// A key, in quotes where it needs them.
pub(super) fn quoted_key(key: &str) -> String {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        && !matches!(
            key.to_ascii_lowercase().as_str(),
            "null" | "true" | "false" | "yes" | "no" | "on" | "off"
        );
    if plain { key.to_owned() } else { escaped(key) }
}
