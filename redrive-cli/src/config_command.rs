//! `config check`, `config schema`, `config key` and `config import`.

use std::fmt::Write;
use std::process::ExitCode;

use redrive::codes;
use redrive::config::{self, Severity};
use redrive::core::headers::Key;

use crate::arguments::{CheckArguments, ImportArguments};
use crate::problem::{FAILED, Problem, USAGE};
use crate::{files, report, terminal};

pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode, Problem> {
    let path = files::config(arguments.file.as_deref()).ok_or_else(files::no_config)?;
    let checked = config::check(&files::read(&path)?, &files::env);
    let name = path.display().to_string();
    if arguments.json {
        let mut text = String::new();
        for finding in &checked.findings {
            let line = serde_json::to_string(finding);
            let line = line.map_err(|error| Problem::new(codes::NOT_YAML, FAILED, error.to_string()))?;
            let _ = writeln!(text, "{line}");
        }
        terminal::print(&text)?;
    } else {
        if !checked.findings.is_empty() {
            report::findings(&name, &checked.source, &checked.findings);
            terminal::say("");
        }
        terminal::say(&format!("{name}: {}", report::counted(&checked.findings)));
    }
    let wrong = checked.count(Severity::Error) > 0;
    Ok(if wrong { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
}

pub(crate) fn schema() -> Result<ExitCode, Problem> {
    let schema = serde_json::to_string_pretty(config::schema());
    let schema = schema.map_err(|error| Problem::new(codes::NOT_YAML, FAILED, error.to_string()))?;
    terminal::print(&format!("{schema}\n"))
}

pub(crate) fn key(id: Option<&str>) -> Result<ExitCode, Problem> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| {
        let message = format!("the system gives no random numbers: {error}");
        Problem::new(codes::CANNOT_RUN, FAILED, message)
    })?;
    let key = match id {
        Some(id) => Key::new(id, &random)
            .map_err(|error| Problem::new(codes::WRONG_SIGNING, USAGE, error.to_string()))?,
        None => Key::generate(random),
    };
    terminal::print(&format!("{}\n", key.to_secret_text()))
}

pub(crate) fn import(arguments: &ImportArguments) -> Result<ExitCode, Problem> {
    let imported = config::import::import(&files::read(&arguments.file)?);
    let name = arguments.file.display().to_string();
    if !imported.findings.is_empty() {
        report::findings(&name, &imported.source, &imported.findings);
    }
    match imported.value {
        Some(yaml) => terminal::print(&yaml),
        None => Ok(ExitCode::from(USAGE)),
    }
}
