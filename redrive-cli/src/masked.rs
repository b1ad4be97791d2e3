//! A file as it may be shown: a terminal is recorded, shared and photographed, so no secret in the file gets there,
//! and nothing that could make a line look like another one.
//!
//! The file may not even be YAML, so this looks at the text and rather hides too much than too little. Every
//! character stays one character, so that what points into a line still points at the same column.

use std::ops::Range;
use std::sync::LazyLock;

use redrive::core::printable;
use regex::Regex;

/// Parts of names whose values are secrets.
const SECRET: &str = concat!(
    r"pas+w|pass(?:phrase)?\b|pwd|secret|token|credential|authorization|api[_.-]?key|",
    r"(?:access|private|shared|signing)[_.-]?key|[_.]pem\b",
);

static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(r#"(?i)["']?(?P<name>[\w.-]*(?:{SECRET})[\w.-]*)["']?[ \t]*(?P<sign>[:=])[ \t]*"#))
        .ok()
});
static OPTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(r#"(?i)--[\w.-]*(?:{SECRET})[\w.-]*[ \t]+(?P<value>[^\s"']+)"#)).ok()
});
static ENTRY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^\s*["']?[\w.-]+["']?[ \t]*:([ \t\r\n]|$)"#).ok());

/// A text without its secrets.
pub(crate) struct Masked {
    pub(crate) text: String,
    /// Bytes of the original and of the text at which they begin to differ by another number of bytes.
    shifts: Vec<(usize, usize)>,
}

impl Masked {
    pub(crate) fn new(source: &str) -> Self {
        let hidden = secrets(source);
        let mut ahead = hidden.iter().peekable();
        let (mut text, mut shifts) = (String::with_capacity(source.len()), Vec::new());
        for (at, c) in source.char_indices() {
            while ahead.next_if(|range| range.end <= at).is_some() {}
            let shown = match c {
                '\n' | '\t' | '\r' => c,
                _ if ahead.peek().is_some_and(|range| range.contains(&at)) => '*',
                _ => printable(c),
            };
            text.push(shown);
            if shown.len_utf8() != c.len_utf8() {
                shifts.push((at + c.len_utf8(), text.len()));
            }
        }
        Self { text, shifts }
    }

    /// Where a byte of the original stands now.
    pub(crate) fn place(&self, at: usize) -> usize {
        let before = self.shifts.partition_point(|(original, _)| *original <= at);
        let shifted = before.checked_sub(1).map_or(at, |i| {
            let (original, now) = self.shifts[i];
            now + (at - original)
        });
        self.text.floor_char_boundary(shifted.min(self.text.len()))
    }
}

/// The secrets of a text, in order, none within another.
fn secrets(source: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for line in lines(source) {
        in_addresses(source, line, &mut found);
    }
    let addresses = found.len();
    for key in KEY.iter().flat_map(|regex| regex.captures_iter(source)) {
        let (Some(whole), Some(name), Some(sign)) = (key.get(0), key.name("name"), key.name("sign")) else {
            continue;
        };
        let name = name.as_str().to_ascii_lowercase();
        // What is hidden already need not be looked into.
        if found[addresses..].last().is_some_and(|last: &Range<usize>| whole.start() < last.end) {
            continue;
        }
        // The name of a file or of a variable is no secret, and what names it has to be seen to be mended.
        if !["file", "env", "location", "path"].iter().any(|end| name.ends_with(end)) {
            found.extend(value(source, whole.range(), sign.as_str()));
        }
    }
    let options = OPTION.iter().flat_map(|regex| regex.captures_iter(source));
    found.extend(options.filter_map(|option| option.name("value").map(|value| value.range())));
    found.retain(|range| !is_variable(&source[range.clone()]));
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match apart.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => apart.push(range),
        }
    }
    apart
}

/// `${NAME}` alone is where a secret comes from, and not the secret.
fn is_variable(text: &str) -> bool {
    let name = text.trim().strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// The lines without their ends.
fn lines(source: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    source.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        start..start + line.trim_end().len()
    })
}

/// The password of an address, and a token in the user's place, also of one that is not written as it should be.
fn in_addresses(source: &str, line: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut at = line.start;
    while at < line.end {
        let rest = &source[at..line.end];
        let begin = at + (rest.len() - rest.trim_start().len());
        let word = source[begin..line.end].split_whitespace().next().unwrap_or_default();
        let end = begin + word.len();
        at = end.max(at + 1);
        let slashes = ["://", ":/", "//"].into_iter().find_map(|mark| Some((word.find(mark)?, mark.len())));
        let (scheme, user) = slashes.map_or(("", begin), |(at, long)| (&word[..at], begin + at + long));
        if user > begin && !has_named_users(scheme) {
            // A token may stand in either place, or alone.
            if let Some(host) = source[user..end].rfind('@') {
                found.push(user..user + host);
                continue;
            }
        }
        let Some(colon) = source[user..end].find(':').map(|colon| user + colon + 1) else { continue };
        if let Some(host) = source[colon..end].rfind('@') {
            found.push(colon..colon + host);
        } else if user > begin && !word.ends_with([',', '}', ']']) {
            // A space in the password.
            let rest = &source[end..line.end];
            let rest = rest.find(" #").map_or(rest, |comment| &rest[..comment]);
            found.extend(rest.rfind('@').map(|host| colon..end + host));
        }
    }
}

/// Whether the user of such an address is a name and no secret.
fn has_named_users(scheme: &str) -> bool {
    ["amqp", "amqps", "postgres", "postgresql"].iter().any(|known| {
        let before = scheme.strip_suffix(known);
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_ascii_alphanumeric()))
    })
}

/// The value behind a key, however it is written.
fn value(source: &str, key: Range<usize>, sign: &str) -> Option<Range<usize>> {
    let begin = key.end;
    let rest = &source[begin..];
    let line = rest.find('\n').map_or(rest, |end| &rest[..end]).trim_end();
    let line_begin = source[..key.start].rfind('\n').map_or(0, |end| end + 1);
    let to = |end: usize| Some(begin..begin + end);
    match line.chars().next() {
        None | Some('|' | '>' | '#') => block(source, line_begin, begin, line.starts_with(['|', '>'])),
        Some('{') => None,
        Some(quote @ ('"' | '\'')) => {
            let inner = &rest[1..];
            let end = closing(inner, quote).unwrap_or(line.len() - 1);
            Some(begin + 1..begin + 1 + end)
        }
        Some(_) if sign == "=" => to(line.find(['&', ' ', '\t', '"', '\'']).unwrap_or(line.len())),
        Some('[') => to(line.len()),
        Some(_) => {
            // Behind another entry it is one of a map on a line, where a comma ends it.
            let before = source[line_begin..key.start].trim_start_matches([' ', '\t', '-', '#', '"', '\'']);
            if before.contains(['{', '[', ',']) {
                return to(line.find([',', '}', ']']).unwrap_or(line.len()));
            }
            to(line.find(" #").unwrap_or(line.len()))
        }
    }
}

/// Where a quote closes: not behind a backslash in double quotes, not doubled in single ones.
fn closing(inner: &str, quote: char) -> Option<usize> {
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote && (quote == '"' || chars.next_if(|(_, next)| *next == quote).is_none()) {
            return Some(at);
        }
    }
    None
}

/// The lines under a key that are indented deeper, unless they are entries of a map.
fn block(source: &str, line_begin: usize, begin: usize, is_scalar: bool) -> Option<Range<usize>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let key_indent = indent(&source[line_begin..]);
    let first = begin + source[begin..].find('\n')? + 1;
    let is_map = !is_scalar && ENTRY.as_ref().is_some_and(|regex| regex.is_match(&source[first..]));
    let mut end = first;
    let inner = source[first..].split_inclusive('\n');
    for line in inner.take_while(|line| !is_map && (line.trim().is_empty() || indent(line) > key_indent)) {
        end += line.len();
    }
    (!source[first..end].trim().is_empty()).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(source: &str) -> String {
        Masked::new(source).text
    }

    #[test]
    fn passwords_of_addresses_are_hidden_wherever_they_stand() {
        for (source, shown) in [
            ("data: postgres://u:hunter2@db/x", "data: postgres://u:*******@db/x"),
            ("- amqps://u:hun@ter/2@h:5671/v", "- amqps://u:*********@h:5671/v"),
            ("{\"a\":\"amqp://u:hunter2@h\"}", "{\"a\":\"amqp://u:*******@h\"}"),
            ("data: 'postgres://u:hunter 2@db' # x@y", "data: 'postgres://u:********@db' # x@y"),
            ("# was amqp:/u:hunter2@h", "# was amqp:/u:*******@h"),
            ("from: postgres//u:hunter2@h", "from: postgres//u:*******@h"),
            ("exec:./h http://u:hunter2@h", "exec:./h http://*********@h"),
            ("to: https://hunter2@h/x", "to: https://*******@h/x"),
            ("to: https://hunter2:@h/x", "to: https://********@h/x"),
            ("to: https//hunter2@h", "to: https//*******@h"),
            ("{to: \"https:/hunter2@h\"}", "{to: \"https:/*******@h\"}"),
        ] {
            assert_eq!(masked(source), shown);
        }
        for plain in
            ["from: postgres://u@db:5432/x", "{ to: http://h:80/, owner: a@b }", "at: http://h:80 # a@b"]
        {
            assert_eq!(masked(plain), plain);
        }
    }

    #[test]
    fn values_of_secret_keys_are_hidden_however_they_are_written() {
        for (source, shown) in [
            ("sasl.password: hunter2 # old", "sasl.password: ******* # old"),
            ("{ sasl.password: hunter2, a: 1 }", "{ sasl.password: *******, a: 1 }"),
            ("password:hunter2", "password:*******"),
            ("pasword: hunter, 2}", "pasword: **********"),
            ("Secret: \"hun\\\"ter\n2\" b", "Secret: \"********\n*\" b"),
            ("api_key: 'hun''ter2', b: 1", "api_key: '*********', b: 1"),
            ("token: 'unclosed", "token: '********"),
            ("{\"client.secret\":\"hunter2\",\"a\":1}", "{\"client.secret\":\"*******\",\"a\":1}"),
            ("tokens: [a, b]", "tokens: ******"),
            ("ssl.key.pem: |\n  hun\n  ter2\na: 1", "ssl.key.pem: |\n*****\n******\na: 1"),
            ("  password:\n    hunter2\n  a: 1", "  password:\n***********\n  a: 1"),
            ("kafka://h/t?sasl.password=hunter2&group=g", "kafka://h/t?sasl.password=*******&group=g"),
            ("exec:./h --password hunter2 --token=x y", "exec:./h --password ******* --token=* y"),
        ] {
            assert_eq!(masked(source), shown);
        }
        for plain in [
            "password_file: /run/secrets/kafka",
            "secret_env: ORDERS_SECRET",
            "password: ${KAFKA}",
            "password: \"${KAFKA}\"",
            "policies:\n  token-refresh:\n    retry: 1s",
            "  secrets: { a: 1 }",
        ] {
            assert_eq!(masked(plain), plain);
        }
    }

    #[test]
    fn columns_and_places_stay_right() {
        let source = "a: \u{ad}ä\u{1b}\u{202e}\npassword: hüntér\nb: ü!";
        let shown = Masked::new(source);
        assert_eq!(shown.text, "a: \u{fffd}ä\u{fffd}\u{fffd}\npassword: ******\nb: ü!");
        for (at, c) in source.char_indices().filter(|(_, c)| matches!(c, ':' | '!' | 'ä' | 'b' | '\n')) {
            assert!(shown.text[shown.place(at)..].starts_with(c), "{at} {c:?}");
        }
        assert_eq!(shown.place(source.len()), shown.text.len());
    }
}
