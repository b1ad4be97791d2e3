//! What a call leaves that got no answer at all.
//!
//! Whatever breaks between here and the endpoint is no message's fault, so every such error gets a kind that the
//! rules know as a connection's. An expired certificate, for one, comes as "invalid data", and would else park
//! every message as unreadable.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;
use redrive_core::Failure;
use redrive_core::classify::IoKind;

use super::client::ConnectTimeout;
use super::private::ResolveError;
use crate::handler::ENDPOINT_MISCONFIGURED;

pub(super) fn failure(error: &legacy::Error, target: &str) -> Failure {
    let chain = || std::iter::successors(Some(error as &(dyn Error + 'static)), |link| (*link).source());
    let root = chain().last().map(ToString::to_string).unwrap_or_default();
    let what = if error.is_connect() { "no connection to" } else { "no answer from POST" };
    let mut failure = Failure::from_message(format!("{what} {target}: {root}")).with_type("http");
    for link in chain() {
        failure = failure.with_cause("", link.to_string());
        if link.is::<ConnectTimeout>() {
            failure = failure.with_timed_out();
        }
        if matches!(link.downcast_ref(), Some(ResolveError::Private { .. })) {
            failure = failure.with_type(ENDPOINT_MISCONFIGURED);
        }
    }
    // What the system says is more exact than what the library makes of it.
    let kind =
        chain().find_map(kind_of).or_else(|| chain().any(is_closed).then_some(IoKind::ConnectionReset));
    failure.with_io(kind.unwrap_or(IoKind::ConnectionAborted))
}

fn kind_of(link: &(dyn Error + 'static)) -> Option<IoKind> {
    if link.is::<ConnectTimeout>() {
        return Some(IoKind::TimedOut);
    }
    if link.is::<ResolveError>() {
        return Some(IoKind::HostUnreachable);
    }
    link.downcast_ref::<io::Error>().map(|error| connection_kind(error.kind()))
}

fn is_closed(link: &(dyn Error + 'static)) -> bool {
    link.downcast_ref::<hyper::Error>()
        .is_some_and(|error| error.is_incomplete_message() || error.is_canceled() || error.is_closed())
}

fn connection_kind(kind: io::ErrorKind) -> IoKind {
    match IoKind::from(kind) {
        known @ (IoKind::ConnectionRefused
        | IoKind::ConnectionReset
        | IoKind::ConnectionAborted
        | IoKind::NotConnected
        | IoKind::BrokenPipe
        | IoKind::HostUnreachable
        | IoKind::NetworkUnreachable
        | IoKind::NetworkDown
        | IoKind::TimedOut
        | IoKind::UnexpectedEof) => known,
        _ => IoKind::ConnectionAborted,
    }
}
