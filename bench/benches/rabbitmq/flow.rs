//! A flow on RabbitMQ as people run it, with a function for its handler.

use std::sync::Arc;
use std::time::Duration;

use bench::{Measured, Place};
use redrive::engine::handler::Handler;
use redrive::engine::port::{Broker as _, Subscription};
use redrive::rabbitmq::{RabbitBroker, RabbitFlow};
use redrive::setup::{self, InCode, Setup};
use redrive::{Instance, InstanceOptions, config};
use serde_json::{Value, json};

use crate::place;
use crate::rabbit::{PREFETCH, Rabbit};

/// What is read, and how.
pub(crate) struct Described<'a> {
    pub(crate) rabbit: &'a Rabbit,
    pub(crate) queue: &'a str,
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
    flow: RabbitFlow,
    _place: Place,
}

/// Starts it, and makes the queues that it needs.
pub(crate) async fn start(
    described: Described<'_>,
    handler: Arc<dyn Handler>,
    change: impl FnOnce(&mut Setup),
) -> Measured<Running> {
    let name = described.rabbit.name("flow");
    let mut flow = json!({
        "from": format!("{}?queue={}&prefetch={PREFETCH}", described.rabbit.address, described.queue),
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
    change(&mut set_up);
    if !described.ledger {
        set_up = set_up.without_ledger()?;
    }
    let setup::Place::RabbitMq(flow) = &set_up.place else {
        return Err("a flow that is not on RabbitMQ".into());
    };
    let flow = RabbitFlow::clone(flow);
    let options = InstanceOptions { listen: None, ..InstanceOptions::new(&place.data) };
    let mut instance = Instance::open(options, None).await?;
    instance.start(set_up, "a function").await?;
    instance.ready();
    Ok(Running { instance, flow, _place: place })
}

/// The endpoint of these flows is well, whatever single messages do.
pub(crate) fn unguarded(set_up: &mut Setup) {
    (set_up.spec.breaker, set_up.spec.retry_budget) = (None, None);
}

impl Running {
    /// Waits until nothing is in hand: everything that was handled is acknowledged.
    pub(crate) async fn settled(&self) {
        while self.instance.views().iter().any(|view| view.in_hand() > 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Stops it, and deletes its queues: a broker with many of them is slower for those that come after.
    pub(crate) async fn stop(self, rabbit: &Rabbit) -> Measured<()> {
        self.instance.stop(std::future::pending()).await;
        let subscription = Subscription::new(&*self.flow.flow, self.flow.queue.as_str());
        let plan = RabbitBroker::new(self.flow)?.plan(&subscription).await?;
        let of = |kind: &str| -> Vec<&str> {
            let there = plan.iter().filter(|thing| thing.exists && thing.kind == kind);
            there.map(|thing| thing.name.as_str()).collect()
        };
        rabbit.delete_all(&of("queue"), &of("exchange")).await
    }
}
