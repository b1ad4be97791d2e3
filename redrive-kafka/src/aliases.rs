//! Options that librdkafka knows by two names. Given by both, the one that it is told last would hold, and what is chosen for
//! one name would not be seen by who looks for the other: so each option has one name here, whichever people use.

use std::collections::BTreeMap;

use redrive_engine::port::Refusal;

use crate::options::ClientOptions;

/// The other names of options, each with the one that is used here.
const ALIASES: [(&str, &str); 12] = [
    ("metadata.broker.list", "bootstrap.servers"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("sasl.mechanism", "sasl.mechanisms"),
    ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("message.send.max.retries", "retries"),
    ("compression.type", "compression.codec"),
    ("request.required.acks", "acks"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("auto.commit.enable", "enable.auto.commit"),
];

/// The one name of an option.
pub(crate) fn name(given: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == given).map_or(given, |(_, name)| name)
}

/// The same options, each by its one name.
pub(crate) fn by_one_name(options: &ClientOptions) -> ClientOptions {
    let renamed = options.options.iter().map(|(given, value)| (name(given).to_owned(), value.clone()));
    ClientOptions { bootstrap: options.bootstrap.clone(), options: renamed.collect() }
}

/// Refuses an option that is given by both of its names with two values: nobody can say which is meant.
pub(crate) fn refuse_two_values(options: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for (alias, name) in ALIASES {
        if let (Some(one), Some(other)) = (options.get(alias), options.get(name))
            && one != other
        {
            return Err(Refusal::Invalid(format!(
                "`{alias}` and `{name}` are one option of Kafka's client, and have two values: give one of them"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
