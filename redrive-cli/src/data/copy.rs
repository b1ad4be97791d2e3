//! `copy`: an edited copy of a message, as a new one.

use std::fmt::Write as _;
use std::process::ExitCode;

use redrive::server::http::Method;
use serde_json::Value;

use super::arguments::CopyArguments;
use super::call::{self, Absent, Data};
use super::filter::encoded;
use super::publish::whole;
use super::{shown, who};
use crate::problem::Problem;
use crate::terminal;

pub(crate) async fn run(arguments: &CopyArguments) -> Result<ExitCode, Problem> {
    let carried = &arguments.carried;
    let edited = whole(&arguments.edit)?;
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let mut path =
        format!("/v1/messages/{}/copy?reason={}", encoded(&arguments.of), encoded(&arguments.reason));
    let more = [
        ("by", who::name()),
        ("key", carried.key.clone()),
        ("id", carried.id.clone()),
        ("delay", carried.delay.map(|delay| delay.to_string())),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", encoded(&value));
        }
    }
    let kind = arguments.content_type.as_deref();
    let answer = data.send_with(Method::POST, &path, kind, &carried.header, edited.into()).await?;
    let ids = shown::list(&mut call::json(&answer.bytes)?, "ids")?;
    let ids: Vec<_> = ids.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    terminal::print(&shown::ids(&ids, arguments.common.json))
}
