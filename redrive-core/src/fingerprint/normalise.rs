//! Masks what differs between two failures of the same kind.
//!
//! Two masks are enough: `#` for numbers and ids of every kind, `?` for quoted values, paths and addresses. Both
//! are one byte, so masking never makes a text longer.

use super::shape::{self, Piece};

/// What is read of an error's message, in bytes.
pub const MESSAGE_LIMIT: usize = 2048;

/// The message with numbers, ids, UUIDs, hexadecimal, times and IP addresses as `#`; quoted values, paths, URLs and
/// mail addresses as `?`; white space as one space.
///
/// Only the first 2 KiB are read; a longer message is cut at white space, and a quotation that the cut opened is
/// masked to its end. Normalising twice is normalising once: a pass is repeated until it changes nothing, which
/// is nearly always after the first, and ends because a pass that changes something shortens or masks.
///
/// ```
/// use redrive_core::fingerprint::normalise;
///
/// let message = r#"POST https://api/orders/7 from 10.0.0.1:8080: "Anna" not found, id=3f2a9c1e07, took 35ms"#;
/// assert_eq!(normalise(message), "POST ? from #: ? not found, id=#, took #ms");
/// ```
pub fn normalise(message: &str) -> String {
    let head = &message[..message.floor_char_boundary(MESSAGE_LIMIT)];
    let is_cut = head.len() < message.len();
    let head = match head.rfind(char::is_whitespace) {
        Some(at) if is_cut => &head[..at],
        _ => head,
    };
    let mut text = Pass::over(head, is_cut);
    loop {
        let again = Pass::over(&text, false);
        if again == text {
            return text;
        }
        text = again;
    }
}

struct Pass<'a> {
    rest: &'a str,
    is_cut: bool,
    /// Quotation marks known to have no partner in the rest, so that none is looked for twice.
    alone: [Option<char>; 8],
    out: String,
}

impl<'a> Pass<'a> {
    fn over(text: &'a str, is_cut: bool) -> String {
        let mut pass = Self { rest: text, is_cut, alone: [None; 8], out: String::with_capacity(text.len()) };
        while let Some(first) = pass.rest.chars().next() {
            pass.step(first);
        }
        pass.out.truncate(pass.out.trim_end().len());
        pass.out
    }

    fn ends_in_word(&self) -> bool {
        self.out.chars().next_back().is_some_and(shape::is_word)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn step(&mut self, first: char) {
        if shape::is_space(first) {
            if !self.out.is_empty() && !self.out.ends_with(' ') {
                self.out.push(' ');
            }
            self.skip(first.len_utf8());
        } else if let Some(close) = shape::closing_quote(first) {
            self.quotation(first, close);
        } else {
            let end = self.rest.find(shape::ends_token).unwrap_or(self.rest.len());
            if end == 0 {
                self.out.push(first);
                self.skip(first.len_utf8());
            } else {
                let token = &self.rest[..end];
                self.skip(end);
                self.token(token);
            }
        }
    }

    fn quotation(&mut self, open: char, close: char) {
        let inside = &self.rest[open.len_utf8()..];
        // An apostrophe inside a word opens nothing.
        let opens = open != '\'' || !self.ends_in_word();
        if opens && !self.alone.contains(&Some(open)) {
            if let Some(end) = shape::find_close(inside, close) {
                self.out.push('?');
                self.skip(open.len_utf8() + end + close.len_utf8());
                return;
            }
            if self.is_cut && open != '\'' {
                self.out.push('?');
                self.rest = "";
                return;
            }
            if let Some(free) = self.alone.iter_mut().find(|alone| alone.is_none()) {
                *free = Some(open);
            }
        }
        self.out.push(open);
        self.skip(open.len_utf8());
    }

    /// A run without white space, quotation marks and brackets.
    fn token(&mut self, token: &str) {
        let body = token.trim_end_matches(['.', ':', '!', '?']);
        if let Some(start) = shape::url_start(body) {
            self.segments(&body[..start]);
            self.out.push('?');
        } else {
            self.segments(body);
        }
        self.out.push_str(&token[body.len()..]);
    }

    /// The sides of `name=value&name=value`.
    fn segments(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(['=', '&']) {
            self.segment(&rest[..at]);
            self.out.push_str(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        self.segment(rest);
    }

    fn segment(&mut self, text: &str) {
        if shape::is_email(text) {
            self.out.push('?');
        } else if let Some(start) = shape::path_start(text) {
            self.pieces(&text[..start]);
            self.out.push('?');
        } else {
            self.pieces(text);
        }
    }

    /// Words, numbers and what joins them.
    fn pieces(&mut self, text: &str) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            // `main.rs:12:34` is no address: a colon begins one only where no word stands before it.
            let may_begin = first != ':' || !self.ends_in_word();
            let address = if may_begin { shape::ipv6_len(rest) } else { None };
            if let Some(len) = shape::uuid_len(rest).or(address) {
                self.number();
                rest = &rest[len..];
                continue;
            }
            let len = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            if len == 0 {
                self.out.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let (piece, after) = rest.split_at(len);
            rest = after;
            match shape::piece(piece, after) {
                Piece::Word => self.out.push_str(piece),
                Piece::Number { skip } => {
                    self.number();
                    rest = &after[skip..];
                }
                Piece::Mixed { prefix, suffix } => {
                    self.out.push_str(&piece[..prefix]);
                    self.number();
                    self.out.push_str(&piece[suffix..]);
                }
            }
        }
    }

    /// Writes `#`, taking together what belongs to one number: `#.#`, `#-#`, `#,#`, a sign.
    fn number(&mut self) {
        if self.out.ends_with('#') {
            return;
        }
        let Some(joint) = self.out.chars().next_back() else {
            self.out.push('#');
            return;
        };
        let before = &self.out[..self.out.len() - joint.len_utf8()];
        if matches!(joint, '-' | '.' | ':' | '+' | '_' | ',') && before.ends_with('#') {
            self.out.pop();
            return;
        }
        if matches!(joint, '-' | '+') && !before.chars().next_back().is_some_and(shape::is_word) {
            self.out.pop();
        }
        self.out.push('#');
    }
}
