//! Steps in the file, and room in one that is full.
//!
//! A step that finds no room is undone, and what it tidied away with it: so room is made in steps of its own.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};

/// How many expired rows go with each claim: more than come, so that the file does not grow.
const TIDIED: u32 = 32;
/// How many of each table go at once where the file is full: small rows, of which the few of a claim free no page.
const CLEARED: u32 = 1_024;
/// How often so many go for one step: it is not to wait for the rest of a file of any size.
const CLEARINGS: u32 = 64;

/// One step, seen whole or not at all. In a file that is full it is tried again with each part of what is over by then
/// that has gone.
pub(super) fn step<T>(
    connection: &mut Connection,
    now: i64,
    work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut done = whole(connection, &work);
    for _ in 0..CLEARINGS {
        if !done.as_ref().is_err_and(is_full) {
            break;
        }
        // On a disk that is full even this may find no room.
        let Ok(cleared) = whole(connection, |sql| take(sql, now, CLEARED)) else { break };
        if cleared == 0 {
            break;
        }
        done = whole(connection, &work);
    }
    done
}

fn whole<T>(
    connection: &mut Connection,
    work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Takes a few of those whose time is over.
pub(super) fn tidy(sql: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
    take(sql, now, TIDIED).map(drop)
}

/// Takes so many of each table whose time is over, and says how many there were.
fn take(sql: &Transaction<'_>, now: i64, most: u32) -> rusqlite::Result<usize> {
    let mut taken = 0;
    for (table, id) in [("idempotency_keys", "id"), ("idempotency_calls", "rowid")] {
        let few = format!(
            "DELETE FROM {table} WHERE {id} IN (SELECT {id} FROM {table} WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)"
        );
        taken += sql.prepare_cached(&few)?.execute(params![now, most])?;
    }
    Ok(taken)
}
