//! What is logged is what `docs/logs.md` says.

mod desk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use desk::Desk;
use regex::Regex;
use serde_json::Value;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// What the writer of the lines adds to each.
const AROUND: [&str; 3] = ["timestamp", "level", "message"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/logs.md")).unwrap()
}

/// The rows of the table under a heading, cell by cell.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let section = page.split(&format!("## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn plain(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

#[test]
fn a_diversion_has_the_documented_fields_and_a_success_no_line() {
    let desk = Desk::new();
    std::fs::write(desk.path("handle.sh"), "grep -q good && exit 0; exit 75\n").unwrap();
    for (id, body, more) in [
        ("fine", "good", &[][..]),
        ("traced", "bad", &["--header", &*format!("traceparent={TRACE}")]),
        ("plain", "bad", &[]),
    ] {
        let ran = desk.run(&[&["publish", "queue:orders", body, "--id", id], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let flow = ["run", "--from", "queue:orders", "--to", "exec:sh handle.sh", "--retry", "1ms"];
    let how = ["--listen", "off", "--exit-when-idle", "100ms", "--log-format", "json"];
    let ran = desk.run(&[&flow[..], &how].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<Value> = ran.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let diverted: Vec<_> = lines.iter().filter(|line| line["message"] == "diverted").collect();
    let of = |id: &str| -> Vec<&Value> {
        diverted.iter().filter(|line| line["message_id"] == id).copied().collect()
    };
    assert!(of("fine").is_empty(), "{}", ran.stderr);
    for id in ["traced", "plain"] {
        let decisions: Vec<_> = of(id).iter().map(|line| line["decision"].as_str().unwrap()).collect();
        assert_eq!(decisions, ["delay", "dead_letter"], "one line per diversion");
        let attempts: Vec<_> = of(id).iter().map(|line| line["attempt"].as_u64().unwrap()).collect();
        assert_eq!(attempts, [1, 2]);
    }
    assert!(of("traced").iter().all(|line| line["trace"] == TRACE.split('-').nth(1).unwrap()));

    let page = page();
    let rows = table(&page, "A diversion");
    let documented: BTreeSet<String> = rows.iter().map(|row| plain(&row[0])).collect();
    let keys = |line: &Value| -> BTreeSet<String> {
        line.as_object().unwrap().keys().filter(|key| !AROUND.contains(&key.as_str())).cloned().collect()
    };
    let written: BTreeSet<String> = diverted.iter().flat_map(|line| keys(line)).collect();
    assert_eq!(written, documented);
    let always: BTreeSet<String> =
        rows.iter().filter(|row| !row[1].contains("only where")).map(|row| plain(&row[0])).collect();
    let last = of("plain")[1];
    assert_eq!(keys(last), always, "what is not always there says when it is");

    // The example of the page has the shape of a real line.
    let example = page.split("```json\n").nth(1).unwrap().lines().next().unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    assert_eq!(keys(&example), documented);
}

/// The lines that the code can write: message, level, fields.
fn written() -> BTreeSet<(String, String, String)> {
    let call = Regex::new(r#"(?s)tracing::(info|warn|error)!\((.*?)"([^"]*)"\s*\);"#).unwrap();
    let field = Regex::new(r"^[%?]?(\w+)(?: =.*)?$").unwrap();
    let mut found = BTreeSet::new();
    let folders = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let ours =
        |path: &PathBuf| path.is_dir() && !path.ends_with("testkit/src") && !path.ends_with("xtask/src");
    for (path, code) in folders.filter(ours).flat_map(|folder| testkit::code::files(&folder)) {
        for call in call.captures_iter(&code) {
            let name = |part: &String| match field.captures(part) {
                Some(found) => format!("`{}`", &found[1]),
                None => panic!("{}: {part}", path.display()),
            };
            let fields: Vec<String> = split(&call[2]).iter().map(name).collect();
            found.insert((call[3].to_owned(), call[1].to_owned(), fields.join(", ")));
        }
    }
    found
}

/// Arguments of a macro: cut at commas that stand in no brackets.
fn split(arguments: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in arguments.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    let parts = parts.iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.filter(|part| !part.is_empty()).collect()
}

#[test]
fn every_line_of_the_code_is_documented() {
    let page = page();
    let mut documented: BTreeSet<(String, String, String)> = table(&page, "Other lines")
        .into_iter()
        .map(|row| (plain(&row[0]), row[1].clone(), row[2].clone()))
        .collect();
    let fields: Vec<_> = table(&page, "A diversion").into_iter().map(|row| row[0].clone()).collect();
    documented.insert(("diverted".to_owned(), "info".to_owned(), fields.join(", ")));
    let written = written();
    let row =
        |(message, level, fields): &(String, String, String)| format!("| `{message}` | {level} | {fields} |");
    let missing: Vec<_> = written.difference(&documented).map(row).collect();
    let gone: Vec<_> = documented.difference(&written).map(row).collect();
    assert!(missing.is_empty(), "docs/logs.md lacks:\n{}", missing.join("\n"));
    assert!(gone.is_empty(), "docs/logs.md has what no code writes:\n{}", gone.join("\n"));
}
