//! kill -9 while thousands of messages wait for their next attempt: how many get more attempts than their budget.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::numbered::number_of;
use bench::{Aim, Measured, Report, Unit};
use hyper::StatusCode;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::member::Member;

const RECORDS: u64 = 5_000;
/// Calls for each, the first included.
const BUDGET: u32 = 5;
const KILLS: u32 = 3;
/// The wait between attempts, and the end of the name of its delay topic.
const WAIT: &str = "5s";
/// A call that began so shortly before a kill may not have been settled.
const IN_FLIGHT: Duration = Duration::from_millis(100);
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(90);

pub(crate) async fn measure(
    arguments: &Arguments,
    cluster: &Arc<Cluster>,
    report: &mut Report,
) -> Measured<()> {
    let records = if arguments.quick { RECORDS / 5 } else { RECORDS };
    let topic = cluster.filled("kill", records).await?;
    // A group waits for a member that was killed as long as its session lasts.
    let source = format!("{topic}?session.timeout.ms=2000&heartbeat.interval.ms=500&");
    let endpoint = Endpoint::start(StatusCode::INTERNAL_SERVER_ERROR)?;
    let more = json!({ "retry": format!("{WAIT} x4"), "budgets": { "attempts": BUDGET } });
    let member = Arc::new(Member::new(cluster, &source, &endpoint, more)?);
    let mut in_flight: HashMap<u64, u32> = HashMap::new();
    let mut process = started(&member).await?;
    let mut waiting = Onlooker::new(cluster, &[format!("{}.retry.{WAIT}", member.name)])?;
    for kill in 1..=KILLS {
        // In mid back-off: the copies of this attempt are committed, and nobody is called.
        waiting = tokio::task::spawn_blocking(move || waiting.until(u64::from(kill) * records)).await??;
        let at = process.kill()?;
        for (number, calls) in endpoint.calls().iter() {
            if at.saturating_duration_since(calls.last) < IN_FLIGHT {
                *in_flight.entry(*number).or_default() += 1;
            }
        }
        process = started(&member).await?;
    }
    let ended = Onlooker::new(cluster, &[".dlq", ".parking"].map(|end| format!("{}{end}", member.name)))?;
    tokio::task::spawn_blocking(move || ended.all(records)).await??;
    drop(process);
    let (mut over, mut beyond) = (0_u32, 0_u32);
    for (number, calls) in endpoint.calls().iter() {
        over += u32::from(calls.count > BUDGET);
        let allowed = BUDGET + in_flight.get(number).copied().unwrap_or_default();
        beyond += u32::from(calls.count > allowed);
    }
    let what = format!("{KILLS} times kill -9 in mid back-off, {records} records: over their attempt budget");
    report.tell("kill_over", &what, Unit::Count, &[f64::from(over)], None);
    let (what, aim) = (format!("{what}, beyond those in flight"), Some(Aim::AtMost(0.0)));
    report.tell("kill_over_beyond", &what, Unit::Count, &[f64::from(beyond)], aim);
    Ok(())
}

async fn started(member: &Arc<Member>) -> Measured<crate::member::Process> {
    let member = Arc::clone(member);
    tokio::task::spawn_blocking(move || member.start()).await?
}

/// Reads what is committed in some topics, from the beginning.
struct Onlooker {
    consumer: BaseConsumer,
    seen: u64,
    numbers: HashSet<u64>,
}

impl Onlooker {
    fn new(cluster: &Cluster, topics: &[String]) -> Measured<Self> {
        let consumer: BaseConsumer = cluster.consumer(&cluster.name("onlooker")).create()?;
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names)?;
        Ok(Self { consumer, seen: 0, numbers: HashSet::new() })
    }

    fn look(&mut self) -> Measured<()> {
        if let Some(record) = self.consumer.poll(Duration::from_millis(20)).transpose()? {
            self.seen += 1;
            self.numbers.extend(number_of(record.payload()));
        }
        Ok(())
    }

    /// Waits until there are so many records.
    fn until(mut self, count: u64) -> Measured<Self> {
        let end = Instant::now() + LIMIT;
        while self.seen < count {
            if Instant::now() > end {
                return Err(format!("{} of {count} copies wait for their next attempt", self.seen).into());
            }
            self.look()?;
        }
        Ok(self)
    }

    /// Waits until every record is there.
    fn all(mut self, records: u64) -> Measured<()> {
        let end = Instant::now() + LIMIT;
        while (self.numbers.len() as u64) < records {
            if Instant::now() > end {
                let missing: Vec<u64> =
                    (0..records).filter(|number| !self.numbers.contains(number)).collect();
                let some = &missing[..missing.len().min(20)];
                return Err(
                    format!("{} of {records} records are lost, such as {some:?}", missing.len()).into()
                );
            }
            self.look()?;
        }
        Ok(())
    }
}
