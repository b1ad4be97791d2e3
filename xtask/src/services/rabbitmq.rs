//! RabbitMQ from Debian's package, with everything that it normally shares with the system made its own: node
//! name, epmd, ports, data, logs, cookie, plugins. A system-wide instance notices nothing.
//!
//! The scripts in the package's lib folder are called: the ones on the search path switch user and then lose the
//! cookie.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::tied;
use crate::error::{Context, Result};
use crate::place;

use super::ports;
use super::process::{Process, finish};
use super::service::{Service, Site, Trouble};

const PREFIX: &str = "rabbitmq_server-";

/// One node.
pub(super) struct Rabbitmq {
    scripts: PathBuf,
    version: String,
    site: Site,
    amqp: u16,
    distribution: u16,
    tools: u16,
    names: u16,
    /// Erlang's name server, which would otherwise start itself as a daemon and stay.
    epmd: Option<Process>,
}

impl Rabbitmq {
    pub(super) fn prepare(site: Site) -> std::result::Result<Self, Trouble> {
        let Some(package) = place::newest(Path::new("/usr/lib/rabbitmq/lib"), PREFIX) else {
            return Err(Trouble::Unavailable("RabbitMQ is not installed".to_owned()));
        };
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for folder in ["data", "home", "settings"] {
            let path = site.folder.join(folder);
            fs::create_dir_all(&path).context(format_args!("cannot create {}", path.display()))?;
        }
        let settings = site.folder.join("settings");
        let advanced = site.settings.as_deref().unwrap_or("[].");
        let advanced = format!("{advanced}\n");
        let files = [
            ("enabled_plugins", "[rabbitmq_consistent_hash_exchange].\n"),
            ("rabbitmq-env.conf", ""),
            ("rabbitmq.conf", "log.console = false\nloopback_users.guest = true\n"),
            ("advanced.config", advanced.as_str()),
        ];
        for (file, text) in files {
            fs::write(settings.join(file), text).context(format_args!("cannot write {file}"))?;
        }
        Ok(Self {
            scripts: package.join("sbin"),
            version: name.strip_prefix(PREFIX).unwrap_or(&name).to_owned(),
            site,
            amqp: ports::free()?,
            distribution: ports::free()?,
            tools: ports::free()?,
            names: ports::free()?,
            epmd: None,
        })
    }

    /// A script of the package, in an environment that holds nothing but ours.
    fn script(&self, name: &str) -> Command {
        let folder = &self.site.folder;
        let settings = folder.join("settings");
        let logs = self.site.log("server");
        let mut command = tied("KILL", self.scripts.join(name));
        command.env_clear();
        for variable in ["PATH", "LANG", "LC_ALL", "TMPDIR"] {
            if let Some(value) = std::env::var_os(variable) {
                command.env(variable, value);
            }
        }
        command
            .current_dir(folder)
            .env("HOME", folder.join("home"))
            .env("ERL_EPMD_PORT", self.names.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", format!("redrive-{}@localhost", self.amqp))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.amqp.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_CTL_DIST_PORT_MIN", self.tools.to_string())
            .env("RABBITMQ_CTL_DIST_PORT_MAX", self.tools.to_string())
            .env("RABBITMQ_BASE", folder)
            .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
            .env("RABBITMQ_SCHEMA_DIR", folder.join("data/schema"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", folder.join("data/config"))
            .env("RABBITMQ_FEATURE_FLAGS_FILE", folder.join("data/feature_flags"))
            .env("RABBITMQ_PID_FILE", folder.join("pid"))
            .env("RABBITMQ_LOG_BASE", &self.site.logs)
            .env("RABBITMQ_LOGS", logs)
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", settings.join("enabled_plugins"))
            .env("RABBITMQ_CONF_ENV_FILE", settings.join("rabbitmq-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", settings.join("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", settings.join("advanced.config"))
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none",
            )
            .env("RABBITMQ_CTL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        command
    }

    fn start_name_server(&mut self) -> Result<()> {
        if self.epmd.as_mut().is_some_and(|epmd| epmd.ended().is_none()) {
            return Ok(());
        }
        let mut command = tied("KILL", "epmd");
        // Without -daemon it stays in the foreground, and so ours.
        command
            .args(["-port", &self.names.to_string(), "-address", "127.0.0.1"])
            .env("HOME", &self.site.folder);
        self.epmd = Some(Process::spawn(&mut command, &self.site.log("epmd"))?);
        Ok(())
    }
}

impl Service for Rabbitmq {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn address(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.amqp)
    }

    fn nodes(&self) -> usize {
        1
    }

    fn spawn(&mut self, _node: usize) -> Result<Process> {
        self.start_name_server()?;
        let mut command = self.script("rabbitmq-server");
        // With input allowed the script becomes the server instead of waiting for it, so that signals reach it.
        command.env("RABBITMQ_ALLOW_INPUT", "true").arg("-noinput");
        Process::spawn(&mut command, &self.site.log("console"))
    }

    fn healthy(&self, nodes: &[usize]) -> std::result::Result<(), String> {
        if nodes.is_empty() {
            return Ok(());
        }
        greeted(self.amqp).map_err(|error| error.to_string())
    }

    fn confirm(&self) -> Result<()> {
        let mut command = self.script("rabbitmqctl");
        command.args(["await_startup", "--timeout", "60"]);
        finish(&mut command, &self.site.log("rabbitmqctl"), Duration::from_secs(90), &self.site.ending)
    }

    fn tool(&self, arguments: &[String]) -> Result<String> {
        let said = self.site.log("said");
        fs::write(&said, "").context(format_args!("cannot write {}", said.display()))?;
        let mut command = self.script("rabbitmqctl");
        command.arg("--quiet").args(arguments);
        finish(&mut command, &said, Duration::from_secs(90), &self.site.ending)?;
        fs::read_to_string(&said).context(format_args!("cannot read {}", said.display()))
    }

    fn stop_signal(&self) -> (Signal, Duration) {
        (Signal::TERM, Duration::from_secs(30))
    }
}

/// Whether the port answers the greeting of AMQP 0-9-1 with its first frame.
fn greeted(port: u16) -> std::io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    let mut frame = [0; 1];
    stream.read_exact(&mut frame)?;
    // 1 is a method frame; a server that speaks another protocol begins with `A`.
    if frame == [1] { Ok(()) } else { Err(std::io::Error::other("it does not speak AMQP 0-9-1")) }
}
