//! The real binary as a member of a group, to be killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bench::{Measured, Place, process};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::place;

/// A flow of the real binary, whose file and data outlive its processes.
pub(crate) struct Member {
    place: Place,
    /// The flow's name; its topics begin with it.
    pub(crate) name: String,
}

/// A process that runs it; it is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    /// When it was started.
    pub(crate) began: Instant,
}

impl Member {
    /// Reads a topic, which is given with the `?` of its options, and calls the endpoint.
    pub(crate) fn new(cluster: &Cluster, source: &str, endpoint: &Endpoint, more: Value) -> Measured<Self> {
        let (place, name) = (place()?, cluster.name("member"));
        let mut flow = json!({
            "from": format!("kafka://{}/{source}group={name}", cluster.bootstrap),
            "to": format!("http://{}/orders", endpoint.address),
            // The endpoint is well: it is the messages that it does not like.
            "breaker": { "failure_share": 1.0, "min_calls": 1_000_000_000, "consecutive": 0 },
            "retry_budget": { "share": 10.0, "floor": "1000000/s" },
        });
        if let (Some(flow), Value::Object(mut more)) = (flow.as_object_mut(), more) {
            flow.append(&mut more);
        }
        let file = json!({ "version": 1, "flows": { &name: flow } });
        std::fs::write(place.folder().join("redrive.yaml"), file.to_string())?;
        Ok(Self { place, name })
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(&self) -> Measured<Process> {
        let mut command = Command::new(process::binary()?);
        command
            .args(["run", "--config", "redrive.yaml", "--listen", "off", "--log-level", "error", "--data"])
            .arg(&self.place.data)
            .current_dir(self.place.folder())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or("the binary has no stderr")?;
        let process = Process { child, began };
        let mut lines = BufReader::new(stderr).lines();
        let mut said = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.starts_with("redrive ready") {
                // Whatever else it says is read, so that it never waits for a reader.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
                return Ok(process);
            }
            said.push(line);
        }
        Err(format!("the binary ended before it was ready: {}", said.join("\n")).into())
    }
}

impl Process {
    /// Makes it stand still where it is, or go on.
    pub(crate) fn stand_still(&self, still: bool) -> Measured<()> {
        let (signal, process) = (if still { "-STOP" } else { "-CONT" }, self.child.id().to_string());
        let sent = Command::new("kill").args([signal, &process]).status()?;
        if sent.success() { Ok(()) } else { Err(format!("kill {signal} {process}: {sent}").into()) }
    }

    /// Kills it, as kill -9 does.
    pub(crate) fn kill(mut self) -> Measured<Instant> {
        self.child.kill()?;
        let at = Instant::now();
        self.child.wait()?;
        Ok(at)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
