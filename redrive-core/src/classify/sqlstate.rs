//! SQLSTATE codes and the patterns that match them.

use std::fmt;
use std::str::FromStr;

/// The five characters with which a database names an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

/// A text that is no SQLSTATE, or no pattern of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct SqlStateError {
    found: String,
    expected: &'static str,
}

impl SqlStateError {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { found: text.chars().take(16).collect(), expected }
    }
}

fn is_state_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

impl SqlState {
    /// The code as text.
    pub fn as_str(&self) -> &str {
        // Only ASCII gets in, see `from_str`.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for SqlState {
    type Err = SqlStateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match <[u8; 5]>::try_from(text.as_bytes()) {
            Ok(bytes) if bytes.iter().all(|byte| is_state_byte(*byte)) => Ok(Self(bytes)),
            _ => Err(SqlStateError::new(text, "a SQLSTATE: five of A-Z and 0-9, such as 40P01")),
        }
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A SQLSTATE in which `?` stands for one character and a final `*` for all that follow: `40P01`, `08*`, `57P0?`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlPattern([u8; 5]);

impl SqlPattern {
    /// Whether the pattern covers the code.
    pub fn matches(self, state: SqlState) -> bool {
        self.0.iter().zip(state.0).all(|(want, have)| *want == b'?' || *want == have)
    }
}

impl FromStr for SqlPattern {
    type Err = SqlStateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || {
            SqlStateError::new(
                text,
                "a SQLSTATE pattern: five of A-Z, 0-9 and ?, or fewer and a *, such as 08*",
            )
        };
        let (head, open) = match text.strip_suffix('*') {
            Some(head) => (head, true),
            None => (text, false),
        };
        let bytes = head.as_bytes();
        let fits = if open { bytes.len() < 5 } else { bytes.len() == 5 };
        if !fits || !bytes.iter().all(|byte| is_state_byte(*byte) || *byte == b'?') {
            return Err(refuse());
        }
        let mut pattern = [b'?'; 5];
        pattern[..bytes.len()].copy_from_slice(bytes);
        Ok(Self(pattern))
    }
}

impl fmt::Display for SqlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(&self.0).unwrap_or_default();
        match text.trim_end_matches('?') {
            head if text.len() - head.len() > 1 => write!(f, "{head}*"),
            _ => f.write_str(text),
        }
    }
}

impl fmt::Debug for SqlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

as_text!(SqlState, "sqlstate", "a SQLSTATE such as 40P01");
as_text!(SqlPattern, "sqlstate-pattern", "a SQLSTATE, with ? for one character or a final * for the rest");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_what_they_say() {
        let state: SqlState = "57P03".parse().unwrap();
        for (pattern, covers) in
            [("57P03", true), ("57*", true), ("57P0?", true), ("*", true), ("57014", false), ("08*", false)]
        {
            assert_eq!(pattern.parse::<SqlPattern>().unwrap().matches(state), covers, "{pattern}");
        }
    }

    #[test]
    fn patterns_print_as_they_were_read() {
        for text in ["57P03", "57*", "57P0?", "*", "4*"] {
            assert_eq!(text.parse::<SqlPattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in ["", "4000", "400011", "40p01", "40*01", "äää", "*****"] {
            assert!(text.parse::<SqlPattern>().is_err(), "{text}");
            assert!(text.parse::<SqlState>().is_err(), "{text}");
        }
    }
}
