//! What ten million waiting messages cost: memory, and the claim of one that is ready or due among them.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench::{Aim, Figure, Place, Report, Unit};
use bytes::Bytes;
use redrive::Timestamp;
use redrive::engine::port::{Broker as _, NewMessage, Outcome, Room, Settlement, Source, Subscription};
use redrive::sqlite::{Options, Store};
use rusqlite::{Connection, params};

use crate::Measured;
use crate::arguments::Arguments;
use crate::binary::Binary;
use crate::load::BODY;
use crate::place;
use crate::server::Server;

/// Messages that wait in the small file.
const FEW: u32 = 100_000;
/// Claims of one round; half of them are ready, half are due.
const CLAIMS: usize = 4_096;
/// Messages that the binary handles before its memory is read.
const HANDLED: u64 = 20_032;

pub(crate) async fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let many = arguments.waiting();
    let (small, large) = (place()?, place()?);
    let (few_path, many_path) = (small.data.clone(), large.data.clone());
    tokio::task::spawn_blocking(move || {
        fill(&few_path, FEW)?;
        fill(&many_path, many)
    })
    .await??;
    claims(arguments, many, &small, &large, report).await?;
    let peak = tokio::task::spawn_blocking(move || memory(&large.data)).await??;
    report.add(Figure {
        name: "waiting_memory".to_owned(),
        what: format!("most resident memory, {} waiting", counted(many)),
        unit: Unit::Megabytes,
        spread: peak.into_iter().collect(),
        aim: Some(Aim::AtMost(200.0)),
    });
    Ok(())
}

async fn claims(
    arguments: &Arguments,
    many: u32,
    small: &Place,
    large: &Place,
    report: &mut Report,
) -> Measured<()> {
    let (mut small, mut large) = (Claims::open(&small.data).await?, Claims::open(&large.data).await?);
    let (mut few_us, mut many_us, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    // Once for nothing, so that the first round does not read what all later ones find in memory.
    small.round().await?;
    large.round().await?;
    for _ in 0..arguments.rounds() * 2 {
        let few = small.round().await?;
        let many = large.round().await?;
        few_us.push(few);
        many_us.push(many);
        ratio.push(many / few);
    }
    let mut figure = |name: &str, what, unit, rounds: Vec<f64>, aim| {
        report.add(Figure { name: name.to_owned(), what, unit, spread: rounds.into_iter().collect(), aim });
    };
    figure("claim_few", format!("a claim, {} waiting", counted(FEW)), Unit::Micros, few_us, None);
    figure("claim_many", format!("a claim, {} waiting", counted(many)), Unit::Micros, many_us, None);
    let what = format!("a claim, {} waiting against {}", counted(many), counted(FEW));
    figure("claim", what, Unit::Ratio, ratio, Some(Aim::AtMost(1.5)));
    Ok(())
}

/// A number of messages as a person says it.
fn counted(messages: u32) -> String {
    match messages {
        1_000_000.. => format!("{:.1} million", f64::from(messages) / 1e6),
        _ => format!("{} thousand", messages / 1_000),
    }
}

/// Fills a new file with messages that are due in one to two hours, in no order.
fn fill(path: &Path, messages: u32) -> Measured<()> {
    drop(Store::open(path, Options::default())?);
    let sql = Connection::open(path)?;
    sql.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    sql.pragma_update(None, "synchronous", "OFF")?;
    sql.pragma_update(None, "cache_size", -1_000_000)?;
    let index: String =
        sql.query_row("SELECT sql FROM sqlite_schema WHERE name = 'messages_due'", [], |row| row.get(0))?;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    sql.execute_batch("BEGIN; DROP INDEX messages_due")?;
    sql.execute(
        "INSERT INTO queues (id, name, waiting, size_limit, created) VALUES (1, 'orders', ?1, 2 * ?1, ?2)",
        params![messages, now],
    )?;
    sql.execute(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
         INSERT INTO messages (id, queue, mid, due, enqueued, size, body)
         SELECT n, 1, printf('waiting-%010d', n), ?2 + 3600000 + abs(random() % 3600000), ?2, 100, zeroblob(100)
         FROM numbers",
        params![messages, now],
    )?;
    sql.execute_batch(&format!("{index}; COMMIT"))?;
    Ok(())
}

/// The one reader of a file's queue.
struct Claims {
    store: Store,
    source: Box<dyn Source>,
}

impl Claims {
    async fn open(path: &Path) -> Measured<Self> {
        let store = Store::open(path, Options::default())?;
        let subscription = Subscription::new("orders", "orders");
        let source = store.subscribe(&subscription).await?;
        Ok(Self { store, source })
    }

    /// Microseconds that a claim takes. What is published and settled around it does not count.
    async fn round(&mut self) -> Measured<f64> {
        let due = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64 - 1_000;
        let message = |number: usize| NewMessage {
            body: Some(Bytes::from_static(BODY)),
            due: number.is_multiple_of(2).then_some(Timestamp::from_millis(due)),
            ..NewMessage::default()
        };
        self.store.publish("orders", (0..CLAIMS).map(message).collect()).await?;
        let room = Room { bytes: 64 << 20, ..Room::of(256) };
        let mut taken = Vec::with_capacity(CLAIMS);
        let began = Instant::now();
        while taken.len() < CLAIMS {
            self.source.receive(room, &mut taken).await?;
        }
        let took = began.elapsed();
        let settled: Vec<Settlement> =
            taken.into_iter().map(|delivery| Settlement::plain(delivery, Outcome::Ack)).collect();
        self.store.settle(&settled).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(took.as_secs_f64() * 1e6 / CLAIMS as f64)
    }
}

/// The most memory that the binary has had resident while it worked beside the waiting messages.
fn memory(data: &Path) -> Measured<Option<f64>> {
    let binary = Binary::find()?;
    let server = Server::start()?;
    let progress = server.count();
    let running = binary.run(data, &format!("http://{}/orders", server.address))?;
    let lines = data.with_extension("lines");
    std::fs::write(&lines, format!("{}\n", "x".repeat(BODY.len())).repeat(HANDLED as usize))?;
    binary.publish(data, &lines)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handled = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), progress.until(HANDLED)).await });
    handled.map_err(|_| "the binary has not handled what was published")?;
    Ok(running.peak_megabytes())
}
