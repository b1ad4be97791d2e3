//! What is counted about Kafka itself.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge, histogram};

/// Partitions came or went.
pub(crate) fn rebalanced(flow: &Arc<str>) {
    counter!("redrive_kafka_rebalances_total", "flow" => flow.to_string()).increment(1);
}

/// A transaction was given up.
pub(crate) fn aborted(flow: &Arc<str>) {
    counter!("redrive_kafka_transaction_aborts_total", "flow" => flow.to_string()).increment(1);
}

/// A commit took so long, and so many records were in it.
pub(crate) fn committed(flow: &Arc<str>, took: Duration, records: usize) {
    histogram!("redrive_kafka_commit_seconds", "flow" => flow.to_string()).record(took);
    counter!("redrive_kafka_committed_total", "flow" => flow.to_string()).increment(records as u64);
}

/// So many records were read before their time.
pub(crate) fn waiting(flow: &Arc<str>, records: usize) {
    gauge!("redrive_kafka_window_records", "flow" => flow.to_string()).set(records as f64);
}

/// How long ago the oldest of them failed first.
pub(crate) fn oldest_waiting(flow: &Arc<str>, age: Duration) {
    gauge!("redrive_kafka_window_oldest_seconds", "flow" => flow.to_string()).set(age.as_secs_f64());
}

/// Whether no more can be read before its time.
pub(crate) fn window_full(flow: &Arc<str>, full: bool) {
    gauge!("redrive_kafka_window_full", "flow" => flow.to_string()).set(f64::from(u8::from(full)));
}

/// How much of a partition is not finished.
pub(crate) fn lag(flow: &str, topic: &str, partition: i32, lag: u64) {
    let labels =
        [("flow", flow.to_owned()), ("topic", topic.to_owned()), ("partition", partition.to_string())];
    gauge!("redrive_source_lag", &labels).set(lag as f64);
}
