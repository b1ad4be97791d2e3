//! SPDX licence expressions: `MIT OR Apache-2.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`, `X WITH exception`.

/// A parsed expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// One licence, with its exception if there is one.
    Licence(String),
    /// Each of them applies.
    All(Vec<Expression>),
    /// One of them is chosen.
    Any(Vec<Expression>),
}

impl Expression {
    /// Reads an expression. A slash is read as `OR`, as older crates write it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut parser = Parser { words: &words, depth: 0 };
        let expression = parser.any()?;
        match parser.words.first() {
            None => Ok(expression),
            Some(word) => Err(format!("unexpected {word} in {text}")),
        }
    }

    /// Whether a choice exists under which every licence that applies is allowed.
    pub(super) fn holds(&self, allowed: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Licence(name) => allowed(name),
            Self::All(parts) => parts.iter().all(|part| part.holds(allowed)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(allowed)),
        }
    }
}

/// No real expression nests deeper; a hostile one must not exhaust the stack.
const MAX_DEPTH: usize = 32;

struct Parser<'a> {
    words: &'a [&'a str],
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.all()?];
        while self.take("OR") {
            parts.push(self.all()?);
        }
        Ok(single_or(parts, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.one()?];
        while self.take("AND") {
            parts.push(self.one()?);
        }
        Ok(single_or(parts, Expression::All))
    }

    fn one(&mut self) -> Result<Expression, String> {
        if self.take("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("too many parentheses".to_owned());
            }
            let inner = self.any()?;
            self.depth -= 1;
            return if self.take(")") { Ok(inner) } else { Err("missing )".to_owned()) };
        }
        let name = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok(Expression::Licence(format!("{name} WITH {exception}")));
        }
        Ok(Expression::Licence(name.to_owned()))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.words.split_first() {
            Some((word, rest)) if !["OR", "AND", "WITH", "(", ")"].contains(word) => {
                self.words = rest;
                Ok(word)
            }
            Some((word, _)) => Err(format!("expected a licence, found {word}")),
            None => Err("expected a licence, found the end".to_owned()),
        }
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

fn single_or(mut parts: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    if parts.len() == 1 { parts.remove(0) } else { many(parts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, allowed: &[&str]) -> bool {
        Expression::parse(text).unwrap().holds(&|licence| allowed.contains(&licence))
    }

    #[test]
    fn one_of_a_choice_is_enough() {
        assert!(holds("MIT OR GPL-3.0", &["MIT"]));
        assert!(holds("GPL-3.0/MIT", &["MIT"]));
        assert!(!holds("GPL-3.0 OR LGPL-3.0", &["MIT"]));
    }

    #[test]
    fn and_binds_tighter_than_or_and_wants_both() {
        assert!(holds("GPL-3.0 AND Zlib OR MIT", &["MIT"]));
        assert!(!holds("(MIT OR Apache-2.0) AND Unicode-3.0", &["MIT"]));
        assert!(holds("(MIT OR Apache-2.0) AND Unicode-3.0", &["MIT", "Unicode-3.0"]));
    }

    #[test]
    fn an_exception_is_part_of_the_name() {
        let text = "Apache-2.0 WITH LLVM-exception OR GPL-3.0";
        assert!(holds(text, &["Apache-2.0 WITH LLVM-exception"]));
        assert!(!holds(text, &["Apache-2.0"]));
    }

    #[test]
    fn nonsense_is_an_error_not_a_pass() {
        for text in ["", "OR MIT", "MIT OR", "MIT Apache-2.0", "(MIT", "MIT)", "MIT WITH"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
        assert!(Expression::parse(&"(".repeat(100_000)).is_err());
    }
}
