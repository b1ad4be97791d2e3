//! What the members of a flow on Kafka have in common.

use std::net::SocketAddr;

use crate::cluster::Cluster;
use crate::http::ASKED;

/// What the members of a flow have in common.
pub(crate) struct Setting<'a> {
    pub(crate) cluster: &'a Cluster,
    /// Where the handler listens.
    pub(crate) handler: SocketAddr,
    /// `transactional` or `plain`.
    pub(crate) settle: &'a str,
    /// Where messages wait.
    pub(crate) delay: &'a str,
    /// The schedule of the flow, as the file has it.
    pub(crate) retries: &'a str,
    /// How many calls may run at once.
    pub(crate) concurrency: usize,
    /// Whose order is kept.
    pub(crate) order_by: &'a str,
}

impl Setting<'_> {
    /// A process that is killed is no message's fault here, so crashes are not held against any. And without its
    /// breaker, since a handler that is down would hold the flow instead of using the attempts up. What a handler asks for
    /// is the longest wait, so that there are no levels of which nothing is tested.
    pub(crate) fn config(&self) -> String {
        let (name, bootstrap) = (&self.cluster.name, self.cluster.bootstrap());
        let Self { handler, settle, delay, retries, concurrency, order_by, .. } = self;
        format!(
            "version: 1
brokers:
  main: {{ kafka: {{ bootstrap: \"{bootstrap}\", options: {{ session.timeout.ms: \"6000\" }} }} }}
flows:
  {name}:
    from: kafka://main/{name}?group={name}
    to: http://{handler}/orders
    {retries}
    concurrency: {concurrency}
    order_by: {order_by}
    settle: {settle}
    delay: {delay}
    policy: {{ retry_after: {{ max: {}s }} }}
    crash_limit: 100
    breaker: {{ consecutive: 0, min_calls: 100000 }}
",
            ASKED.as_secs()
        )
    }
}
