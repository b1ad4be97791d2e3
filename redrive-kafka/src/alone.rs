//! Who else is in a flow's groups.
//!
//! Order and controls live in the ledger. Members that each have a ledger of their own would not know of each other's
//! lanes, so such a flow has to be alone.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaResult;
use rdkafka::groups::GroupInfo;
use redrive_engine::port::{PortError, Refusal};

use crate::KafkaFlow;
use crate::client::{self, ANSWER};
use crate::look::{self, Look};

/// The members of the flow's groups whose client is not this instance's, by client id and host.
pub(crate) async fn others(look: &Arc<Look>) -> Result<Vec<String>, PortError> {
    let flow = look.flow().clone();
    let groups = [flow.groups.main.clone(), flow.groups.retry.clone()];
    look.ask(move |consumer| {
        let mut others = Vec::new();
        for group in groups {
            let doing = format!("cannot list the members of `{group}`");
            others.extend(look::again(&doing, || in_group(consumer, &flow, &group, ANSWER))?);
        }
        others.sort();
        others.dedup();
        Ok(others)
    })
    .await
}

/// The members of one group whose client is not this instance's.
pub(crate) fn in_group<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    flow: &KafkaFlow,
    group: &str,
    patience: Duration,
) -> KafkaResult<Vec<String>> {
    let own = client::client_id(flow);
    let found = consumer.fetch_group_list(Some(group), patience)?;
    let members = found.groups().iter().flat_map(GroupInfo::members);
    let others = members.filter(|member| member.client_id() != own);
    Ok(others.map(|member| format!("{} at {}", member.client_id(), member.client_host())).collect())
}

/// Refuses a flow that has to be alone and is not, by the names of the others.
pub(crate) async fn refuse_others(look: &Arc<Look>) -> Result<(), PortError> {
    let others = others(look).await?;
    if others.is_empty() {
        return Ok(());
    }
    Err(Refusal::State(not_alone(&look.flow().groups.main, &others)).into())
}

/// What is said of others.
pub(crate) fn not_alone(group: &str, others: &[String]) -> String {
    format!(
        "the group `{group}` has other members ({}) that share no ledger with this one, so they would not know of its lanes and of what people do",
        others.join(", ")
    )
}

#[cfg(test)]
mod tests;
