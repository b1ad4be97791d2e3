//! `${NAME}` in a value is taken from the environment, so that a file can be shared and its secrets need not.
//!
//! Only values are looked at, after the file was read: never keys or comments, and what a variable holds cannot
//! change the structure of the file. `$${` stands for `${`.

use super::finding::Findings;
use super::tree::{Kind, Node, Scalar};
use crate::codes;

/// Longer than this no value becomes.
const LONGEST: usize = 64 * 1024;

/// Replaces every variable in the values under `node`.
pub(crate) fn substitute(node: &mut Node, env: &dyn Fn(&str) -> Option<String>, findings: &mut Findings<'_>) {
    match &mut node.kind {
        Kind::List(items) => items.iter_mut().for_each(|item| substitute(item, env, findings)),
        Kind::Map(entries) => {
            for entry in entries {
                substitute(&mut entry.value, env, findings);
            }
        }
        Kind::Scalar(scalar) if scalar.text.contains("${") => {
            let plain = scalar.plain;
            node.kind = match replaced(node, env, findings) {
                Some(text) => Kind::Scalar(Scalar { text, plain, begins: None }),
                None => Kind::Unusable,
            };
        }
        Kind::Scalar(_) | Kind::Unusable => {}
    }
}

fn replaced(
    node: &Node,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings<'_>,
) -> Option<String> {
    let text = node.text()?;
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        result.push_str(&rest[..at]);
        let here = text.len() - rest.len() + at;
        let Some(end) = rest[at..].find('}').map(|end| at + end) else {
            let help = "close it with `}`, or write `$${` for the characters themselves".to_owned();
            findings.error(codes::NO_VARIABLE, node.place_in(here), "`${` is not closed", help);
            return None;
        };
        let name = &rest[at + 2..end];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let place = node.place_in(here).start..node.place_in(here + end - at).end;
        if !is_name {
            let message = format!("`{}` is no name of a variable", &rest[at..=end]);
            let help = "use letters, digits and `_`, or write `$${` for the characters themselves".to_owned();
            findings.error(codes::NO_VARIABLE, place, message, help);
            return None;
        }
        let Some(value) = env(name) else {
            let message = format!("the environment variable {name} is not set");
            let help = format!("set {name}, or write `$${{` for the characters themselves");
            findings.error(codes::NO_VARIABLE, place, message, help);
            return None;
        };
        result.push_str(&value);
        if result.len() > LONGEST {
            let message = format!("with {name} the value is longer than {LONGEST} bytes");
            findings.error(codes::NO_VARIABLE, place, message, None);
            return None;
        }
        rest = &rest[end + 1..];
    }
    result.push_str(rest);
    Some(result)
}
