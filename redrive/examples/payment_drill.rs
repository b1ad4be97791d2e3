//! A drill on RabbitMQ: a service that captures payments, and five things that go wrong.
//!
//! 1. The payment service times out three times: the message waits between its attempts, and is captured at the fourth.
//! 2. A body is no JSON: it is parked at once, nobody tries it again.
//! 3. The consumer is killed after its retry was published and before the original was acknowledged: both are there, and
//!    the money is taken once.
//! 4. The handler is mended, and the parked message replayed, twice: it is captured once.
//! 5. A thousand bodies that nobody can read arrive before five good ones: all thousand are parked, all five captured.
//!
//! Conflicts of optimistic locking are retried in place throughout, and leave no trace. The attempts travel in
//! `x-app-retry-attempt` too.
//!
//! ```sh
//! docker compose up --wait rabbitmq
//! cargo run -p redrive --example payment_drill -- amqp://guest:guest@127.0.0.1:5672/%2f
//! ```
//!
//! The third experiment needs a build with debug assertions, as `cargo run` makes: the place of the kill is named in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::config::Config;
use redrive::core::headers::Spelling;
use redrive::core::policy::ByClass;
use redrive::engine::port::{
    Actor, Broker, EntryId, EntryState, Ledger as _, NewReplay, Published, ReplayState,
};
use redrive::{Class, Context, Flow, Instance, Message, NewMessage, PolicySpec, Ready, Timestamp};
use serde::Deserialize;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where the retry is published and the original not yet acknowledged.
const BETWEEN: &str = "rabbit.after_publish";

/// Bodies that nobody can read, in the last experiment.
pub const POISON: usize = 1_000;

/// By these the process of the third experiment knows what it is.
pub const WORKER: &str = "REDRIVE_DRILL_WORKER";

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server =
        std::env::args().nth(1).unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned());
    if let Some(folder) = std::env::var_os(WORKER) {
        return work(&server, Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir()?;
    let mut again = Command::new(std::env::current_exe()?);
    again.arg(&server);
    for line in run(&server, folder.path(), again).await?.lines() {
        println!("{line}");
    }
    Ok(())
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The attempts of the payment that timed out, in their order.
    pub attempts: Vec<u32>,
    /// Whether each of its retries waited for its time.
    pub delayed: bool,
    /// Attempts of the body that is no JSON, until it was parked.
    pub parked_after: u32,
    /// Whether the consumer was killed between publish and acknowledgement.
    pub killed: bool,
    /// How often the payment of that moment was taken.
    pub captured_after_kill: usize,
    /// How often the replayed payment was taken.
    pub captured_by_replays: usize,
    /// Payments of the last experiment that were captured.
    pub healthy: usize,
    /// Entries by reason and state.
    pub reasons: BTreeMap<String, u64>,
}

impl Outcome {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("1. attempts {:?}, each retry in its time: {}", self.attempts, self.delayed),
            format!("2. parked after {} attempt", self.parked_after),
            format!("3. killed: {}, captured {} time", self.killed, self.captured_after_kill),
            format!("4. replayed twice, captured {} time", self.captured_by_replays),
            format!("5. {} of 5 captured behind {POISON} that nobody can read", self.healthy),
        ];
        lines.extend(self.reasons.iter().map(|(reason, count)| format!("   {reason}: {count}")));
        lines
    }
}

/// A payment as it is asked for.
#[derive(Deserialize)]
struct Payment {
    payment: u32,
    /// How many attempts the payment service lets time out.
    #[serde(default)]
    timeouts: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("the payment service did not answer in time")]
struct TimedOut;

#[derive(Debug, thiserror::Error)]
#[error("the account was changed by somebody else")]
struct Moved;

/// Everything that the handler does outside of itself: a file that lives as long as the drill.
#[derive(Clone)]
struct Book {
    file: PathBuf,
}

impl Book {
    fn write(&self, line: &str) -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.file)?;
        // In one piece, since others write too.
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn lines(&self, word: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix(word)).map(str::to_owned).collect()
    }

    /// How often the money of a payment was taken.
    fn captures(&self, payment: u32) -> usize {
        self.lines("captured ").iter().filter(|line| line.starts_with(&format!("{payment} "))).count()
    }

    /// Takes the money once for a key, whatever comes twice.
    fn capture(&self, payment: u32, key: &str) -> std::io::Result<()> {
        let known = self.lines("captured ").iter().any(|line| *line == format!("{payment} {key}"));
        if known { Ok(()) } else { self.write(&format!("captured {payment} {key}")) }
    }
}

fn address(server: &str, queue: &str) -> String {
    format!("{server}?queue={queue}")
}

/// The queue of this drill: its own, so that two drills do not meet.
fn queue(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("payment.command.capture-{name}")
}

fn flow(server: &str, folder: &Path, mended: Arc<AtomicBool>) -> Result<Ready, BoxError> {
    let book = Book { file: folder.join("book") };
    // Contention passes in a moment, and is not worth a trip through the broker.
    let policy = PolicySpec {
        local: Some(ByClass::default().and(Class::Contention, "2ms x5".parse()?)),
        ..PolicySpec::default()
    };
    let flow = Flow::from(&address(server, &queue(folder)))
        .data(folder.join("redrive.db"))
        .headers(Spelling::AppPrefixed)
        .policy(policy)
        .retry("50ms x5")
        .on::<Moved>(Class::Contention, "OPTIMISTIC_LOCK_CONFLICT")
        .on::<TimedOut>(Class::Transient, "DOWNSTREAM_TIMEOUT")
        .park_on::<serde_json::Error>("BAD_PAYLOAD")
        .handle(move |message: Message, cx: Context| {
            let (book, mended) = (book.clone(), Arc::clone(&mended));
            async move { capture(&book, mended.load(Ordering::Relaxed), &message, &cx) }
        });
    Ok(flow)
}

fn capture(book: &Book, mended: bool, message: &Message, cx: &Context) -> Result<(), BoxError> {
    book.write(&format!("attempt {} {} {}", message.id, cx.attempt, millis()))?;
    let payment: Payment = match message.json() {
        // The new handler knows what the torn body meant.
        Err(_) if mended && message.id == *"torn" => Payment { payment: 2, timeouts: 0 },
        read => read?,
    };
    // The first call of a healthy payment meets somebody else at the account.
    if payment.payment >= 10 && cx.attempt == 1 {
        return Err(Moved.into());
    }
    if cx.attempt <= payment.timeouts {
        return Err(TimedOut.into());
    }
    Ok(book.capture(payment.payment, &cx.idempotency_key)?)
}

fn millis() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|since| since.as_millis()).unwrap_or_default()
}

/// What the process of the third experiment does: handles what there is, until it is killed or nothing is left.
pub async fn work(server: &str, folder: &Path) -> Result<(), BoxError> {
    let instance = flow(server, folder, Arc::default())?.start().await?;
    instance.idle(Duration::from_millis(300)).await;
    instance.stop(std::future::pending()).await;
    Ok(())
}

/// Runs the five experiments. `again` starts this program once more, as a consumer that is killed.
pub async fn run(server: &str, folder: &Path, mut again: Command) -> Result<Outcome, BoxError> {
    let (book, queue) = (Book { file: folder.join("book") }, queue(folder));
    let broker =
        redrive::brokers::rabbitmq(&Config::default(), &address(server, &queue).parse()?, &|_| None)?;
    let mended = Arc::new(AtomicBool::new(false));
    let mut outcome = Outcome::default();
    let mut instance = flow(server, folder, Arc::clone(&mended))?.start().await?;

    publish(&*broker, &queue, &[("timeouts", r#"{ "payment": 1, "timeouts": 3 }"#)]).await?;
    publish(&*broker, &queue, &[("torn", r#"{ "payment": 2, "cen"#)]).await?;
    stands(&instance, "timeouts", EntryState::Recovered).await?;
    let made: Vec<String> = book.lines("attempt timeouts ");
    let made = made.iter().filter_map(|line| line.split_once(' '));
    let made: Vec<(u32, u128)> =
        made.filter_map(|(n, at)| Some((n.parse().ok()?, at.parse().ok()?))).collect();
    outcome.attempts = made.iter().map(|(attempt, _)| *attempt).collect();
    outcome.delayed = made.windows(2).all(|pair| pair[1].1 >= pair[0].1 + 50);
    outcome.parked_after = stands(&instance, "torn", EntryState::Parked).await?;
    instance.stop(std::future::pending()).await;

    publish(&*broker, &queue, &[("killed", r#"{ "payment": 3, "timeouts": 1 }"#)]).await?;
    let worker = again.env(WORKER, folder).env("REDRIVE_FAIL", BETWEEN);
    let status = tokio::task::block_in_place(|| worker.status())?;
    outcome.killed = status.signal().is_some();
    mended.store(true, Ordering::Relaxed);
    instance = flow(server, folder, Arc::clone(&mended))?.start().await?;
    until("the payment is captured", async || Ok((book.captures(3) > 0).then_some(()))).await?;
    instance.idle(Duration::from_millis(300)).await;
    outcome.captured_after_kill = book.captures(3);

    for _ in 0..2 {
        replay(&instance, "torn").await?;
        stands(&instance, "torn", EntryState::Recovered).await?;
    }
    outcome.captured_by_replays = book.captures(2);

    let poison: Vec<String> = (0..POISON).map(|number| format!("poison-{number}")).collect();
    let poison: Vec<(&str, &str)> = poison.iter().map(|id| (id.as_str(), "{ what?")).collect();
    publish(&*broker, &queue, &poison).await?;
    for number in 10..15 {
        let body = format!(r#"{{ "payment": {number} }}"#);
        publish(&*broker, &queue, &[(&format!("healthy-{number}"), &body)]).await?;
    }
    let all: BTreeSet<u32> = (10..15).collect();
    until("all healthy payments are captured", async || {
        Ok(all.iter().all(|payment| book.captures(*payment) == 1).then_some(()))
    })
    .await?;
    outcome.healthy = all.iter().map(|payment| book.captures(*payment)).sum();
    until("all poison is parked", async || {
        let parked = instance.store().count(&queue, EntryState::Parked).await?;
        Ok((parked >= POISON as u64).then_some(()))
    })
    .await?;
    for group in instance.store().groups(Some(&queue), 100).await? {
        for (state, count) in group.counts {
            *outcome.reasons.entry(format!("{} {state}", group.reason)).or_default() += count;
        }
    }
    instance.stop(std::future::pending()).await;
    Ok(outcome)
}

async fn publish(broker: &dyn Broker, queue: &str, messages: &[(&str, &str)]) -> Result<(), BoxError> {
    let messages = messages.iter().map(|(id, body)| NewMessage {
        id: Some((*id).to_owned()),
        body: Some((*body).to_owned().into()),
        ..NewMessage::default()
    });
    for published in broker.publish(queue, messages.collect()).await? {
        if let Published::Refused(refusal) = published {
            return Err(refusal.to_string().into());
        }
    }
    Ok(())
}

/// Waits until a message stands in this state; answers with its attempts.
async fn stands(instance: &Instance, id: &str, state: EntryState) -> Result<u32, BoxError> {
    until(&format!("{id} is {state}"), async || {
        let entry = instance.store().entry(id).await?;
        Ok(entry.filter(|entry| entry.state == state).map(|entry| entry.attempts))
    })
    .await
}

/// Sends one message back, and waits until its outcome is known.
async fn replay(instance: &Instance, id: &str) -> Result<(), BoxError> {
    let asked = NewReplay {
        filter: redrive::engine::port::Filter::default(),
        ids: vec![id.to_owned()],
        rate: None,
        max: None,
        canary: None,
    };
    let actor = Actor { who: "the drill".to_owned(), why: "the handler is mended".to_owned() };
    let millis = i64::try_from(millis())?;
    let replay_id = EntryId::now_v7();
    match instance.store().begin_replay(replay_id, &asked, &actor, Timestamp::from_millis(millis)).await {
        Ok(_) => {}
        // What came through once is not sent again: that is the point.
        Err(redrive::engine::port::PortError::Refused(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    until("the replay is done", async || {
        let replay = instance.store().replay(replay_id).await?;
        Ok(replay.filter(|replay| replay.state == ReplayState::Done).map(|_| ()))
    })
    .await
}

/// Asks again and again until there is an answer.
async fn until<T>(what: &str, ask: impl AsyncFn() -> Result<Option<T>, BoxError>) -> Result<T, BoxError> {
    let asked = tokio::time::timeout(Duration::from_secs(180), async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    asked.await.unwrap_or_else(|_| Err(format!("waited in vain until {what}").into()))
}
