//! Copies that the broker keeps back: their time in one queue is over, and they have not arrived in the next.
//!
//! A waiting queue gives a message away only when its target has taken it. Where there is no target the broker holds the
//! message between the two, where no count shows it, and tries again when a timer of its own has run down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_engine::adapter::Alarms;
use redrive_engine::port::Overdue;
use tokio::time::Instant;

use crate::metrics;
use crate::topology::Needs;

/// The name of the alarm.
const ALARM: &str = "transfer_stuck";
/// How often what the flow needs is declared again while copies are missing.
const MEND_AGAIN: Duration = Duration::from_secs(60);
/// How many queues an alarm names.
const NAMED: usize = 4;

/// What is known of copies that are kept back.
#[derive(Debug)]
pub(crate) struct Stuck {
    flow: Arc<str>,
    needs: Arc<Needs>,
    alarms: Arc<Alarms>,
    mended: Mutex<Option<Mended>>,
}

/// The last try to make again what the flow needs.
#[derive(Debug)]
struct Mended {
    at: Instant,
    /// What it came to, for people.
    found: String,
}

impl Stuck {
    pub(crate) fn new(flow: Arc<str>, needs: Arc<Needs>, alarms: Arc<Alarms>) -> Self {
        Self { flow, needs, alarms, mended: Mutex::default() }
    }

    fn mended(&self) -> MutexGuard<'_, Option<Mended>> {
        self.mended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are kept back now; none when it is over.
    pub(crate) async fn are(&self, copies: &[Overdue]) {
        metrics::stuck(&self.flow, copies.len());
        if copies.is_empty() {
            self.alarms.clear(ALARM, "");
            *self.mended() = None;
            return;
        }
        let again = self.mended().as_ref().is_none_or(|mended| mended.at.elapsed() >= MEND_AGAIN);
        if again {
            let before = self.mended().take().map(|mended| mended.found);
            let found = self.mend(before).await;
            *self.mended() = Some(Mended { at: Instant::now(), found });
        }
        let found = self.mended().as_ref().map(|mended| mended.found.clone()).unwrap_or_default();
        self.alarms.raise(ALARM, "", told(copies, &found));
    }

    /// Makes again what is missing.
    async fn mend(&self, before: Option<String>) -> String {
        match self.needs.restore().await {
            // What the first look found is the reason for what is stuck still.
            Ok(missing) if missing.is_empty() => {
                before.unwrap_or_else(|| "all queues and exchanges of the flow are there".to_owned())
            }
            Ok(missing) => deleted(&missing),
            Err(error) => format!("what the flow needs cannot be made again: {error}"),
        }
    }
}

/// What was missing and was made again.
fn deleted(missing: &[String]) -> String {
    let others = missing.len().saturating_sub(NAMED);
    let named = missing[..missing.len() - others].join(", ");
    let others = if others == 0 { String::new() } else { format!(" and {others} others") };
    let are = if missing.len() == 1 { "is" } else { "are" };
    format!("{named}{others} had been deleted and {are} there again")
}

/// What a person should know, and the way out.
fn told(copies: &[Overdue], found: &str) -> String {
    let mut queues: BTreeMap<&str, usize> = BTreeMap::new();
    for copy in copies {
        *queues.entry(&copy.copy.name).or_default() += 1;
    }
    let named: Vec<String> =
        queues.iter().take(NAMED).map(|(queue, count)| format!("{count} from `{queue}`")).collect();
    let others = queues.len().saturating_sub(NAMED);
    let others = if others == 0 { String::new() } else { format!(" and more from {others} others") };
    let since = copies.iter().map(|copy| copy.due_at).min().unwrap_or_default();
    let way = named.join(", ");
    let (count, have) = (copies.len(), if copies.len() == 1 { "copy has" } else { "copies have" });
    format!(
        "{count} {have} not come back, the first was due at {since}: RabbitMQ holds {way}{others} between two queues; {found}; it tries again within about 3 minutes of that, or `redrive retry-now` sends from the ledger what cannot wait"
    )
}

#[cfg(test)]
mod tests {
    use redrive_core::Timestamp;
    use redrive_engine::port::SourceRef;

    use super::*;

    #[test]
    fn the_alarm_says_how_many_from_where_since_when_and_the_way_out() {
        let copy = |queue: &str, due: i64| Overdue {
            entry: uuid::Uuid::now_v7(),
            due_at: Timestamp::from_millis(due),
            copy: SourceRef { kind: "rabbitmq".into(), name: queue.into(), partition: None, offset: None },
        };
        let copies = [copy("o.retry.l10", 61_000), copy("o.retry.1m", 1_000), copy("o.retry.l10", 2_000)];
        let missing: Vec<String> = (0..6).map(|n| format!("the exchange `o.{n}`")).collect();
        let found = deleted(&missing);
        assert!(found.contains("the exchange `o.3` and 2 others had been deleted and are"), "{found}");
        let text = told(&copies, &deleted(&["the exchange `o.retry`".to_owned()]));
        for part in [
            "3 copies have",
            "1 from `o.retry.1m`, 2 from `o.retry.l10`",
            "1970-01-01T00:00:01",
            "`o.retry` had",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("redrive retry-now"), "{text}");
        assert!(told(&copies[..1], "").starts_with("1 copy has not"), "{}", told(&copies[..1], ""));
    }
}
