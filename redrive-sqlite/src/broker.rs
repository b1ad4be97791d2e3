//! The broker's side of the store.

use async_trait::async_trait;
use redrive_engine::port::{
    Broker, Capabilities, NewMessage, PortError, Published, QueueInfo, Refusal, Settled, Settlement, Source,
    Subscription, Topology, home_of,
};

use crate::publish::{self, queue_name};
use crate::settle;
use crate::source::{self, QueueSource};
use crate::store::Store;

#[async_trait]
impl Broker for Store {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "embedded",
            exact_delay: true,
            null_body: true,
            ordered: true,
            records_in_settle: true,
            waiting_is_reachable: true,
            unique_ids: true,
            lanes: true,
            partitions: false,
        }
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        let name = queue_name(&subscription.source).to_owned();
        self.inner
            .readers
            .run(move |sql| {
                let exists =
                    sql.prepare_cached("SELECT 1 FROM queues WHERE name = ?1")?.exists([name.as_str()])?;
                Ok(vec![Topology::new("queue", &name, exists)])
            })
            .await
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        let mut names = Vec::new();
        for wanted in topology {
            if wanted.kind != "queue" {
                let text = format!("an embedded broker has queues, no {}", wanted.kind);
                return Err(Refusal::Invalid(text).into());
            }
            names.push(queue_name(&wanted.name).to_owned());
        }
        self.inner.writer.run(move |tx| names.iter().try_for_each(|name| tx.queue(name).map(drop))).await
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        let name = queue_name(&subscription.source).to_owned();
        let (wanted, flow) = (name.clone(), subscription.flow.clone());
        let (queue, home) = self
            .inner
            .writer
            .run(move |tx| {
                let is_home = wanted == home_of(&flow);
                let queue = if is_home { tx.home(&flow)? } else { tx.queue(&wanted)? };
                Ok((queue, tx.meta(queue)?.home))
            })
            .await?;
        let reading = self.inner.readings.of(queue);
        let epoch = {
            let mut state = reading.lock();
            if state.subscribed {
                let text = format!("the queue `{name}` already has a reader; one flow reads one queue");
                return Err(Refusal::State(text).into());
            }
            state.restart(subscription.headers.clone())
        };
        let rules = subscription.headers.clone();
        let source = QueueSource::new(self.clone(), queue, epoch, name.into(), rules, home);
        Ok(Box::new(source))
    }

    async fn full(&self, queue: &str) -> Result<Option<u64>, PortError> {
        let queues = self.queues().await?;
        let found = queues.into_iter().find(|found| found.name == queue_name(queue));
        Ok(found
            .and_then(|found| found.limit.filter(|limit| found.depth.ready + found.depth.waiting >= *limit)))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        settle::settle(self, batch).await
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        publish::publish(self, target, messages).await
    }

    async fn ready(&self) -> Result<(), PortError> {
        self.inner.writer.ready().await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        let (now, default) = (self.now().as_millis(), self.inner.options.queue_limit);
        self.inner
            .readers
            .run(move |sql| {
                let mut statement =
                    sql.prepare_cached("SELECT id, name, size_limit, dedup_ms FROM queues ORDER BY name")?;
                let mut rows = statement.query([])?;
                let mut queues = Vec::new();
                while let Some(row) = rows.next()? {
                    queues.push(QueueInfo {
                        name: row.get(1)?,
                        depth: source::depth(sql, row.get(0)?, now)?,
                        limit: Some(row.get::<_, Option<u64>>(2)?.unwrap_or(default)),
                        dedup_ms: row.get(3)?,
                    });
                }
                Ok(queues)
            })
            .await
    }
}
