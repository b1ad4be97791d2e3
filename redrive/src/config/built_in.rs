//! What this build can run. A setting of a part that is not in it is checked all the same, and named.

/// Whether Kafka is in this build.
const KAFKA: bool = cfg!(feature = "kafka");

/// Whether RabbitMQ is in this build.
const RABBITMQ: bool = cfg!(feature = "rabbitmq");

/// The parts, and whether they are in this build.
pub const BUILT_IN: &[(&str, bool)] =
    &[("embedded", true), ("kafka", KAFKA), ("rabbitmq", RABBITMQ), ("postgres", false), ("tls", false)];

/// Whether a part is in this build.
pub fn is_built_in(part: &str) -> bool {
    BUILT_IN.iter().any(|(name, there)| *name == part && *there)
}
