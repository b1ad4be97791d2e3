//! A flow on Kafka as people run it, with a function for its handler.

use std::sync::Arc;
use std::time::Duration;

use bench::{Measured, Place};
use redrive::engine::FlowSpec;
use redrive::engine::handler::Handler;
use redrive::setup::{self, InCode};
use redrive::{Instance, InstanceOptions, config};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::place;

/// What is read, and how.
pub(crate) struct Described<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) topic: &'a str,
    /// The schedule of retries.
    pub(crate) retry: &'a str,
    /// Whether what fails is written down in a data file.
    pub(crate) ledger: bool,
    /// More of the flow, as the file has it.
    pub(crate) more: Value,
}

/// A running flow.
pub(crate) struct Running {
    instance: Instance,
    _place: Place,
}

/// Starts it, and makes the topics that it needs.
pub(crate) async fn start(
    described: Described<'_>,
    handler: Arc<dyn Handler>,
    change: impl FnOnce(&mut FlowSpec),
) -> Measured<Running> {
    let name = described.cluster.name("flow");
    let mut flow = json!({
        "from": format!("kafka://{}/{}?group={name}", described.cluster.bootstrap, described.topic),
        "to": "exec:true",
        "retry": described.retry,
    });
    if let (Some(flow), Value::Object(mut more)) = (flow.as_object_mut(), described.more) {
        flow.append(&mut more);
    }
    let place = place()?;
    let text = json!({ "version": 1, "data": place.data, "flows": { &name: flow } }).to_string();
    let checked = config::check(text.as_bytes(), &|_| None);
    let config = checked.value.ok_or_else(|| format!("the flow cannot be used: {:?}", checked.findings))?;
    let in_code = InCode { handler: Some(handler), ..InCode::default() };
    let mut set_up = setup::flow(&config, &name, in_code, &|_| None)?;
    change(&mut set_up.spec);
    if !described.ledger {
        set_up = set_up.without_ledger()?;
    }
    let options = InstanceOptions { listen: None, ..InstanceOptions::new(&place.data) };
    let mut instance = Instance::open(options, None).await?;
    instance.start(set_up, "a function").await?;
    instance.ready();
    Ok(Running { instance, _place: place })
}

/// The endpoint of these flows is well, whatever single messages do.
pub(crate) fn unguarded(spec: &mut FlowSpec) {
    (spec.breaker, spec.retry_budget) = (None, None);
}

impl Running {
    /// Waits until nothing is in hand: everything that was handled is committed.
    pub(crate) async fn settled(&self) {
        while self.instance.views().iter().any(|view| view.in_hand() > 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn stop(self) {
        self.instance.stop(std::future::pending()).await;
    }
}
