//! One way to say where a text went wrong, so that every parser points at the character in the same words.

use std::fmt;

/// How much of the text an error keeps, in bytes.
const KEPT: usize = 1024;
/// How much text stands to each side of the caret, in characters.
const SHOWN: usize = 60;

/// A text that could not be read: where, what was expected there, and what stood there instead.
///
/// ```
/// use redrive_core::duration;
///
/// let error = duration::parse("1m30x").unwrap_err();
/// assert!(error.to_string().ends_with("(us, ms, s, m, h, d or w) at character 5, found `x`"));
/// assert_eq!(error.caret().to_string(), "1m30x\n    ^");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The part of the text that is kept, at most 1 KB around the place.
    kept: String,
    /// Bytes of the text before the part that is kept.
    skipped: usize,
    /// Where in the whole text, in bytes.
    at: usize,
    /// Where in the whole text, in characters, counted from 1.
    character: usize,
    expected: String,
    found: String,
}

impl TextError {
    /// An error at byte `at` of `input`; what was found there is read from the input.
    ///
    /// An offset inside a character counts as its beginning, one past the end as the end.
    pub fn new(input: &str, at: usize, expected: impl Into<String>) -> Self {
        let at = boundary_before(input, at.min(input.len()));
        let skipped =
            if input.len() <= KEPT { 0 } else { boundary_before(input, at.saturating_sub(KEPT / 2)) };
        let kept_end = boundary_before(input, (skipped + KEPT).min(input.len()));
        Self {
            kept: input[skipped..kept_end].to_owned(),
            skipped,
            at,
            character: input[..at].chars().count() + 1,
            expected: expected.into(),
            found: token(&input[at..]),
        }
    }

    /// The text that was read, cut to at most 1 KB around the place.
    pub fn input(&self) -> &str {
        &self.kept
    }

    /// The place in the whole text: a byte offset on a character's boundary.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The place in the whole text as people count it: in characters, from 1.
    pub fn character(&self) -> usize {
        self.character
    }

    /// What was expected at that place.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What stood there instead; empty at the end of the text.
    pub fn found(&self) -> &str {
        &self.found
    }

    /// Two lines: the text (or the part of it around the place) and a caret under the character.
    pub fn caret(&self) -> impl fmt::Display {
        Caret(self)
    }
}

fn boundary_before(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// What a person would call the thing at the beginning of `rest`: a word, or one sign.
fn token(rest: &str) -> String {
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '/' | ':' | '-' | '%' | '+');
    match rest.chars().next() {
        None => String::new(),
        Some(c) if in_word(c) => rest.chars().take_while(|&c| in_word(c)).take(32).collect(),
        Some(c) => printable(c).to_string(),
    }
}

/// A character that keeps its column on a terminal: it starts no control sequence, has a width, and does not turn
/// around what stands beside it. White space is a space, and what cannot be shown is U+FFFD.
///
/// ```
/// use redrive_core::printable;
///
/// let text: String = "ä\u{1b}\u{202e}\tb".chars().map(printable).collect();
/// assert_eq!(text, "ä\u{fffd}\u{fffd} b");
/// ```
pub fn printable(c: char) -> char {
    if c.is_whitespace() {
        ' '
    } else if c.is_control() || is_format(c) {
        '\u{fffd}'
    } else {
        c
    }
}

/// Whether a character is invisible and changes how others are shown (Unicode's general category Cf): marks that
/// reverse the direction of writing, joiners, tags, the byte order mark. On a terminal they let a text look like
/// another one.
const fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at character {}, found ", self.expected, self.character)?;
        if self.found.is_empty() { f.write_str("the end") } else { write!(f, "`{}`", self.found) }
    }
}

impl std::error::Error for TextError {}

struct Caret<'a>(&'a TextError);

impl fmt::Display for Caret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.0;
        let (before, after) = error.kept.split_at(error.at - error.skipped);
        let hidden = before.chars().count().saturating_sub(SHOWN);
        let cut_left = hidden > 0 || error.skipped > 0;
        let mut column = 0;
        if cut_left {
            f.write_str("…")?;
            column += 1;
        }
        for c in before.chars().skip(hidden) {
            write!(f, "{}", printable(c))?;
            column += 1;
        }
        for c in after.chars().take(SHOWN) {
            write!(f, "{}", printable(c))?;
        }
        if after.chars().nth(SHOWN).is_some() {
            f.write_str("…")?;
        }
        write!(f, "\n{:column$}^", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_small_and_in_place_in_a_long_text() {
        let text = "ä".repeat(5000);
        let error = TextError::new(&text, 6001, "an a");
        assert_eq!((error.at(), error.character()), (6000, 3001));
        assert!(error.input().len() <= KEPT);
        let lines = error.caret().to_string();
        assert_eq!(lines.lines().next().map(|line| line.chars().count()), Some(2 * SHOWN + 2));
        assert_eq!(lines.lines().nth(1), Some(format!("{:61}^", "").as_str()));
    }

    #[test]
    fn shows_no_control_characters() {
        let error = TextError::new("a\u{1b}[31m\n", 1, "b");
        assert_eq!(error.to_string(), "expected b at character 2, found `\u{fffd}`");
        assert_eq!(error.caret().to_string(), "a\u{fffd}[31m \n ^");
    }

    #[test]
    fn shows_nothing_that_turns_a_text_around() {
        for c in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{200b}', '\u{feff}', '\u{ad}', '\u{e0041}'] {
            let error = TextError::new(&format!("a{c}b"), 1, "b");
            assert_eq!(error.to_string(), "expected b at character 2, found `\u{fffd}`", "{c:?}");
            assert_eq!(error.caret().to_string(), "a\u{fffd}b\n ^", "{c:?}");
        }
    }

    #[test]
    fn an_offset_past_the_end_is_the_end() {
        assert_eq!(TextError::new("ab", 9, "c").to_string(), "expected c at character 3, found the end");
    }
}
