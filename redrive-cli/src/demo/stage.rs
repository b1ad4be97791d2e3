//! Everything the demo needs, in a folder of its own: queue and ledger, the flow, the downstream, the orders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::config::{self, Config};
use redrive::engine::FlowView;
use redrive::engine::port::{Broker as _, EntryState, Ledger as _, NewMessage, Published};
use redrive::setup::{self, InCode};
use redrive::sqlite::Store;
use redrive::{Instance, InstanceOptions, codes};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::downstream::Downstream;
use super::figures::Figures;
use super::pace::Pace;
use super::script::{Order, RETRY_AFTER};
use crate::problem::{FAILED, Problem};

pub(crate) const FLOW: &str = "orders";
/// How often orders are placed.
const EVERY: Duration = Duration::from_millis(50);

/// The stage. End it with [`end`](Self::end).
#[derive(Debug)]
pub(crate) struct Stage {
    folder: TempDir,
    data: PathBuf,
    pub(crate) pace: Pace,
    pub(crate) downstream: Downstream,
    instance: Instance,
    view: FlowView,
    placed: Arc<AtomicU32>,
    /// Places the orders; gone when all are placed.
    shop: Option<JoinHandle<Result<(), String>>>,
}

pub(crate) fn failed(what: &str, why: impl std::fmt::Display) -> Problem {
    Problem::new(codes::CANNOT_RUN, FAILED, format!("{what}: {why}"))
}

impl Stage {
    /// Sets everything up; the script begins when this returns.
    pub(crate) async fn set(speed: f64) -> Result<Self, Problem> {
        let folder = tempfile::Builder::new()
            .prefix("redrive-demo-")
            .tempdir()
            .map_err(|error| failed("no folder for the demo's data", error))?;
        let data = folder.path().join("orders.db");
        let options = InstanceOptions { listen: None, ..InstanceOptions::new(&data) };
        let mut instance =
            Instance::open(options, None).await.map_err(|error| failed("the demo's data", error))?;
        let pace = Pace::new(speed);
        let downstream =
            Downstream::start(pace).await.map_err(|error| failed("the demo's downstream", error))?;
        let config = configuration(&downstream.url(), pace)?;
        let flow = setup::flow(&config, FLOW, InCode::default(), &|_| None);
        let flow = flow.map_err(|error| failed("the demo's flow", error))?;
        let started = instance.start(flow, &downstream.url()).await;
        started.map_err(|error| failed("the demo's flow", error))?;
        instance.ready();
        let view = instance.views().pop().ok_or_else(|| failed("the demo's flow", "it does not run"))?;
        let placed = Arc::new(AtomicU32::new(0));
        let shop = Some(tokio::spawn(place(Arc::clone(instance.store()), pace, Arc::clone(&placed))));
        Ok(Self { folder, data, pace, downstream, instance, view, placed, shop })
    }

    /// The data file, for the commands that people type.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn store(&self) -> &Store {
        self.instance.store()
    }

    /// What can be seen now.
    pub(crate) async fn look(&self) -> Result<Figures, Problem> {
        let at = self.pace.at();
        let unread = |error| failed("the demo's data", error);
        let queues = self.store().queues().await.map_err(unread)?;
        let counts = self.store().counts().await.map_err(unread)?;
        let depth =
            queues.iter().find(|queue| queue.name == FLOW).map(|queue| queue.depth).unwrap_or_default();
        let count = |state: EntryState| {
            counts.states.iter().filter(|count| count.state == state).map(|count| count.count).sum()
        };
        let calls = self.downstream.calls();
        Ok(Figures {
            at,
            placed: u64::from(self.placed.load(Ordering::Relaxed)),
            delivered: calls.orders,
            attempts: calls.all,
            failed: calls.failed,
            ready: depth.ready,
            waiting: depth.waiting,
            in_hand: self.view.in_hand() as u64,
            parked: count(EntryState::Parked),
            dead: count(EntryState::Dead),
            recovered: count(EntryState::Recovered),
            breaker: self.view.breaker(),
            alarms: alarms(&self.view),
        })
    }

    /// Whether every order has been placed; what went wrong when one could not be.
    pub(crate) async fn all_placed(&mut self) -> Result<bool, Problem> {
        if let Some(shop) = self.shop.take_if(|shop| shop.is_finished()) {
            let placed = shop.await.map_err(|error| error.to_string());
            placed.and_then(|placed| placed).map_err(|why| failed("orders cannot be placed", why))?;
        }
        Ok(self.shop.is_none())
    }

    /// Takes everything down and removes the folder. In a hurry, running calls are given up.
    pub(crate) async fn end(self, hurry: bool) -> Result<(), Problem> {
        if let Some(shop) = self.shop {
            shop.abort();
        }
        if hurry {
            self.instance.stop(std::future::ready(())).await;
        } else {
            self.instance.stop(std::future::pending()).await;
        }
        drop(self.downstream);
        remove(self.folder.path()).await
    }
}

/// Removes the folder. The store may be writing its last bytes, so this is tried for a while.
async fn remove(folder: &Path) -> Result<(), Problem> {
    let mut tries = 0;
    loop {
        match std::fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) if tries >= 100 => {
                return Err(failed(&format!("{} cannot be removed", folder.display()), error));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        tries += 1;
    }
}

/// What a person should know about the flow.
fn alarms(view: &FlowView) -> Vec<String> {
    view.alarms().into_iter().map(|alarm| format!("{}: {}", alarm.name, alarm.text)).collect()
}

/// The flow as a person would write it into `redrive.yaml`, at the demo's pace.
fn configuration(url: &str, pace: Pace) -> Result<Config, Problem> {
    let wait = |seconds: u64| format!("{}ms", pace.takes(Duration::from_secs(seconds)).as_millis());
    let retry = format!("{}, {}, {} x8 jitter 10%", wait(1), wait(2), wait(4));
    let file = json!({
        "version": 1,
        "policies": { "demo": {
            "retry": retry,
            "retry_after": { "min": wait(1), "max": wait(RETRY_AFTER.as_secs()) },
            "rules": [
                { "when": { "status": 400 }, "class": "POISON", "reason": "DESERIALIZATION_FAILED" },
            ],
        } },
        "flows": { FLOW: {
            "from": "queue:orders",
            "to": url,
            "policy": "demo",
            "concurrency": 16,
            "breaker": { "failure_share": 0.5, "min_calls": 20, "window": wait(10), "open": wait(3) },
            "retry_budget": { "share": 0.3, "floor": format!("{}/s", pace.rate(10)), "window": wait(10) },
            "facts": { "type": "header:type", "schema": "header:schema-version", "entity": "json:/order" },
            "owner": "team-orders",
        } },
    });
    let checked = config::check(file.to_string().as_bytes(), &|_| None);
    checked.value.ok_or_else(|| {
        let findings: Vec<_> = checked.findings.iter().map(ToString::to_string).collect();
        failed("the demo's flow", findings.join("; "))
    })
}

/// Places the orders of the script.
async fn place(store: Arc<Store>, pace: Pace, placed: Arc<AtomicU32>) -> Result<(), String> {
    let mut orders = Order::all().peekable();
    while orders.peek().is_some() {
        let due = Order::placed_by(pace.at());
        let batch: Vec<_> =
            std::iter::from_fn(|| orders.next_if(|order| order.0 < due)).map(message).collect();
        if !batch.is_empty() {
            let published = store.publish(FLOW, batch).await.map_err(|error| error.to_string())?;
            for one in published {
                if let Published::Refused(refusal) = one {
                    return Err(refusal.to_string());
                }
                placed.fetch_add(1, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

fn message(order: Order) -> NewMessage {
    let mut headers = redrive::core::Headers::default();
    headers.set("type", "order.placed");
    headers.set("schema-version", order.schema().to_string());
    NewMessage {
        id: Some(order.id()),
        key: Some(order.id().into_bytes().into()),
        body: Some(order.body().into_bytes().into()),
        content_type: Some("application/json".to_owned()),
        headers,
        due: None,
    }
}
