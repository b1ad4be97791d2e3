//! Opening the file: the lock first, then the layout, then the writer and its readers.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::watch;

use crate::lane_counts::LaneCounts;
use crate::ledger::apart::Brokers;
use crate::ledger::replay;
use crate::lock::{Lock, check_rights};
use crate::reader::Readers;
use crate::reading::Readings;
use crate::store::{Inner, Store};
use crate::tx::Memory;
use crate::writer::Writer;
use crate::{Durability, OpenError, Options, schema};

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 128;

pub(crate) fn open(path: &Path, options: Options) -> Result<Store, OpenError> {
    let lock = Lock::take(path)?;
    check_rights(path)?;
    let failed = |error: rusqlite::Error| schema::open_error(&error, path);
    let mut connection = connect(path, true).map_err(failed)?;
    settle_in(&connection, &options).map_err(failed)?;
    schema::prepare(&mut connection, path)?;
    probe(&connection).map_err(failed)?;
    replay::remove_unfinished(&connection).map_err(failed)?;
    if let Some(limit) = options.file_limit {
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
        connection.pragma_update(None, "max_page_count", limit / page.max(1)).map_err(failed)?;
    }
    let lanes = Arc::new(LaneCounts::load(&connection).map_err(failed)?);
    let memory = Memory::new(&connection, lanes.clone(), options.queue_limit, options.message_limit)
        .map_err(failed)?;
    let readers: Vec<Connection> = (0..options.readers.clamp(2, 64))
        .map(|_| connect(path, false))
        .collect::<rusqlite::Result<_>>()
        .map_err(failed)?;
    let readings = Arc::new(Readings::default());
    let writer = Writer::start(connection, memory, path.to_owned(), readings.clone(), options.clock.clone())
        .map_err(|error| OpenError::System { file: path.to_owned(), why: error.to_string() })?;
    let readers = Readers::new(readers, path.to_owned());
    let brokers = Brokers::default();
    Ok(Store::new(Inner {
        writer,
        readers,
        readings,
        lanes,
        brokers,
        options,
        _lock: lock,
        ended: watch::Sender::new(()),
    }))
}

fn connect(path: &Path, writes: bool) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if writes {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "cache_size", if writes { -32_768 } else { -8_192 })?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if !writes {
        connection.pragma_update(None, "query_only", true)?;
    }
    Ok(connection)
}

fn settle_in(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    // Counts only for a new file: pages that are free again can be given back in small steps.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    debug_assert!(mode.eq_ignore_ascii_case("wal"), "journal mode {mode}");
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.pragma_update(None, "foreign_keys", false)
}

/// A file that cannot be written is refused when it is opened, not at the first message.
fn probe(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE; UPDATE queues SET ready = ready WHERE id = 0; COMMIT")
}
