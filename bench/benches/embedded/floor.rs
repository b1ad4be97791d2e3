//! The floor: the same rows in the same tables, written and removed by nothing but SQLite.

use std::path::Path;
use std::time::{Duration, Instant};

use redrive::sqlite::{Options, Store};
use rusqlite::{Connection, params};

use crate::Measured;
use crate::load::{BODY, Load};
use crate::place;

/// Inserts and deletes what the load says, one commit for a batch of either, on one thread.
pub(crate) fn run(load: &Load) -> Measured<Duration> {
    let place = place()?;
    let sql = connect(&place.data)?;
    let ids: Vec<String> =
        (0..load.messages).map(|row| format!("0190b1f0-8f2a-7c3e-9a51-{row:012x}")).collect();
    let batches = load.messages / load.batch;
    let began = Instant::now();
    for number in 0..batches + load.backlog {
        if number < batches {
            insert(&sql, &ids, number * load.batch, load.batch)?;
        }
        if let Some(old) = number.checked_sub(load.backlog) {
            delete(&sql, old * load.batch, load.batch)?;
        }
    }
    let took = began.elapsed();
    let left: u64 = sql.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
    if left > 0 {
        return Err(format!("the floor left {left} rows behind").into());
    }
    Ok(took)
}

/// A file of the store's own layout, opened with the settings of its writer.
fn connect(path: &Path) -> Measured<Connection> {
    drop(Store::open(path, Options::default())?);
    let sql = Connection::open(path)?;
    let mode: String = sql.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    assert_eq!(mode, "wal", "the store's files are in WAL mode");
    sql.pragma_update(None, "synchronous", "FULL")?;
    sql.pragma_update(None, "cache_size", -32_768)?;
    sql.pragma_update(None, "temp_store", "MEMORY")?;
    sql.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    sql.pragma_update(None, "journal_size_limit", 64 << 20)?;
    sql.execute("INSERT INTO queues (id, name, created) VALUES (1, 'orders', 0)", [])?;
    Ok(sql)
}

fn insert(sql: &Connection, ids: &[String], first: u64, count: u64) -> rusqlite::Result<()> {
    sql.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut insert = sql.prepare_cached(
        "INSERT INTO messages (id, queue, mid, due, enqueued, size, body) VALUES (?1, 1, ?2, 0, ?3, ?4, ?5)",
    )?;
    for row in first..first + count {
        insert.execute(params![row + 1, ids[row as usize], 1_782_896_400_000_i64, BODY.len(), BODY])?;
    }
    sql.prepare_cached("COMMIT")?.execute([]).map(drop)
}

fn delete(sql: &Connection, first: u64, count: u64) -> rusqlite::Result<()> {
    sql.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut delete = sql.prepare_cached("DELETE FROM messages WHERE id = ?1")?;
    for row in first..first + count {
        delete.execute([row + 1])?;
    }
    sql.prepare_cached("COMMIT")?.execute([]).map(drop)
}
