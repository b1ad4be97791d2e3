//! Who handles messages: an HTTP endpoint, a command per message, or one long-lived command.

use std::fmt;
use std::str::FromStr;

use redrive_core::TextError;

use super::authority::Parts;
use super::text::masked;

/// The address of a handler.
///
/// ```
/// use redrive::address::HandlerAddress;
///
/// let handler: HandlerAddress = "exec:./handle.sh --mode 'very slow'".parse()?;
/// assert_eq!(
///     handler,
///     HandlerAddress::Exec(vec!["./handle.sh".into(), "--mode".into(), "very slow".into()]),
/// );
/// # Ok::<(), redrive::core::TextError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum HandlerAddress {
    /// `http://…` or `https://…`.
    Http(String),
    /// `exec:./handle.sh arg`: one process per message, without a shell.
    Exec(Vec<String>),
    /// `jsonl:./worker.py arg`: one long-lived process, JSON lines in and out.
    Jsonl(Vec<String>),
}

impl HandlerAddress {
    /// Reads an HTTP address.
    pub fn http(text: &str) -> Result<Self, TextError> {
        let start = match text {
            _ if text.starts_with("http://") => "http://".len(),
            _ if text.starts_with("https://") => "https://".len(),
            _ => return Err(TextError::new(text, 0, "http:// or https://")),
        };
        // A query of an HTTP address is the endpoint's own business.
        let before_query = text.find(['?', '#']).map_or(text, |at| &text[..at]);
        Parts::cut(before_query, start)?.host()?;
        Ok(Self::Http(text.to_owned()))
    }
}

impl FromStr for HandlerAddress {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(command) = text.strip_prefix("exec:") {
            return words(text, "exec:".len(), command).map(Self::Exec);
        }
        if let Some(command) = text.strip_prefix("jsonl:") {
            return words(text, "jsonl:".len(), command).map(Self::Jsonl);
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Self::http(text);
        }
        Err(TextError::new(text, 0, "http://, https://, exec:COMMAND or jsonl:COMMAND"))
    }
}

impl fmt::Display for HandlerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => f.write_str(&masked(url)),
            Self::Exec(words) => f.write_str(&masked(&format!("exec:{}", words.join(" ")))),
            Self::Jsonl(words) => f.write_str(&masked(&format!("jsonl:{}", words.join(" ")))),
        }
    }
}

impl fmt::Debug for HandlerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerAddress({self})")
    }
}

/// Splits a command like a shell would: at white space, but not inside quotes; `\` takes the next character as it
/// is, except inside single quotes.
pub fn split_words(command: &str) -> Result<Vec<String>, TextError> {
    words(command, 0, command)
}

fn words(text: &str, at: usize, command: &str) -> Result<Vec<String>, TextError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut characters = command.char_indices();
    while let Some((i, c)) = characters.next() {
        match (quote, c) {
            (Some((open, _)), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some((c, at + i));
                word.get_or_insert_default();
            }
            (None | Some(('"', _)), '\\') => match characters.next() {
                Some((_, escaped)) => word.get_or_insert_default().push(escaped),
                None => return Err(TextError::new(text, text.len(), "a character after `\\`")),
            },
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if let Some((open, opened_at)) = quote {
        return Err(TextError::new(text, opened_at, format!("a closing {open} for this quote")));
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) {
        return Err(TextError::new(text, at, "a command"));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_like_a_shell() {
        let words = split_words(r#"a 'b  c' "d\"e" f\ g '' h"#).unwrap();
        assert_eq!(words, ["a", "b  c", "d\"e", "f g", "", "h"]);
        assert!(split_words("a 'b").is_err());
        assert!(split_words("  ").is_err());
        assert!(split_words("a \\").is_err());
    }

    #[test]
    fn checks_and_masks_http() {
        let handler: HandlerAddress = "https://app:hunter2@host:3000/x?y=a%20b".parse().unwrap();
        assert_eq!(format!("{handler}"), "https://***@host:3000/x?y=a%20b");
        assert!(!format!("{handler:?}").contains("hunter2"));
        let command: HandlerAddress = "exec:./h --token hunter2 https://hunter2@host".parse().unwrap();
        assert_eq!(format!("{command}"), "exec:./h --token *** https://***@host");
        for wrong in ["http://", "http://host:port/", "https:///x", "ftp://host", "http://a b/"] {
            assert!(wrong.parse::<HandlerAddress>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_the_parser(text in any::<String>(), scheme in "https?://|exec:|jsonl:|") {
            let _ = format!("{scheme}{text}").parse::<HandlerAddress>().map(|address| address.to_string());
        }
    }
}
