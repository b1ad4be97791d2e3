//! Whatever stands in a file, the check says something about it and goes on.

use proptest::prelude::*;
use redrive::config::{self, import::import};

const SURFACE: &str = include_str!("files/surface.yaml");

/// What a file looks like after a slip of the hand: lines and words taken out, doubled, swapped or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let slip = (0_usize..10_000, 0_u8..6, "[\\[\\]{}:,'\"&*!|>%@#\\-? \\t$a-z0-9]{0,4}");
    prop::collection::vec(slip, 1..6).prop_map(|slips| {
        let mut lines: Vec<String> = SURFACE.lines().map(str::to_owned).collect();
        for (at, kind, text) in slips {
            let line = at % lines.len();
            let mut words: Vec<_> = lines[line].split_inclusive(' ').map(str::to_owned).collect();
            let word = at % words.len().max(1);
            match kind {
                0 => {
                    lines.remove(line);
                    lines.push(String::new());
                }
                1 => lines.insert(line, lines[line].clone()),
                2 if !words.is_empty() => {
                    words.remove(word);
                    lines[line] = words.concat();
                }
                3 if !words.is_empty() => {
                    words.insert(word, words[word].clone());
                    lines[line] = words.concat();
                }
                4 if !words.is_empty() => {
                    words[word] = text;
                    lines[line] = words.concat();
                }
                _ => lines[line].push_str(&text),
            }
        }
        lines.join("\n")
    })
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let report = config::check(bytes, &|name| (name.len() % 2 == 0).then(|| name.to_owned()));
    let lines = report.source.lines().count().max(1);
    for finding in &report.findings {
        prop_assert!(finding.line >= 1 && finding.line <= lines + 1, "{finding}");
        prop_assert!(finding.span.end <= report.source.len());
        prop_assert!(report.source.is_char_boundary(finding.span.start));
    }
    // A configuration that passes has a policy for each flow that can be built.
    for (config, name) in
        report.value.iter().flat_map(|config| config.flows.keys().map(move |name| (config, name)))
    {
        let spec = config.flow_policy(name, None);
        prop_assert!(spec.is_some_and(|spec| spec.build().is_ok()), "{name}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes)?;
        let _ = import(&bytes);
        let _ = config::check_policy(&bytes, &|_| None);
    }

    #[test]
    fn arbitrary_text(text in "(version: 1\n)?[\\PC\n\t]{0,200}") {
        check(text.as_bytes())?;
        let _ = import(text.as_bytes());
        let _ = config::check_policy(text.as_bytes(), &|_| None);
    }

    #[test]
    fn slips_of_the_hand(text in mutated()) {
        check(text.as_bytes())?;
    }

    #[test]
    fn slips_in_settings_to_import(
        at in 0_usize..600,
        text in "[\\[\\]{}:,'\"0-9a-z$ \n-]{0,6}|[0-9]{0,20}|\\$\\{A\\}",
        which in 0_usize..3,
    ) {
        let settings = [
            include_str!("files/import/failed_messages.yaml"),
            include_str!("files/import/message_policies.yaml"),
            include_str!("files/import/retry_settings.json"),
        ][which];
        let at = at % settings.len();
        let changed = format!("{}{text}{}", &settings[..at], &settings[at + 1..]);
        if let Some(yaml) = import(changed.as_bytes()).value {
            let report = config::check(yaml.as_bytes(), &|_| None);
            let wrong = report.findings.iter().find(|finding| finding.severity == config::Severity::Error);
            prop_assert!(wrong.is_none(), "{wrong:?}\n{yaml}");
        }
    }
}
