//! What a stretch of text looks like: a number, an id, an address, a path, or a word.

/// What a run of letters and digits is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Kept.
    Word,
    /// A number or an id; so many bytes behind it belong to it too.
    Number { skip: usize },
    /// Digits among letters that say something, as in `utf8`, `35ms` or `Base64Error`.
    Mixed { prefix: usize, suffix: usize },
}

pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// A character that an apostrophe can follow or precede inside a word; the masks stand for words.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '#' | '?')
}

pub(super) fn closing_quote(open: char) -> Option<char> {
    match open {
        '"' | '\'' | '`' => Some(open),
        '“' | '„' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        _ => None,
    }
}

pub(super) fn ends_token(c: char) -> bool {
    is_space(c)
        || closing_quote(c).is_some()
        || matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ';' | '|')
}

/// Where the quotation ends that `inside` follows the opening of.
pub(super) fn find_close(inside: &str, close: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == close {
            let next = inside[at + c.len_utf8()..].chars().next();
            if close != '\'' || !next.is_some_and(is_word) {
                return Some(at);
            }
        }
    }
    None
}

/// Where a URL begins: at its scheme.
pub(super) fn url_start(token: &str) -> Option<usize> {
    let colon = token.find("://")?;
    if colon + 3 == token.len() {
        return None;
    }
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let start = token[..colon]
        .rfind(|c| !is_scheme(c))
        .map_or(0, |at| at + token[at..].chars().next().map_or(1, char::len_utf8));
    (start < colon).then_some(start)
}

pub(super) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '%' | '+');
    let top = domain.rsplit_once('.').map_or("", |(_, top)| top);
    !local.is_empty()
        && local.chars().all(is_part)
        && domain.chars().all(is_part)
        && !domain.starts_with('.')
        && top.len() >= 2
        && top.chars().all(char::is_alphabetic)
}

/// Where a path begins, when there is one: at a slash that follows no word, at a drive or a share, or at the
/// very beginning when two separators join three names.
pub(super) fn path_start(text: &str) -> Option<usize> {
    let mut separators = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        if c == '/' || c == '\\' {
            let next = text[at + 1..].chars().next();
            let leads_on = next.is_some_and(|c| is_word(c) || matches!(c, '.' | '-'));
            let is_drive = at == 2 && before == Some(':') && text.as_bytes()[0].is_ascii_alphabetic();
            let after_word = before.is_some_and(is_word);
            if is_drive && leads_on {
                return Some(0);
            }
            let is_root = if c == '/' { leads_on } else { next == Some('\\') && text.len() > at + 2 };
            if is_root && !after_word {
                return Some(text[..at].trim_end_matches(['.', '~', '/', '\\']).len());
            }
            separators += usize::from(leads_on);
        }
        before = Some(c);
    }
    (separators >= 2).then_some(0)
}

fn hex_run(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_hexdigit).count()
}

fn goes_on(text: &str) -> bool {
    text.chars().next().is_some_and(char::is_alphanumeric)
}

/// The length of a UUID at the beginning of `text`.
pub(super) fn uuid_len(text: &str) -> Option<usize> {
    let mut at = 0;
    for (group, len) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 {
            if text.as_bytes().get(at) != Some(&b'-') {
                return None;
            }
            at += 1;
        }
        if hex_run(&text[at..]) != len {
            return None;
        }
        at += len;
    }
    (!goes_on(&text[at..])).then_some(at)
}

/// The length of an IPv6 address, a hardware address or a time at the beginning of `text`.
pub(super) fn ipv6_len(text: &str) -> Option<usize> {
    let len = text.bytes().take_while(|byte| byte.is_ascii_hexdigit() || *byte == b':').count();
    let (address, after) = text.split_at(len);
    let has_digit = address.bytes().any(|byte| byte.is_ascii_digit());
    let small_groups = address.split(':').all(|group| group.len() <= 4);
    let groups = address.matches(':').count();
    (groups >= 2 && has_digit && small_groups && !address.ends_with(':') && !goes_on(after)).then_some(len)
}

/// What the run of letters and digits `text` is, `after` being what follows it.
pub(super) fn piece(text: &str, after: &str) -> Piece {
    let has_digit = text.chars().any(char::is_numeric);
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && (text.len() >= 16 || has_digit && text.len() >= 8) {
        return Piece::Number { skip: 0 };
    }
    if !has_digit {
        return Piece::Word;
    }
    let prefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    if prefixed.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Piece::Number { skip: 0 };
    }
    let switches = switches(text);
    match (text.starts_with(char::is_numeric), switches.1) {
        (true, 0 | 2..) | (false, 3..) => Piece::Number { skip: 0 },
        (true, 1) => match &text[switches.0[0]..] {
            "Z" => Piece::Number { skip: 0 },
            "e" | "E" => match exponent_len(after) {
                0 => Piece::Mixed { prefix: 0, suffix: switches.0[0] },
                skip => Piece::Number { skip },
            },
            _ => Piece::Mixed { prefix: 0, suffix: switches.0[0] },
        },
        (false, 2) => Piece::Mixed { prefix: switches.0[0], suffix: switches.0[1] },
        (false, _) => Piece::Mixed { prefix: switches.0[0], suffix: text.len() },
    }
}

/// The first two places where digits and letters meet, and how many there are.
fn switches(text: &str) -> ([usize; 2], usize) {
    let mut places = [text.len(); 2];
    let mut count = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let kind = c.is_numeric();
        if before.is_some_and(|before| before != kind) {
            if let Some(place) = places.get_mut(count) {
                *place = at;
            }
            count += 1;
        }
        before = Some(kind);
    }
    (places, count)
}

/// The length of `-5` or `+5` behind a number's `e`.
fn exponent_len(after: &str) -> usize {
    let Some(digits) = after.strip_prefix(['-', '+']) else { return 0 };
    match digits.bytes().take_while(u8::is_ascii_digit).count() {
        0 => 0,
        count => count + 1,
    }
}
