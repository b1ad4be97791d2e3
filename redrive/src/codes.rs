//! Every error that a person can meet has a code and a page under `docs/errors/` that says what to do.
//!
//! A code is a promise to the people who search for it: it keeps its meaning for ever, and one that is no longer
//! used is not given to anything else.

pub use redrive_server::codes::Code;

macro_rules! codes {
    ($($name:ident = $id:literal, $title:literal;)+) => {
        $(
            #[doc = concat!("`", $id, "`: ", $title, ".")]
            pub const $name: Code = Code::new($id, $title);
        )+

        /// Every code, in order, without those of the API.
        pub const ALL: &[Code] = &[OPEN_LISTENER, $($name),+];
    };
}

/// `RD-CONFIG-17`: an open address without TLS. The listener refuses one by the same code, wherever it was written.
pub const OPEN_LISTENER: Code = redrive_server::codes::OPEN_ADDRESS;

codes! {
    NOT_TEXT = "RD-CONFIG-01", "the file is not text, or too large";
    NOT_YAML = "RD-CONFIG-02", "the file is not YAML";
    UNKNOWN_KEY = "RD-CONFIG-03", "an unknown key";
    WRONG_TYPE = "RD-CONFIG-04", "a value of the wrong type";
    WRONG_NAME = "RD-CONFIG-05", "a value that is none of the known names";
    MISSING_KEY = "RD-CONFIG-06", "a key is missing";
    WRONG_TEXT = "RD-CONFIG-07", "a text that cannot be read";
    DUPLICATE_KEY = "RD-CONFIG-08", "a key stands twice";
    NO_VARIABLE = "RD-CONFIG-09", "an environment variable is not set";
    WRONG_VERSION = "RD-CONFIG-10", "a version of the file that is not known";
    UNKNOWN_NAME = "RD-CONFIG-11", "a name that is not defined";
    WRONG_ADDRESS = "RD-CONFIG-12", "an address that cannot be used";
    ONE_PREFIX = "RD-CONFIG-13", "two flows with one prefix";
    NO_REJECT_TARGET = "RD-CONFIG-14", "rejections have nowhere to go";
    NO_EXPLICIT_DATA = "RD-CONFIG-15", "order needs an explicit place for data";
    WRONG_DELAY_MODE = "RD-CONFIG-16", "a delay mode that the broker does not have";
    NOT_BUILT_IN = "RD-CONFIG-18", "a part that is not in this build";
    POLICY_UNUSABLE = "RD-CONFIG-19", "a policy that cannot be used";
    POLICY_QUESTIONABLE = "RD-CONFIG-20", "a policy that may not do what was meant";
    EMPTY_FILE = "RD-CONFIG-21", "the file is empty";
    YAML_FEATURE = "RD-CONFIG-22", "a YAML feature that is not supported here";
    OUT_OF_RANGE = "RD-CONFIG-23", "a number out of range";
    NOT_EXACTLY_ONE = "RD-CONFIG-24", "exactly one of several keys is needed";
    WRONG_SIGNING = "RD-CONFIG-25", "signing keys that cannot be used";
    NOT_OF_THIS_SOURCE = "RD-CONFIG-26", "a setting that this source does not have";
    ONE_GROUP = "RD-CONFIG-27", "a consumer group is named twice";
    ONE_TOPIC = "RD-CONFIG-28", "a topic is named for two things";
    FORWARD_TARGETS = "RD-CONFIG-29", "targets that cannot be forwarded to";
    ONE_QUEUE = "RD-CONFIG-30", "a queue is named for two things";
    CONTRADICTION = "RD-CONFIG-31", "settings that do not go together";
    NO_FILE = "RD-CLI-01", "a file cannot be read";
    NO_CONFIG = "RD-CLI-02", "there is no configuration file";
    NOT_FOUND = "RD-CLI-03", "no flow or policy has that name";
    NAME_NEEDED = "RD-CLI-04", "the name of a flow or policy is needed";
    WRONG_ARGUMENT = "RD-CLI-05", "an argument that cannot be read";
    NO_DATA = "RD-DATA-01", "there is no data file";
    NO_DATA_ACCESS = "RD-DATA-02", "the data file cannot be opened";
    CANNOT_RUN = "RD-RUN-01", "flows cannot be run";
    TOPOLOGY_MISSING = "RD-RUN-02", "topics or queues are missing at a broker";
    DEMO_BROKEN = "RD-DEMO-01", "the demo did not come out as promised";
    UNREADABLE_IMPORT = "RD-IMPORT-01", "settings of a format that is not known";
    NOT_CARRIED_OVER = "RD-IMPORT-02", "a setting that was not carried over";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors");
        let pages: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.md" && !name.starts_with("RD-API-"))
            .collect();
        let codes: BTreeSet<String> = ALL.iter().map(|code| format!("{code}.md")).collect();
        assert_eq!(pages, codes);
    }

    #[test]
    fn every_page_says_what_it_means_and_how_to_fix_it() {
        for code in ALL {
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(code.page());
            let text = std::fs::read_to_string(page).unwrap();
            assert!(text.starts_with(&format!("# {code}: {}\n", code.title())), "{code}: the title");
            for part in ["## What it means", "## Example", "## How to fix it"] {
                assert!(text.contains(part), "{code}: {part}");
            }
        }
    }

    #[test]
    fn codes_are_given_once() {
        let ids: BTreeSet<_> = ALL.iter().map(|code| code.id()).collect();
        assert_eq!(ids.len(), ALL.len());
    }
}
