//! The figures of the process, kept for Prometheus.
//!
//! A recorder for the crate `metrics`. What is told to a histogram goes into its bucket at once: a flow tells two values a
//! message, and kept one by one until somebody asks, those of a second would take more room than the messages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};

/// Seconds, from a handler in this process to a retry that is a day late.
const SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 86_400.0];
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0];
/// For what others record: nobody knows what it is.
const ANYTHING: &[f64] =
    &[0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0, 1e9];

/// Threads that record at once seldom meet in one shard.
const SHARDS: usize = 4;

/// Takes in what is recorded; to be installed once for the process, by [`install`].
#[derive(Debug, Default)]
pub struct Recorder {
    figures: Figures,
}

impl Recorder {
    /// A recorder that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it takes in.
    pub fn figures(&self) -> Figures {
        self.figures.clone()
    }
}

/// Installs a recorder for the whole process; answers whether it was the first.
pub fn install(recorder: Recorder) -> bool {
    metrics::set_global_recorder(recorder).is_ok()
}

/// Installs a recorder for the whole process. Nothing when there is one already.
pub fn keep_figures() -> Option<Figures> {
    let recorder = Recorder::new();
    let figures = recorder.figures();
    install(recorder).then_some(figures)
}

/// What a [`Recorder`] has taken in. Clones share it.
///
/// ```
/// use redrive_server::Recorder;
///
/// let recorder = Recorder::new();
/// metrics::with_local_recorder(&recorder, || metrics::counter!("orders_total", "kind" => "new").increment(2));
/// assert!(recorder.figures().render().contains("orders_total{kind=\"new\"} 2\n"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Figures(Arc<Mutex<Families>>);

#[derive(Debug, Default)]
struct Families {
    helps: BTreeMap<String, SharedString>,
    counters: BTreeMap<String, BTreeMap<String, Arc<AtomicU64>>>,
    gauges: BTreeMap<String, BTreeMap<String, Arc<AtomicU64>>>,
    histograms: BTreeMap<String, BTreeMap<String, Arc<Buckets>>>,
}

impl Figures {
    fn families(&self) -> MutexGuard<'_, Families> {
        // Maps that are only added to: a panic elsewhere cannot leave them half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it in Prometheus' text format.
    pub fn render(&self) -> String {
        let families = self.families();
        let mut text = String::new();
        for (name, series) in &families.counters {
            families.head(&mut text, name, "counter");
            for (labels, value) in series {
                sample(&mut text, name, "", labels, None, value.load(Ordering::Relaxed) as f64);
            }
        }
        for (name, series) in &families.gauges {
            families.head(&mut text, name, "gauge");
            for (labels, value) in series {
                sample(&mut text, name, "", labels, None, f64::from_bits(value.load(Ordering::Relaxed)));
            }
        }
        for (name, series) in &families.histograms {
            families.head(&mut text, name, "histogram");
            for (labels, buckets) in series {
                buckets.write(&mut text, name, labels);
            }
        }
        text
    }
}

impl Families {
    fn head(&self, text: &mut String, name: &str, kind: &str) {
        // Writing into a text cannot fail.
        if let Some(help) = self.helps.get(name) {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP {name} {help}");
        }
        let _ = writeln!(text, "# TYPE {name} {kind}");
    }
}

fn sample(text: &mut String, name: &str, suffix: &str, labels: &str, le: Option<&str>, value: f64) {
    let _ = write!(text, "{name}{suffix}");
    let le = le.map(|le| format!("le=\"{le}\""));
    let all: Vec<&str> =
        [Some(labels), le.as_deref()].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    if !all.is_empty() {
        let _ = write!(text, "{{{}}}", all.join(","));
    }
    let _ = writeln!(text, " {value}");
}

/// A name that Prometheus takes.
fn name_of(name: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || character == ':' { character } else { '_' }
    };
    let digit = name.starts_with(|first: char| first.is_ascii_digit());
    let prefix = if digit { "_" } else { "" };
    prefix.chars().chain(name.chars().map(plain)).collect()
}

fn labels_of(key: &Key) -> String {
    let mut labels: Vec<_> = key.labels().map(|label| (name_of(label.key()), label.value())).collect();
    labels.sort();
    let mut text = String::new();
    for (name, value) in labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

/// The series of a key, which is made when it is new.
fn series<T>(
    families: &mut BTreeMap<String, BTreeMap<String, Arc<T>>>,
    key: &Key,
    new: impl FnOnce() -> T,
) -> Arc<T> {
    let family = families.entry(name_of(key.name())).or_default();
    Arc::clone(family.entry(labels_of(key)).or_insert_with(|| Arc::new(new())))
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.figures.families().helps.insert(name_of(name.as_str()), help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(series(&mut self.figures.families().counters, key, AtomicU64::default))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(series(&mut self.figures.families().gauges, key, AtomicU64::default))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let new = || Buckets::new(bounds(key.name()));
        Histogram::from_arc(series(&mut self.figures.families().histograms, key, new))
    }
}

fn bounds(name: &str) -> &'static [f64] {
    if name.ends_with("_seconds") {
        SECONDS
    } else if name == "redrive_attempts_to_success" {
        ATTEMPTS
    } else {
        ANYTHING
    }
}

/// How often a value was at most so large.
#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    shards: [Shard; SHARDS],
}

#[derive(Debug)]
struct Shard {
    /// One for each bound, and one for what is larger.
    counts: Box<[AtomicU64]>,
    /// The bits of an `f64`: whole numbers of anything small would run over for sizes in bytes.
    sum: AtomicU64,
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = || (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, shards: std::array::from_fn(|_| Shard { counts: counts(), sum: AtomicU64::new(0) }) }
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut so_far = 0;
        for place in 0..=self.bounds.len() {
            let of = |shard: &Shard| shard.counts.get(place).map_or(0, |count| count.load(Ordering::Relaxed));
            so_far += self.shards.iter().map(of).sum::<u64>();
            let le = self.bounds.get(place).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            sample(text, name, "_bucket", labels, Some(&le), so_far as f64);
        }
        let of = |shard: &Shard| f64::from_bits(shard.sum.load(Ordering::Relaxed));
        sample(text, name, "_sum", labels, None, self.shards.iter().map(of).sum());
        sample(text, name, "_count", labels, None, so_far as f64);
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let place = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        let Some(shard) = self.shards.get(own_shard()) else { return };
        if let Some(bucket) = shard.counts.get(place) {
            bucket.fetch_add(count as u64, Ordering::Relaxed);
        }
        let added = value * count as f64;
        // A sum that falls would be taken for that of a process that began anew.
        if added.is_finite() && added > 0.0 {
            let add = |sum: u64| Some((f64::from_bits(sum) + added).to_bits());
            let _ = shard.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }
}

fn own_shard() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) as usize % SHARDS;
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use metrics::{counter, gauge, histogram};

    use super::*;

    fn rendered(work: impl FnOnce()) -> String {
        let recorder = Recorder::new();
        metrics::with_local_recorder(&recorder, work);
        recorder.figures().render()
    }

    #[test]
    fn every_kind_is_told() {
        let text = rendered(|| {
            metrics::describe_counter!("calls_total", "Calls\nof all.");
            counter!("calls_total", "flow" => "orders", "by" => "a").increment(3);
            counter!("calls_total", "by" => "a", "flow" => "orders").increment(1);
            gauge!("depth").set(2.5);
            let seconds = histogram!("wait_seconds", "flow" => "orders");
            seconds.record(0.001);
            seconds.record(0.002);
            seconds.record_many(100_000.0, 2);
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..5],
            [
                r"# HELP calls_total Calls\nof all.",
                "# TYPE calls_total counter",
                r#"calls_total{by="a",flow="orders"} 4"#,
                "# TYPE depth gauge",
                "depth 2.5",
            ]
        );
        for line in [
            "# TYPE wait_seconds histogram",
            r#"wait_seconds_bucket{flow="orders",le="0.001"} 1"#,
            r#"wait_seconds_bucket{flow="orders",le="0.005"} 2"#,
            r#"wait_seconds_bucket{flow="orders",le="86400"} 2"#,
            r#"wait_seconds_bucket{flow="orders",le="+Inf"} 4"#,
            r#"wait_seconds_sum{flow="orders"} 200000.003"#,
            r#"wait_seconds_count{flow="orders"} 4"#,
        ] {
            assert!(lines.contains(&line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_is_no_number_or_has_no_size_breaks_nothing() {
        let text = rendered(|| {
            let sizes = histogram!("size");
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
                sizes.record(value);
            }
        });
        assert!(text.contains("size_count 4\n") && text.contains("size_sum 0\n"), "{text}");
    }

    #[test]
    fn a_sum_of_large_sizes_does_not_run_over() {
        let text = rendered(|| histogram!("body_bytes").record_many(1e12, 50));
        assert!(text.contains("body_bytes_sum 50000000000000\n"), "{text}");
    }

    #[test]
    fn a_name_or_a_label_cannot_break_out_of_its_place() {
        let text = rendered(|| counter!("0 a.b\n", "l\"x" => "\"}\n\\ 1").increment(1));
        assert_eq!(text, "# TYPE _0_a_b_ counter\n_0_a_b_{l_x=\"\\\"}\\n\\\\ 1\"} 1\n");
    }

    #[test]
    fn threads_add_up() {
        let recorder = Recorder::new();
        let seconds = metrics::with_local_recorder(&recorder, || histogram!("wait_seconds"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|_| seconds.record(0.5)));
            }
        });
        let text = recorder.figures().render();
        assert!(
            text.contains("wait_seconds_count 8000\n") && text.contains("wait_seconds_sum 4000\n"),
            "{text}"
        );
    }
}
