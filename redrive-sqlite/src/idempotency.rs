//! Idempotency keys in an SQLite file of their own.
//!
//! Apart from queues and ledger: other programs than Redrive keep their keys here, several processes may share one
//! file, and what is in it may be lost without losing a message.

mod room;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_retry::idempotency::{
    Answer, CallKeys, Claim, Claimed, IdempotencyKey, KeyStore, Lease, StoreError,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::schema::open_error;
use crate::{Durability, OpenError};

/// Marks a file as one of keys: `RDIK`.
const APPLICATION: i64 = 0x5244_494B;
const VERSION: u32 = 2;

const TABLES: &str = "
    CREATE TABLE idempotency_keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        fingerprint BLOB NOT NULL,
        status INTEGER,
        headers TEXT,
        body BLOB,
        expires_at INTEGER NOT NULL,
        token INTEGER NOT NULL
    );
    CREATE INDEX idempotency_keys_by_end ON idempotency_keys (expires_at);
    CREATE TABLE idempotency_calls (
        name TEXT NOT NULL PRIMARY KEY,
        key TEXT NOT NULL,
        expires_at INTEGER NOT NULL
    );
    CREATE INDEX idempotency_calls_by_end ON idempotency_calls (expires_at);
";

/// From version 1, which knew a claim by its row.
const TOKENS: &str = "ALTER TABLE idempotency_keys ADD COLUMN token INTEGER NOT NULL DEFAULT 0;
    UPDATE idempotency_keys SET token = id;";

/// How long another may keep the file to itself.
const BUSY: Duration = Duration::from_secs(5);

/// A store of idempotency keys in an SQLite file. Clones share it, and processes share the file.
///
/// ```
/// use redrive_core::Timestamp;
/// use redrive_retry::idempotency::CallKeys;
/// use redrive_sqlite::IdempotencyStore;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("keys.db");
/// let (now, tomorrow) = (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000));
/// let key = IdempotencyStore::open(&file)?.key_for("charge order 771", now, tomorrow).await?;
/// // The process ends, and the next one asks again.
/// assert_eq!(IdempotencyStore::open(&file)?.key_for("charge order 771", now, tomorrow).await?, key);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct IdempotencyStore {
    file: Arc<File>,
}

#[derive(Debug)]
struct File {
    connection: Mutex<Connection>,
    path: PathBuf,
    /// The time as it was told last: what is over by then makes room where none is left.
    told: AtomicI64,
}

impl IdempotencyStore {
    /// Opens the file, and makes it when it is not there. What is written survives a power cut.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, Durability::Full, None)
    }

    /// Opens the file with another durability, and with a size in bytes beyond which it refuses new keys, until others
    /// are over. A new file needs room for its tables: 32 KiB.
    pub fn open_with(
        path: impl AsRef<Path>,
        durability: Durability,
        file_limit: Option<u64>,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |error: rusqlite::Error| open_error(&error, path);
        let mut connection = Connection::open(path).map_err(failed)?;
        settle_in(&connection, durability, file_limit).map_err(failed)?;
        prepare(&mut connection, path, file_limit)?;
        let (connection, told) = (Mutex::new(connection), AtomicI64::new(i64::MIN));
        let file = File { connection, path: path.to_owned(), told };
        Ok(Self { file: Arc::new(file) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// One step, on a thread for blocking calls. In a file that is full it is done more than once.
    async fn step<T: Send + 'static>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = Arc::clone(&self.file);
        let running = tokio::task::spawn_blocking(move || {
            let mut connection = file.connection.lock().unwrap_or_else(PoisonError::into_inner);
            room::step(&mut connection, file.told.load(Ordering::Relaxed), work)
        });
        match running.await {
            Ok(done) => done.map_err(|error: rusqlite::Error| self.error(&error)),
            Err(error) => Err(StoreError::Unavailable(format!("{}: {error}", self.path().display()))),
        }
    }

    fn told(&self, now: Timestamp) -> i64 {
        self.file.told.store(now.as_millis(), Ordering::Relaxed);
        now.as_millis()
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        let file = self.path().display();
        if room::is_full(error) {
            StoreError::Full(format!("{file} has reached its limit, or its disk is full"))
        } else {
            StoreError::Unavailable(format!("{file}: {error}"))
        }
    }
}

fn settle_in(connection: &Connection, durability: Durability, limit: Option<u64>) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    use_wal(connection)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    if let Some(limit) = limit {
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        // No page at all would be no limit at all.
        connection.pragma_update(None, "max_page_count", (limit / page.max(1)).max(1))?;
    }
    Ok(())
}

/// Of two that change the journal of a new file at once, SQLite refuses one without a wait, whatever the time for that is.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let changed = connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        let is_busy = |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
        if !changed.as_ref().is_err_and(is_busy) || began.elapsed() >= BUSY {
            return changed;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes the tables in a new file, and refuses one that is not of keys.
fn prepare(connection: &mut Connection, path: &Path, limit: Option<u64>) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| match (error.sqlite_error_code(), limit) {
        (Some(ErrorCode::DiskFull), Some(limit)) => {
            let why =
                format!("its tables have no room within its limit of {limit} bytes, or its disk is full");
            OpenError::System { file: path.to_owned(), why }
        }
        _ => open_error(&error, path),
    };
    // Two processes may open a new file at the same time.
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found: u32 = step.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let application: i64 =
        step.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: i64 =
        step.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION {
        if tables > 0 || found > 0 {
            return Err(OpenError::Foreign { file: path.to_owned() });
        }
        step.execute_batch(TABLES).map_err(failed)?;
        step.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
        step.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    } else if found > VERSION {
        return Err(OpenError::Newer { file: path.to_owned(), found, known: VERSION });
    } else if found < VERSION {
        step.execute_batch(TOKENS).map_err(failed)?;
        step.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    }
    step.commit().map_err(failed)
}

fn claim(
    sql: &Transaction<'_>,
    lease: &Lease,
    fingerprint: [u8; 32],
    now: i64,
    until: i64,
) -> rusqlite::Result<Claimed> {
    let Lease { key, token } = lease;
    let token = token.cast_signed();
    room::tidy(sql, now)?;
    sql.prepare_cached("DELETE FROM idempotency_keys WHERE key = ?1 AND expires_at <= ?2")?
        .execute(params![key, now])?;
    let found = sql
        .prepare_cached(
            "SELECT fingerprint, status, headers, body, token FROM idempotency_keys WHERE key = ?1",
        )?
        .query_row([key], |row| {
            let status: Option<u16> = row.get(1)?;
            let headers: Option<String> = row.get(2)?;
            let body: Option<Vec<u8>> = row.get(3)?;
            Ok((row.get::<_, Vec<u8>>(0)?, status, headers, body, row.get::<_, i64>(4)?))
        })
        .optional()?;
    let Some((theirs, status, headers, body, held_by)) = found else {
        sql.prepare_cached(
            "INSERT INTO idempotency_keys (key, fingerprint, expires_at, token) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![key, fingerprint, until, token])?;
        return Ok(Claimed::First(lease.clone()));
    };
    if theirs != fingerprint {
        return Ok(Claimed::Other);
    }
    Ok(match status {
        None if held_by == token => {
            extend(sql, lease, until)?;
            Claimed::First(lease.clone())
        }
        None => Claimed::Running,
        Some(status) => {
            let headers = headers.as_deref().map(decoded).unwrap_or_default();
            Claimed::Done(Answer { status, headers, body: body.map(Bytes::from) })
        }
    })
}

/// Headers as text: a name and a value in base64 a line, because a value may be any bytes.
fn encoded(headers: &[(String, Bytes)]) -> String {
    headers.iter().map(|(name, value)| format!("{name} {}\n", STANDARD.encode(value))).collect()
}

fn decoded(text: &str) -> Vec<(String, Bytes)> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), Bytes::from(STANDARD.decode(value).ok()?)))
    };
    text.lines().filter_map(line).collect()
}

impl KeyStore for IdempotencyStore {
    async fn claim(&self, claimed: Claim<'_>) -> Result<Claimed, StoreError> {
        let lease = Lease { key: claimed.key.into(), token: claimed.token };
        let (now, until) = (self.told(claimed.now), (claimed.now + claimed.lease).as_millis());
        let fingerprint = claimed.fingerprint;
        self.step(move |sql| claim(sql, &lease, fingerprint, now, until)).await
    }

    async fn extend(&self, lease: &Lease, until: Timestamp) -> Result<bool, StoreError> {
        let lease = lease.clone();
        self.step(move |sql| extend(sql, &lease, until.as_millis())).await
    }

    async fn remember(&self, lease: &Lease, answer: Answer, until: Timestamp) -> Result<bool, StoreError> {
        let Lease { key, token } = lease.clone();
        self.step(move |sql| {
            let (headers, body) = (encoded(&answer.headers), answer.body.as_deref());
            let (token, until) = (token.cast_signed(), until.as_millis());
            let changed = sql
                .prepare_cached(
                    "UPDATE idempotency_keys SET status = ?3, headers = ?4, body = ?5, expires_at = ?6
                     WHERE key = ?1 AND token = ?2 AND status IS NULL",
                )?
                .execute(params![key, token, answer.status, headers, body, until])?;
            Ok(changed == 1)
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let Lease { key, token } = lease.clone();
        self.step(move |sql| {
            sql.prepare_cached(
                "DELETE FROM idempotency_keys WHERE key = ?1 AND token = ?2 AND status IS NULL",
            )?
            .execute(params![key, token.cast_signed()])?;
            Ok(())
        })
        .await
    }
}

/// Whether the lease still holds, and holds until then now.
fn extend(sql: &Transaction<'_>, lease: &Lease, until: i64) -> rusqlite::Result<bool> {
    let changed = sql
        .prepare_cached(
            "UPDATE idempotency_keys SET expires_at = ?3 WHERE key = ?1 AND token = ?2 AND status IS NULL",
        )?
        .execute(params![lease.key, lease.token.cast_signed(), until])?;
    Ok(changed == 1)
}

impl CallKeys for IdempotencyStore {
    async fn key_for(
        &self,
        call: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<IdempotencyKey, StoreError> {
        let (call, now) = (call.to_owned(), self.told(now));
        let text: String = self
            .step(move |sql| {
                room::tidy(sql, now)?;
                sql.prepare_cached("DELETE FROM idempotency_calls WHERE name = ?1 AND expires_at <= ?2")?
                    .execute(params![call, now])?;
                sql.prepare_cached(
                    "INSERT INTO idempotency_calls (name, key, expires_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (name) DO NOTHING",
                )?
                .execute(params![
                    call,
                    IdempotencyKey::new().as_str(),
                    until.as_millis()
                ])?;
                sql.prepare_cached("SELECT key FROM idempotency_calls WHERE name = ?1")?
                    .query_row([&call], |row| row.get(0))
            })
            .await?;
        text.parse().map_err(|error| {
            StoreError::Unavailable(format!(
                "{} holds something else than a key: {error}",
                self.path().display()
            ))
        })
    }

    async fn forget(&self, call: &str) -> Result<(), StoreError> {
        let call = call.to_owned();
        self.step(move |sql| {
            sql.prepare_cached("DELETE FROM idempotency_calls WHERE name = ?1")?.execute([&call])?;
            Ok(())
        })
        .await
    }
}
