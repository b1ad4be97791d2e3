//! The parts that all addresses with `://` share: user, password, host, port, path and parameters.

use std::collections::BTreeMap;
use std::fmt::Write;

use redrive_core::TextError;

use super::Secret;

/// An address cut into its parts, each still with its place in the text.
pub(super) struct Parts<'a> {
    pub(super) text: &'a str,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    /// Where the hosts begin.
    pub(super) host_at: usize,
    pub(super) hosts: &'a str,
    /// Where the path begins, without its `/`.
    pub(super) path_at: usize,
    pub(super) path: Option<&'a str>,
    /// The parameters, in the order of their names.
    pub(super) parameters: BTreeMap<String, String>,
}

impl<'a> Parts<'a> {
    /// Cuts what follows `scheme://`, which ends at byte `start`.
    pub(super) fn cut(text: &'a str, start: usize) -> Result<Self, TextError> {
        if let Some(at) = text.find(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(TextError::new(text, at, "no white space in an address"));
        }
        let rest = &text[start..];
        let authority_end = start + rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = &text[start..authority_end];
        let (credentials, host_at) = match authority.rfind('@') {
            Some(at) => (Some(&authority[..at]), start + at + 1),
            None => (None, start),
        };
        let (user, password) = match credentials
            .map(|text| text.split_once(':').map_or((text, None), |(u, p)| (u, Some(p))))
        {
            Some((user, password)) => (Some(decode(user)), password.map(|text| Secret::new(decode(text)))),
            None => (None, None),
        };
        let query_at = text[authority_end..].find('?').map(|at| authority_end + at);
        let path_end = query_at.unwrap_or(text.len());
        let path = text[authority_end..path_end].strip_prefix('/');
        let mut parameters = BTreeMap::new();
        if let Some(query_at) = query_at {
            let mut at = query_at + 1;
            for pair in text[at..].split('&') {
                let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                    return Err(TextError::new(text, at, "a parameter such as name=value"));
                };
                if parameters.insert(decode(name), decode(value)).is_some() {
                    return Err(TextError::new(text, at, "each parameter once"));
                }
                at += pair.len() + 1;
            }
        }
        Ok(Self {
            text,
            user,
            password,
            host_at,
            hosts: &text[host_at..authority_end],
            path_at: (authority_end + 1).min(path_end),
            path,
            parameters,
        })
    }

    /// Exactly one host, checked, with its port.
    pub(super) fn host(&self) -> Result<(String, Option<u16>), TextError> {
        host_and_port(self.text, self.host_at, self.hosts)
    }

    pub(super) fn end(&self, expected: &str) -> TextError {
        TextError::new(self.text, self.text.len(), expected)
    }
}

/// Reads `host`, `host:port` or `[v6]:port`, which stands at byte `at` of `text`.
pub(crate) fn host_and_port(text: &str, at: usize, host: &str) -> Result<(String, Option<u16>), TextError> {
    let bracket_end = if host.starts_with('[') { host.find(']') } else { None };
    let (name, port) = match bracket_end {
        Some(end) => (&host[..=end], &host[end + 1..]),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let known = match bracket_end {
        Some(end) => host[1..end].parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.chars().all(is_name),
    };
    if !known {
        return Err(TextError::new(text, at, "a host"));
    }
    if port.is_empty() {
        return Ok((name.to_owned(), None));
    }
    let number = port.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
    match number {
        Some(number) => Ok((name.to_owned(), Some(number))),
        None => Err(TextError::new(text, at + name.len(), "`:` and a port from 1 to 65535")),
    }
}

/// Undoes percent-encoding; what is no valid escape stays as it is.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at..at + 3).filter(|escape| escape[0] == b'%');
        let byte = escape
            .and_then(|escape| std::str::from_utf8(&escape[1..]).ok())
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = byte {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// Writes a text so that [`decode`] reads it back, whatever stands in it.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b',' | b':') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
