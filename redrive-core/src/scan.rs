//! A cursor over a text, shared by the parsers of durations and schedules, that knows where it stands.

use crate::TextError;

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The character after the next one.
    pub(crate) fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    pub(crate) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = rest.find(|c| !accept(c)).map_or(rest, |end| &rest[..end]);
        self.at += taken.len();
        taken
    }

    pub(crate) fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// Steps over white space and `wanted`, if it is there.
    pub(crate) fn eat_spaced(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.eat(wanted)
    }

    /// The word here, without stepping over it.
    pub(crate) fn peek_word(&self) -> &'a str {
        let rest = self.rest();
        rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(rest, |end| &rest[..end])
    }

    /// Steps over `word` in any case of letters, if that is the whole word here.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word().eq_ignore_ascii_case(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// An error at the cursor.
    pub(crate) fn expected(&self, expected: impl Into<String>) -> TextError {
        self.expected_at(self.at, expected)
    }

    /// An error at an earlier place.
    pub(crate) fn expected_at(&self, at: usize, expected: impl Into<String>) -> TextError {
        TextError::new(self.text, at, expected)
    }

    /// A decimal number without a sign, such as `3` or `1.5`.
    pub(crate) fn decimal(&mut self, expected: &str) -> Result<Decimal, TextError> {
        let start = self.at;
        let whole = self.take_while(|c| c.is_ascii_digit());
        if whole.is_empty() {
            return Err(self.expected(expected));
        }
        let point = self.at;
        let mut decimals = "";
        if self.eat('.') {
            decimals = self.take_while(|c| c.is_ascii_digit());
            if decimals.is_empty() {
                return Err(self.expected("a digit after the point"));
            }
        }
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > Decimal::DECIMALS as usize {
            return Err(self.expected_at(point, format!("at most {} decimals", Decimal::DECIMALS)));
        }
        let whole = whole.trim_start_matches('0');
        if whole.len() > Decimal::DIGITS {
            return Err(self.expected_at(start, "a number of at most 15 digits"));
        }
        let digits = format!("0{whole}{decimals:0<width$}", width = Decimal::DECIMALS as usize);
        // At most 25 digits, which a u128 always holds.
        digits.parse().map(Decimal).map_err(|_| self.expected_at(start, expected))
    }
}

/// A number as it was written, in billionths: exact, and never NaN or infinite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal(u128);

impl Decimal {
    const DECIMALS: u32 = 9;
    const DIGITS: usize = 15;

    /// The number times `unit`, if that is whole and fits.
    pub(crate) fn times(self, unit: u64) -> Option<u64> {
        let product = self.0 * u128::from(unit);
        let scale = 10_u128.pow(Self::DECIMALS);
        product.is_multiple_of(scale).then(|| u64::try_from(product / scale).unwrap_or(u64::MAX))
    }
}
