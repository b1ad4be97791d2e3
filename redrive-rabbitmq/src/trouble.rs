//! What an error of the client library means. No secret is in any of them.

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};
use redrive_engine::port::{PortError, Refusal};

use crate::Login;

/// What the broker said no to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum No {
    /// No such queue, exchange or virtual host.
    NotFound,
    /// It is there with other arguments.
    Differs,
    /// The user may not.
    Forbidden,
    /// Somebody else has it for itself.
    Taken,
    /// Something else.
    Other,
}

/// What the broker said no to; nothing when it did not answer.
pub(crate) fn no(error: &Error) -> Option<No> {
    let ErrorKind::ProtocolError(error) = error.kind() else { return None };
    Some(match error.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => No::NotFound,
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => No::Differs,
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
            if error.get_message().as_str().contains("exclusive") { No::Taken } else { No::Forbidden }
        }
        AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => No::Taken,
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => No::NotFound,
        _ => No::Other,
    })
}

/// The text of an error.
pub(crate) fn shown(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => error.get_message().as_str().to_owned(),
        ErrorKind::IOError(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// It may work later.
pub(crate) fn away(doing: &str, error: &Error) -> PortError {
    PortError::Unavailable(format!("{doing}: {}", shown(error)))
}

/// What a question to the broker failed with.
pub(crate) fn asked(doing: &str, error: &Error) -> PortError {
    match no(error) {
        Some(No::Forbidden) => Refusal::State(format!(
            "{doing}: the user may not: {}; `redrive topology plan --permissions` prints what it needs",
            shown(error)
        ))
        .into(),
        Some(No::NotFound) => Refusal::State(format!("{doing}: {}", shown(error))).into(),
        _ => away(doing, error),
    }
}

/// Why there is no connection, with its place and the way out.
pub(crate) fn no_connection(login: &Login, error: &Error) -> PortError {
    let Login { host, port, vhost, user, .. } = login;
    let place = format!("{host}:{port}");
    let away = || PortError::Unavailable(format!("RabbitMQ at {place} does not answer: {}", shown(error)));
    match error.kind() {
        ErrorKind::ProtocolError(said) => {
            let text = said.get_message();
            match said.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if text.as_str().contains("vhost") => Refusal::State(
                    format!("the user `{user}` may not use the virtual host `{vhost}` of RabbitMQ at {place}; grant it with `rabbitmqctl set_permissions`"),
                )
                .into(),
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => Refusal::State(format!(
                    "RabbitMQ at {place} does not let the user `{user}` in; check the user and its password"
                ))
                .into(),
                AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => Refusal::State(format!(
                    "RabbitMQ at {place} has no virtual host `{vhost}` for the user `{user}` ({text}); make it with `rabbitmqctl add_vhost`, or name another"
                ))
                .into(),
                _ => PortError::Unavailable(format!("RabbitMQ at {place} ended the connection: {text}")),
            }
        }
        ErrorKind::IOError(said) => of_encryption(login, said).unwrap_or_else(away),
        _ => away(),
    }
}

/// Whether the other side ended the connection without a word.
pub(crate) fn is_cut(error: &Error) -> bool {
    use std::io::ErrorKind as Io;
    let ErrorKind::IOError(error) = error.kind() else { return false };
    matches!(error.kind(), Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe | Io::UnexpectedEof)
}

/// What the encryption failed over: one side does not take the other's certificate.
pub(crate) fn of_encryption(login: &Login, error: &std::io::Error) -> Option<PortError> {
    use rustls::AlertDescription as Alert;
    let place = format!("{}:{}", login.host, login.port);
    let text = match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(why) => format!(
            "RabbitMQ at {place} shows a certificate that is not to be trusted ({why}); name who vouches for it with `cacertfile`, and the host as the certificate does"
        ),
        rustls::Error::AlertReceived(alert) => match alert {
            Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied => format!(
                "RabbitMQ at {place} does not take the client's certificate ({alert:?}); check `certfile` and `keyfile`, and whom the server trusts"
            ),
            _ => return None,
        },
        _ => return None,
    };
    Some(Refusal::State(text).into())
}
