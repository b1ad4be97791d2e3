//! Apache Kafka in KRaft combined mode, straight from its jars: no installation, two seconds to start.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::tied;
use crate::error::{Context, Result};
use crate::install;

use super::kafka_wire;
use super::maven::{Workshop, write};
use super::ports;
use super::process::{Process, finish};
use super::service::{Service, Site, Trouble};

/// The version, as in the pom.
const VERSION: &str = "4.3.0";
const POM: &str = include_str!("kafka-pom.xml");
const LOGGING: &str = include_str!("kafka-log4j2.xml");
/// Any 16 bytes in base64 would do.
const CLUSTER_ID: &str = "cmVkcml2ZS10ZXN0LWtmaw";

/// One broker or a cluster of them.
pub(super) struct Kafka {
    jars: PathBuf,
    site: Site,
    nodes: Vec<Ports>,
}

#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    controller: u16,
}

impl Kafka {
    pub(super) fn prepare(nodes: usize, site: Site) -> std::result::Result<Self, Trouble> {
        if let Some(java) = install::JAVA.first().filter(|java| !(java.present)()) {
            return Err(Trouble::Unavailable(format!("{} is not installed", java.what)));
        }
        let workshop = Workshop { logs: site.logs.clone(), ending: site.ending.clone() };
        let jars = workshop.jars(&format!("kafka-{VERSION}"), POM)?;
        let nodes = (0..nodes.clamp(1, 9))
            .map(|_| Ok(Ports { client: ports::free()?, controller: ports::free()? }))
            .collect::<Result<Vec<_>>>()?;
        let kafka = Self { jars, site, nodes };
        for node in 0..kafka.nodes.len() {
            kafka.format(node)?;
        }
        Ok(kafka)
    }

    /// Writes a node's settings and prepares its storage.
    fn format(&self, node: usize) -> Result<()> {
        let folder = self.folder(node);
        fs::create_dir_all(&folder).context(format_args!("cannot create {}", folder.display()))?;
        write(&folder.join("log4j2.xml"), LOGGING)?;
        write(&folder.join("server.properties"), &self.properties(node))?;
        let mut command = self.java(node, "format");
        command
            .args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"])
            .arg(folder.join("server.properties"));
        let log = self.site.log(&format!("format-{node}"));
        finish(&mut command, &log, Duration::from_mins(2), &self.site.ending)
    }

    fn properties(&self, node: usize) -> String {
        let Ports { client, controller } = self.nodes[node];
        let voters: Vec<String> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, ports)| format!("{}@127.0.0.1:{}", index + 1, ports.controller))
            .collect();
        let copies = self.nodes.len().min(3);
        let in_sync = if copies >= 3 { 2 } else { 1 };
        let node_id = node + 1;
        format!(
            "process.roles=broker,controller\n\
             node.id={node_id}\n\
             controller.quorum.voters={voters}\n\
             listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{client}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             controller.listener.names=CONTROLLER\n\
             log.dirs={data}\n\
             auto.create.topics.enable=false\n\
             default.replication.factor={copies}\n\
             min.insync.replicas={in_sync}\n\
             offsets.topic.replication.factor={copies}\n\
             offsets.topic.num.partitions=8\n\
             transaction.state.log.replication.factor={copies}\n\
             transaction.state.log.min.isr={in_sync}\n\
             transaction.state.log.num.partitions=8\n\
             share.coordinator.state.topic.replication.factor={copies}\n\
             share.coordinator.state.topic.min.isr={in_sync}\n\
             share.coordinator.state.topic.num.partitions=4\n\
             group.initial.rebalance.delay.ms=0\n\
             group.min.session.timeout.ms=1000\n\
             log.cleaner.dedupe.buffer.size=8388608\n\
             {own}\n",
            voters = voters.join(","),
            data = self.folder(node).join("data").display(),
            own = self.site.settings.as_deref().unwrap_or_default(),
        )
    }

    fn java(&self, node: usize, role: &str) -> Command {
        let folder = self.folder(node);
        let mut settings = std::ffi::OsString::from("-Dlog4j2.configurationFile=");
        settings.push(folder.join("log4j2.xml"));
        let mut command = tied("KILL", "java");
        command
            .current_dir(&folder)
            // A person's own JVM settings must not reach the server.
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("_JAVA_OPTIONS")
            .env("KAFKA_LOG", self.site.log(&format!("{role}-{node}-log4j")))
            .args(["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"])
            .arg(settings)
            .arg("-cp")
            .arg(self.jars.join("*"));
        command
    }

    fn folder(&self, node: usize) -> PathBuf {
        self.site.folder.join(format!("node-{node}"))
    }
}

impl Service for Kafka {
    fn version(&self) -> String {
        VERSION.to_owned()
    }

    fn address(&self) -> String {
        let addresses: Vec<String> =
            self.nodes.iter().map(|ports| format!("127.0.0.1:{}", ports.client)).collect();
        addresses.join(",")
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn spawn(&mut self, node: usize) -> Result<Process> {
        let mut command = self.java(node, "server");
        command.arg("kafka.Kafka").arg(self.folder(node).join("server.properties"));
        Process::spawn(&mut command, &self.site.log(&format!("node-{node}")))
    }

    fn healthy(&self, nodes: &[usize]) -> std::result::Result<(), String> {
        // With a majority of voters gone there is no controller, and nothing more to wait for than the port.
        let quorum = nodes.len() * 2 > self.nodes.len();
        for node in nodes {
            let port = self.nodes[*node].client;
            let brokers = kafka_wire::brokers(port).map_err(|error| format!("port {port}: {error}"))?;
            if quorum && brokers < nodes.len() {
                return Err(format!("port {port} knows {brokers} of {} brokers", nodes.len()));
            }
        }
        Ok(())
    }

    fn stop_signal(&self) -> (Signal, Duration) {
        (Signal::TERM, Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::service::Ending;

    fn kafka(nodes: u16) -> Kafka {
        let site = Site {
            folder: "/nowhere".into(),
            logs: "/nowhere".into(),
            name: "kafka-test".to_owned(),
            settings: None,
            ending: Ending::default(),
        };
        let nodes = (0..nodes).map(|n| Ports { client: 1000 + n, controller: 2000 + n }).collect();
        Kafka { jars: PathBuf::new(), site, nodes }
    }

    #[test]
    fn a_single_node_keeps_one_copy() {
        let text = kafka(1).properties(0);
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:2000\n"));
        assert!(text.contains("default.replication.factor=1\n") && text.contains("min.insync.replicas=1\n"));
    }

    #[test]
    fn a_cluster_of_three_keeps_three_copies_and_wants_two() {
        let kafka = kafka(3);
        let text = kafka.properties(2);
        assert!(text.contains("node.id=3\n") && text.contains("PLAINTEXT://127.0.0.1:1002"));
        assert!(text.contains("voters=1@127.0.0.1:2000,2@127.0.0.1:2001,3@127.0.0.1:2002\n"));
        assert!(
            text.contains("offsets.topic.replication.factor=3\n") && text.contains("min.insync.replicas=2\n")
        );
        assert_eq!(kafka.address(), "127.0.0.1:1000,127.0.0.1:1001,127.0.0.1:1002");
    }

    #[test]
    fn what_a_test_asks_for_is_set() {
        let mut kafka = kafka(1);
        kafka.site.settings = Some("offset.metadata.max.bytes=512".to_owned());
        assert!(kafka.properties(0).ends_with("\noffset.metadata.max.bytes=512\n"));
    }

    #[test]
    fn the_pom_names_the_same_version() {
        assert!(POM.contains(&format!("<version>{VERSION}</version>")));
    }
}
