//! Queues and ledger in one SQLite file.
//!
//! Redrive starts with nothing beside it: no broker, no server. What it then needs is one durable place for both the
//! messages and the record of what failed, where settling a message and writing down why are one transaction.
//! [`Store`] is that place; it implements both ports of the engine.
//!
//! One thread writes and commits in groups; readers look at snapshots beside it. Claims live in memory: a message that
//! succeeds at once costs one insert and one delete, and what a killed process had in hand is handed out again.
//!
//! ```
//! use redrive_engine::port::{Broker, NewMessage, Published};
//! use redrive_sqlite::{Options, Store};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let store = Store::open(folder.path().join("redrive.db"), Options::default())?;
//! let message = NewMessage { id: Some("order-1".into()), body: Some("{}".into()), ..NewMessage::default() };
//! let published = store.publish("orders", vec![message]).await?;
//! assert_eq!(published, [Published::Accepted("order-1".into())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod broker;
mod codec;
mod fault;
mod idempotency;
mod lane_counts;
mod ledger;
mod lock;
mod open;
mod options;
mod publish;
mod reader;
mod reading;
mod schema;
mod settle;
mod source;
mod store;
mod tx;
mod writer;

pub use idempotency::IdempotencyStore;
pub use options::{Durability, OpenError, Options};
pub use store::{QueueSettings, Store};
