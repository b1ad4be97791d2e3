//! The whole of `redrive.yaml`.

use std::collections::BTreeMap;

use redrive_core::classify::Rule;
use redrive_core::{Date, PolicySpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::broker::Broker;
use super::flow::{Flow, Suffixes, Topology};
use crate::address::AddressText;

/// The one version of the file that there is.
pub const VERSION: u32 = 1;

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "redrive.yaml")]
pub struct Config {
    /// The version of this file's format: 1.
    pub version: u32,
    /// Where the ledger and the embedded queues live: a file, or `postgres://…`. Default `./redrive.db`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<AddressText>,
    /// The folder for locks, sockets and tokens when `data` is a database. Default `./redrive.d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The address of the HTTP API: `127.0.0.1:7337` by default, port 0 picks one, `off` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Listen on an address that is not loopback without TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The certificate of the HTTP API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Brokers by name, to be used in place of hosts in addresses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub brokers: BTreeMap<String, Broker>,
    /// Dates by name, for the calendars of schedules.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holidays: BTreeMap<String, Vec<Date>>,
    /// Policies by name; `default` lies under all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, PolicySpec>,
    /// Rules for every flow, asked after those of its policy and before the ones that come with Redrive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// How topics and queues are named, for every flow that does not say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffixes: Option<Suffixes>,
    /// Whether missing topics and queues are created, for every flow that does not say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Flows by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flows: BTreeMap<String, Flow>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The file of the certificate chain, PEM.
    pub certificate: String,
    /// The file of the private key, PEM.
    pub key: String,
}
