//! Kafka under Redrive, on a real Kafka.

mod ahead;
mod alarms;
mod bytes;
mod changes;
mod faults;
mod flows;
mod gates;
mod groups;
mod lanes;
mod positions;
mod settling;
mod stage;
mod waiting;
