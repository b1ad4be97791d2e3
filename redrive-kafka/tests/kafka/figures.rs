//! What is told of what waits, in figures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redrive_core::Timestamp;
use redrive_engine::port::{Broker as _, Clock as _, Outcome, Settlement, SystemClock};
use redrive_kafka::{DelayMode, KafkaFlow, Window};

use crate::stage::{Seat, Stage, eventually};

/// The values of gauges, by name and flow.
type Values = BTreeMap<(String, String), Arc<AtomicU64>>;

/// The gauges of all flows. The threads that read set them, so that there is one for the whole process.
#[derive(Clone, Default)]
struct Gauges(Arc<Mutex<Values>>);

impl Gauges {
    fn of_the_process() -> Self {
        static GAUGES: OnceLock<Gauges> = OnceLock::new();
        let made = GAUGES.get_or_init(|| {
            let gauges = Self::default();
            metrics::set_global_recorder(gauges.clone()).unwrap();
            gauges
        });
        made.clone()
    }

    fn of(&self, name: &str, flow: &str) -> Option<f64> {
        let all = self.0.lock().unwrap();
        let found = all.get(&(name.to_owned(), flow.to_owned()))?;
        Some(f64::from_bits(found.load(Ordering::SeqCst)))
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let flow = key.labels().find(|label| label.key() == "flow").map_or("", |label| label.value());
        let mut all = self.0.lock().unwrap();
        Gauge::from_arc(Arc::clone(all.entry((key.name().to_owned(), flow.to_owned())).or_default()))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Lets six messages of a flow with such a window wait for an hour, that failed an hour ago for the first time.
async fn lets_six_wait(stage: &Stage, window: Window) -> Seat {
    let flow = KafkaFlow { delay: DelayMode::Single, window, ..stage.flow() };
    stage.topics(1).await;
    stage.topic(&format!("{}-retry", stage.name), 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    stage.produce(&stage.name, 0, 0..6).await;
    let mut seat = Seat::new(flow).await;
    let taken = seat.take(6).await;
    let now = SystemClock::default().now();
    let hour = Duration::from_secs(3_600);
    let batch: Vec<Settlement> = taken
        .iter()
        .map(|one| {
            let mut settlement = Settlement::plain(one.clone(), Outcome::Delay { until: now + hour });
            let mut trail = (*one.trail).clone();
            trail.first_failure_at = Some(Timestamp::from_millis(now.as_millis() - 3_600_000));
            settlement.trail = Some(Box::new(trail));
            settlement
        })
        .collect();
    assert!(seat.broker.settle(&batch).await.iter().all(Result::is_ok));
    seat
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_tells_that_it_is_full_and_how_old_what_waits_is() {
    let gauges = Gauges::of_the_process();
    let (Some(narrow), Some(wide)) = (Stage::shared("narrow"), Stage::shared("wide")) else { return };
    let few = Window { records: 4, ..Window::default() };
    let seats = [lets_six_wait(&narrow, few).await, lets_six_wait(&wide, Window::default()).await];
    let is = async |name: &str, stage: &Stage, holds: fn(f64) -> bool| {
        let what = format!("{name} of {}", stage.name);
        eventually(&what, async || gauges.of(name, &stage.name).filter(|value| holds(*value)).map(drop))
            .await;
    };
    is("redrive_kafka_window_full", &narrow, |full| full > 0.5).await;
    is("redrive_kafka_window_records", &wide, |records| records > 5.5).await;
    is("redrive_kafka_window_full", &wide, |full| full < 0.5).await;
    for stage in [&narrow, &wide] {
        is("redrive_kafka_window_oldest_seconds", stage, |age| (3_600.0..7_200.0).contains(&age)).await;
    }
    for seat in seats {
        seat.leave().await;
    }
}
