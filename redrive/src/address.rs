//! Sources and handlers as one-line addresses, so that a flow fits on a command line.
//!
//! Addresses carry credentials. None of the types here prints one: `Debug` and `Display` show `***` in its place,
//! and the password itself has to be asked for by name.

mod amqp;
mod authority;
mod handler;
mod secret;
mod source;
mod text;

pub use amqp::AmqpAddress;
pub use handler::{HandlerAddress, split_words};
pub use secret::Secret;
pub use source::{KafkaAddress, PostgresAddress, SourceAddress};
pub use text::AddressText;

pub(crate) use authority::host_and_port;
