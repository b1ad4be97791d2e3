//! Servers that somebody else runs, named in the environment.

use super::protocol::Kind;

/// The address of a server to use instead of starting one, such as `REDRIVE_TEST_KAFKA=localhost:9092`.
pub(super) fn address(kind: Kind) -> Option<String> {
    std::env::var(variable(kind)).ok().filter(|address| !address.trim().is_empty())
}

/// The variable that names it.
pub(super) fn variable(kind: Kind) -> &'static str {
    match kind {
        Kind::Kafka => "REDRIVE_TEST_KAFKA",
        Kind::Rabbitmq => "REDRIVE_TEST_RABBITMQ",
        Kind::Postgres => "REDRIVE_TEST_POSTGRES",
    }
}
