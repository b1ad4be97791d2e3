//! A projector: events of orders become rows that can be queried, each row written with optimistic locking.
//!
//! Two events of one order may be handled at the same time. Both read the row at one version, and only one of them can
//! write the next; the other finds the version moved on. That is contention: nothing is wrong, and the same thing done
//! again a moment later works. So it is retried in place, with the message still in hand, and leaves no trace in the
//! ledger. An event that cannot be read is another matter, and is parked for a person.
//!
//! Delivery is at least once, so the projector also writes down which events it has applied, in the transaction that
//! applies them.
//!
//! ```sh
//! cargo run -p redrive --example order_projector
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive::engine::port::{EntryState, Ledger as _};
use redrive::{Class, Context, Flow, Message, NewMessage};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize;
use tokio::sync::Barrier;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Events of one order that are handled at the same time.
pub const EVENTS: u32 = 8;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let outcome = run(folder.path()).await?;
    println!("order 1001 is at version {} with {} cents", outcome.version, outcome.cents);
    println!("{} conflicts were retried in place", outcome.conflicts);
    println!("in the ledger: {} parked, {} others", outcome.parked, outcome.others);
    Ok(())
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Writes of the order's row.
    pub version: i64,
    /// What the order costs.
    pub cents: i64,
    /// Writes that came too late.
    pub conflicts: u32,
    /// Entries of the ledger that wait for a person.
    pub parked: u64,
    /// All other entries.
    pub others: u64,
}

/// Projects the events of one order.
pub async fn run(folder: &Path) -> Result<Outcome, BoxError> {
    let orders = Arc::new(Orders::open(&folder.join("orders.db"))?);
    let projector = Arc::clone(&orders);
    let instance = Flow::from("queue:order-events")
        .data(folder.join("redrive.db"))
        .local("2ms x30 jitter full")
        .on::<Moved>(Class::Contention, "OPTIMISTIC_LOCK_CONFLICT")
        .park_on::<serde_json::Error>("BAD_PAYLOAD")
        .handle(move |message: Message, cx: Context| {
            let orders = Arc::clone(&projector);
            async move { orders.project(&message, &cx).await }
        })
        .start()
        .await?;
    for number in 1..=EVENTS {
        let body = format!(r#"{{ "order": 1001, "added_cents": {} }}"#, number * 100);
        instance.publish("order-events", event(&format!("line-{number}"), &body)).await?;
    }
    instance.publish("order-events", event("torn", r#"{ "order": 1001, "added_c"#)).await?;
    instance.idle(Duration::from_millis(100)).await;

    let ledger = instance.store().counts().await?;
    let count = |parked: bool| {
        let states = ledger.states.iter().filter(|one| (one.state == EntryState::Parked) == parked);
        states.map(|one| one.count).sum()
    };
    let (version, cents) = orders.read(1001)?;
    let conflicts = orders.conflicts.load(Ordering::Relaxed);
    let outcome = Outcome { version, cents, conflicts, parked: count(true), others: count(false) };
    instance.stop(std::future::pending()).await;
    Ok(outcome)
}

fn event(id: &str, body: &str) -> NewMessage {
    NewMessage { id: Some(id.to_owned()), body: Some(body.to_owned().into()), ..NewMessage::default() }
}

#[derive(Deserialize)]
struct LineAdded {
    order: i64,
    added_cents: i64,
}

/// The row is not at the version any more at which it was read.
#[derive(Debug, thiserror::Error)]
#[error("order {0} has moved on from version {1}")]
struct Moved(i64, i64);

/// The rows that are queried.
struct Orders {
    sql: Mutex<Connection>,
    conflicts: AtomicU32,
    /// So that the first attempts really meet.
    together: Barrier,
}

impl Orders {
    fn open(file: &Path) -> Result<Self, BoxError> {
        let sql = Connection::open(file)?;
        sql.execute_batch(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, cents INTEGER NOT NULL);
             CREATE TABLE applied (event TEXT PRIMARY KEY);
             INSERT INTO orders VALUES (1001, 0, 0);",
        )?;
        Ok(Self {
            sql: Mutex::new(sql),
            conflicts: AtomicU32::new(0),
            together: Barrier::new(EVENTS as usize),
        })
    }

    fn sql(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.sql.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, order: i64) -> Result<(i64, i64), BoxError> {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(self.sql().query_row("SELECT version, cents FROM orders WHERE id = ?1", [order], row)?)
    }

    async fn project(&self, message: &Message, cx: &Context) -> Result<(), BoxError> {
        let event: LineAdded = message.json()?;
        let (version, cents) = self.read(event.order)?;
        if cx.attempt == 1 {
            self.together.wait().await;
        }
        self.write(&message.id, &event, version, cents + event.added_cents).inspect_err(|error| {
            if error.is::<Moved>() {
                self.conflicts.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// One transaction: the event is applied and written down as applied, or neither.
    fn write(&self, id: &str, event: &LineAdded, version: i64, cents: i64) -> Result<(), BoxError> {
        let mut sql = self.sql();
        let tx = sql.transaction()?;
        let applied: Option<String> =
            tx.query_row("SELECT event FROM applied WHERE event = ?1", [id], |row| row.get(0)).optional()?;
        if applied.is_some() {
            return Ok(());
        }
        let changed = tx.execute(
            "UPDATE orders SET version = version + 1, cents = ?1 WHERE id = ?2 AND version = ?3",
            params![cents, event.order, version],
        )?;
        if changed == 0 {
            return Err(Moved(event.order, version).into());
        }
        tx.execute("INSERT INTO applied VALUES (?1)", [id])?;
        Ok(tx.commit()?)
    }
}
