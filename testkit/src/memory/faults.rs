//! What goes wrong, on request.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_engine::port::{PortError, Recorded, Refusal};

/// Faults that a test asks for. Each count is used up by the calls it fails.
#[derive(Debug, Default)]
pub struct Faults {
    settles: AtomicU32,
    publishes: AtomicU32,
    receives: AtomicU32,
    records: AtomicU32,
    refused: Mutex<Option<String>>,
    delay_ms: AtomicU64,
    questions: Mutex<Option<PortError>>,
    away: AtomicBool,
}

impl Faults {
    /// The next `n` settles are not done.
    pub fn fail_settles(&self, n: u32) {
        self.settles.store(n, Ordering::SeqCst);
    }

    /// The next `n` publishes are not done.
    pub fn fail_publishes(&self, n: u32) {
        self.publishes.store(n, Ordering::SeqCst);
    }

    /// The next `n` receives hand nothing out.
    pub fn fail_receives(&self, n: u32) {
        self.receives.store(n, Ordering::SeqCst);
    }

    /// The next `n` times the ledger is told something, it does not listen.
    pub fn fail_records(&self, n: u32) {
        self.records.store(n, Ordering::SeqCst);
    }

    /// From now on the ledger does not take this message, or again takes all.
    pub fn refuse_records_of(&self, message: Option<&str>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = message.map(str::to_owned);
    }

    /// How many more settles and receives would fail.
    pub fn left(&self) -> (u32, u32) {
        (self.settles.load(Ordering::SeqCst), self.receives.load(Ordering::SeqCst))
    }

    /// From now on the ledger answers questions and deeds with this error, or again as it should.
    pub fn fail_questions(&self, with: Option<PortError>) {
        *self.questions.lock().unwrap_or_else(PoisonError::into_inner) = with;
    }

    /// From now on every answer of the broker takes so long.
    pub fn delay_answers(&self, by: Duration) {
        self.delay_ms.store(by.as_millis() as u64, Ordering::SeqCst);
    }

    /// From now on nothing answers, or again all does.
    pub fn go_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn is_there(&self) -> Result<(), PortError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(PortError::Unavailable("away, as asked".to_owned()));
        }
        Ok(())
    }

    pub(super) async fn settle(&self) -> Result<(), PortError> {
        self.wait().await;
        self.is_there()?;
        used(&self.settles, "settle")
    }

    pub(super) async fn publish(&self) -> Result<(), PortError> {
        self.wait().await;
        self.is_there()?;
        used(&self.publishes, "publish")
    }

    pub(super) fn receive(&self) -> Result<(), PortError> {
        self.is_there()?;
        used(&self.receives, "receive")
    }

    pub(super) fn record(&self, recorded: &[Recorded]) -> Result<(), PortError> {
        self.is_there()?;
        used(&self.records, "record")?;
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused =
            |one: &Recorded| refused.as_deref() == Some(one.settlement.delivery.message.id.as_str());
        if recorded.iter().any(is_refused) {
            return Err(Refusal::Invalid("refused, as asked".to_owned()).into());
        }
        Ok(())
    }

    /// A flow asks for its messages.
    pub(super) fn standing(&self) -> Result<(), PortError> {
        self.is_there()
    }

    pub(super) fn question(&self) -> Result<(), PortError> {
        self.is_there()?;
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    async fn wait(&self) {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }
}

fn used(count: &AtomicU32, what: &str) -> Result<(), PortError> {
    let left = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    match left {
        Ok(_) => Err(PortError::Unavailable(format!("{what}: away, as asked"))),
        Err(_) => Ok(()),
    }
}
