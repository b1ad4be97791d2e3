//! What a client shows of its calls when it is asked to, and that it shows nothing when it is not.
#![cfg(feature = "telemetry")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redrive_retry::guard::BreakerConfig;
use redrive_retry::telemetry::Telemetry;
use redrive_retry::{CircuitBreaker, Jitter, Retryer, TokioClock};
use tracing::field::{Field, Visit};
use tracing::span;

/// Counts by name and labels.
#[derive(Default)]
struct Counts {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    waits: Arc<Waits>,
}

#[derive(Default)]
struct Waits(Mutex<Vec<f64>>);

impl metrics::HistogramFn for Waits {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(","));
        Counter::from_arc(Arc::clone(self.counters.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        assert_eq!(key.name(), "redrive_client_backoff_seconds");
        Histogram::from_arc(Arc::clone(&self.waits))
    }
}

impl Counts {
    fn counted(&self) -> Vec<(String, u64)> {
        let counters = self.counters.lock().unwrap();
        let all = counters.iter().map(|(name, count)| (name.clone(), count.load(Ordering::SeqCst)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// Writes down the fields of every span, and which one each event came in.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>, Arc<Mutex<Vec<span::Id>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        spans.push(fields);
        span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()[id.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        assert_eq!(event.metadata().target(), "inside");
        let entered = self.1.lock().unwrap().last().map(span::Id::into_u64).expect("no span is entered");
        let span = &mut self.0.lock().unwrap()[entered as usize - 1];
        let mut said = span.remove("events").unwrap_or_default();
        event.record(&mut |_: &Field, value: &dyn Debug| said += &format!("{value:?};"));
        span.insert("events".to_owned(), said);
    }

    fn enter(&self, id: &span::Id) {
        self.1.lock().unwrap().push(id.clone());
    }

    fn exit(&self, id: &span::Id) {
        assert_eq!(self.1.lock().unwrap().pop().as_ref(), Some(id));
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_counted_and_every_attempt_has_its_span() {
    let (counts, spans) = (Counts::default(), Spans::default());
    let _recording = metrics::set_default_local_recorder(&counts);
    let _tracing = tracing::subscriber::set_default(spans.clone());
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    let retryer = Retryer::builder()
        .attempts(2)
        .jitter(Jitter::None)
        .breaker(breaker.clone())
        .retry_if(|error: &&str| *error == "busy")
        .telemetry(Telemetry::new("warehouse"))
        .clock(TokioClock)
        .build()
        .unwrap();

    retryer
        .call(|attempt| {
            tracing::info!(target: "inside", "begins");
            async move {
                tracing::info!(target: "inside", "called");
                tokio::time::sleep(Duration::from_millis(1)).await;
                tracing::info!(target: "inside", "goes on");
                if attempt.is_first() { std::future::pending().await } else { Ok::<_, &str>(()) }
            }
        })
        .await
        .unwrap();
    retryer.call(|_| async { Err::<(), _>("busy") }).await.unwrap_err();
    retryer.call(|_| async { Err::<(), _>("wrong") }).await.unwrap_err();
    breaker.force_open();
    retryer.call(|_| async { Ok::<_, &str>(()) }).await.unwrap_err();
    retryer.call_blocking(|_| Ok::<_, &str>(())).unwrap_err();

    let of = |name: &str, labels: &str, count| (format!("{name} client=warehouse{labels}"), count);
    assert_eq!(
        counts.counted(),
        [
            of("redrive_client_attempts_total", ",result=failure", 3),
            of("redrive_client_attempts_total", ",result=success", 1),
            of("redrive_client_attempts_total", ",result=timeout", 1),
            of("redrive_client_calls_total", ",result=failure", 1),
            of("redrive_client_calls_total", ",result=gave_up", 1),
            of("redrive_client_calls_total", ",result=refused", 2),
            of("redrive_client_calls_total", ",result=success", 1),
            of("redrive_client_retries_total", "", 2),
            of("redrive_client_stops_total", ",by=attempts", 1),
            of("redrive_client_stops_total", ",by=breaker", 2),
            of("redrive_client_stops_total", ",by=final", 1),
        ]
    );
    assert_eq!(*counts.waits.0.lock().unwrap(), [0.2, 0.2]);
    let shown: Vec<String> = spans
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|span| format!("{} {} {}", span["client"], span["retry.attempt"], span["retry.last"]))
        .collect();
    assert_eq!(
        shown,
        [
            r#""warehouse" 1 false"#,
            r#""warehouse" 2 true"#,
            r#""warehouse" 1 false"#,
            r#""warehouse" 2 true"#,
            r#""warehouse" 1 true"#
        ]
    );
    for attempt in &spans.0.lock().unwrap()[..2] {
        assert_eq!(attempt["events"], "begins;called;goes on;", "each attempt runs in its own span");
    }
    assert!(spans.1.lock().unwrap().is_empty(), "every span was left");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_was_decided_and_never_began_is_none() {
    let (counts, spans) = (Counts::default(), Spans::default());
    let _recording = metrics::set_default_local_recorder(&counts);
    let _tracing = tracing::subscriber::set_default(spans.clone());
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    let retryer = Retryer::builder()
        .jitter(Jitter::None)
        .breaker(breaker.clone())
        .telemetry(Telemetry::new("warehouse"))
        .clock(TokioClock)
        .build()
        .unwrap();
    let opens = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        breaker.force_open();
    };
    // The second attempt comes after 200 ms, and the third would after 600.
    let (ended, ()) = tokio::join!(retryer.call(|_| async { Err::<(), _>("busy") }), opens);
    assert_eq!(ended.unwrap_err().attempts(), 2);
    breaker.force_close();
    // Nobody waits for the second attempt of this one.
    let dropped = retryer.call(|_| async { Err::<(), _>("busy") });
    tokio::time::timeout(Duration::from_millis(100), dropped).await.unwrap_err();

    let counted = counts.counted();
    let retries = counted.iter().find(|(name, _)| name.starts_with("redrive_client_retries_total"));
    assert_eq!(retries.map(|(_, count)| *count), Some(1), "{counted:?}");
    assert_eq!(*counts.waits.0.lock().unwrap(), [0.2]);
    let spans = spans.0.lock().unwrap();
    let last = |span: &BTreeMap<String, String>| span.get("retry.last").cloned();
    let shown: Vec<_> = spans.iter().map(last).collect();
    assert_eq!(shown, [Some("false".to_owned()), Some("true".to_owned()), Some("true".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_unless_it_is_asked_for() {
    let (counts, spans) = (Counts::default(), Spans::default());
    let _recording = metrics::set_default_local_recorder(&counts);
    let _tracing = tracing::subscriber::set_default(spans.clone());
    let retryer = Retryer::builder().clock(TokioClock).build().unwrap();
    retryer.call(|_| async { Err::<(), _>("busy") }).await.unwrap_err();
    assert_eq!(counts.counted(), []);
    assert!(spans.0.lock().unwrap().is_empty());
}
