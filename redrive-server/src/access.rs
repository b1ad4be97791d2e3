//! Who may call, checked before anything else looks at a request.
//!
//! A listener on loopback is reachable by every web page that its owner's browser opens. A page cannot read the
//! token, but it can send requests; so a request over TCP must name this listener as its `Host` (a page that points
//! its own name at 127.0.0.1 does not), must not carry another site's `Origin`, and must have the token. There is no
//! CORS: no page of another origin may read an answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};

use crate::codes;
use crate::problem::{Problem, brief};
use crate::token::Token;

/// How a request came. The listener and the client say it; nothing in a request can.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    /// Over TCP.
    Network {
        /// This side of the connection.
        local: SocketAddr,
        /// The other side.
        remote: SocketAddr,
    },
    /// Over the socket in the data folder, or from this process.
    Local,
}

/// Under which name the caller stands in the audit unless the request names somebody.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) String);

/// What opens the API.
#[derive(Debug, Clone, Default)]
pub struct Access {
    token: Option<Token>,
    hosts: Vec<String>,
}

impl Access {
    /// This token, for callers over TCP.
    pub fn token(token: Token) -> Self {
        Self { token: Some(token), hosts: Vec::new() }
    }

    /// Nothing: only callers of this process and of the socket come in.
    pub fn local() -> Self {
        Self::default()
    }

    /// Also answers to these host names: the machine's own, or the one that a proxy passes on. Loopback names and
    /// the address that is listened on need not be given.
    #[must_use]
    pub fn hosts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.hosts.extend(names);
        self
    }
}

pub(crate) fn guard(router: Router, access: Access) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(access), check))
}

async fn check(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    let mut response = match access.admit(&request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => {
            tracing::debug!(code = %problem.code(), why = problem.message(), "request refused");
            problem.into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"));
    response
}

impl Access {
    fn admit(&self, request: &Request) -> Result<Caller, Problem> {
        let path = request.uri().path();
        if matches!(path, "/healthz" | "/readyz") {
            return Ok(Caller("anyone".into()));
        }
        let peer = request.extensions().get::<Peer>().copied();
        if let Some(Peer::Local) = peer {
            return Ok(Caller("local".into()));
        }
        let local = match peer {
            Some(Peer::Network { local, .. }) => Some(local.ip()),
            _ => None,
        };
        let host = self.own_host(request.uri(), request.headers(), local)?;
        same_origin(request.headers(), &host)?;
        if path == "/metrics" && peer.is_some_and(is_loopback) {
            return Ok(Caller("anyone".into()));
        }
        let Some(given) = bearer(request.headers()) else {
            return Err(Problem::new(codes::NO_TOKEN, "a token is needed").help(
                "send `Authorization: Bearer` with $REDRIVE_TOKEN or what stands in the file `token` of the data folder",
            ));
        };
        match &self.token {
            Some(token) if token.fits(given) => Ok(Caller(token.name().to_owned())),
            _ => Err(Problem::new(codes::NO_TOKEN, "this is not the token")
                .help("the token stands in the file `token` of the data folder, unless $REDRIVE_TOKEN was set at the start")),
        }
    }

    /// The one host that the request names, when it is this listener's.
    fn own_host(&self, uri: &Uri, headers: &HeaderMap, local: Option<IpAddr>) -> Result<String, Problem> {
        let refuse = |found: &str| {
            Problem::new(codes::FOREIGN, format!("`{}` is not the host of this listener", brief(found)))
                .help("call it by its address or as localhost; other names are allowed by name only")
        };
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(refuse(""));
        };
        let host = host.to_str().map_err(|_| refuse("?"))?;
        // A request in absolute form names the host twice.
        for name in [Some(host), uri.authority().map(Authority::as_str)].into_iter().flatten() {
            if !self.is_own(name, local) {
                return Err(refuse(name));
            }
        }
        Ok(host.to_owned())
    }

    fn is_own(&self, authority: &str, local: Option<IpAddr>) -> bool {
        let Ok(parsed) = authority.parse::<Authority>() else { return false };
        if authority.contains('@') {
            return false;
        }
        let name = parsed.host();
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<IpAddr>() {
            Ok(ip) => {
                ip.is_loopback() || local.is_some_and(|local| local.to_canonical() == ip.to_canonical())
            }
            Err(_) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
            }
        }
    }
}

/// A browser says which page sends; only this listener's own may.
fn same_origin(headers: &HeaderMap, host: &str) -> Result<(), Problem> {
    for origin in headers.get_all(header::ORIGIN) {
        let own = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            let shown = brief(&String::from_utf8_lossy(origin.as_bytes()));
            return Err(Problem::new(codes::FOREIGN, format!("a page of `{shown}` may not call this")));
        }
    }
    Ok(())
}

fn is_loopback(peer: Peer) -> bool {
    match peer {
        Peer::Local => true,
        Peer::Network { local, remote } => {
            local.ip().to_canonical().is_loopback() && remote.ip().to_canonical().is_loopback()
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_hosts_are_loopback_the_local_address_and_the_named() {
        let access = Access::local().hosts(["Redrive.internal".to_owned()]);
        let local = Some("10.1.2.3".parse().unwrap());
        for own in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:7337",
            "127.9.9.9",
            "[::1]:7337",
            "10.1.2.3:80",
            "redrive.INTERNAL:7337",
        ] {
            assert!(access.is_own(own, local), "{own}");
        }
        for foreign in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "10.1.2.4",
            "user@localhost",
            "localhost:1:2",
            "local host",
            "[::2]",
        ] {
            assert!(!access.is_own(foreign, local), "{foreign}");
        }
    }

    #[test]
    fn only_the_own_origin_may_send() {
        let mut headers = HeaderMap::new();
        assert!(same_origin(&headers, "localhost:7337").is_ok());
        for (origin, fine) in [
            ("http://localhost:7337", true),
            ("http://LOCALHOST:7337", true),
            ("http://localhost:3000", false),
            ("http://127.0.0.1:7337", false),
            ("null", false),
            ("", false),
            ("http://evil.example", false),
        ] {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(same_origin(&headers, "localhost:7337").is_ok(), fine, "{origin}");
        }
    }
}
