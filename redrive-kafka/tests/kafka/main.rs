//! Kafka under Redrive, on a real Kafka.

mod ahead;
mod alarms;
mod bytes;
mod changes;
mod faults;
mod figures;
mod flows;
mod gates;
mod groups;
mod halting;
mod lanes;
mod positions;
mod restarting;
mod settling;
mod shared_topic;
mod stage;
mod waiting;
