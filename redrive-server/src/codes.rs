//! Every refusal of the API has a code, a status and a page under `docs/errors/` that says what to do.
//!
//! A code is a promise to the people who search for it: it keeps its meaning for ever, and one that is no longer
//! used is not given to anything else.

use std::fmt;

use serde::{Serialize, Serializer};

/// The code of an error, such as `RD-API-03`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code {
    id: &'static str,
    status: u16,
    title: &'static str,
}

impl Code {
    /// The code of an error that no answer carries.
    pub const fn new(id: &'static str, title: &'static str) -> Self {
        Self { id, status: 0, title }
    }

    /// The code as text.
    pub const fn id(self) -> &'static str {
        self.id
    }

    /// The HTTP status it is answered with; 0 for an error that no answer carries.
    pub const fn status(self) -> u16 {
        self.status
    }

    /// What it means, in a few words.
    pub const fn title(self) -> &'static str {
        self.title
    }

    /// Where its page stands in the repository.
    pub fn page(self) -> String {
        format!("docs/errors/{}.md", self.id)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

macro_rules! codes {
    ($($name:ident = $id:literal, $status:literal, $title:literal;)+) => {
        $(
            #[doc = concat!("`", $id, "`: ", $title, ".")]
            pub const $name: Code = Code { id: $id, status: $status, title: $title };
        )+

        /// Every code, in order.
        pub const ALL: &[Code] = &[$($name),+];
    };
}

codes! {
    UNREADABLE = "RD-API-01", 400, "a request that cannot be read";
    UNKNOWN_NAME = "RD-API-02", 400, "an unknown parameter or key";
    WRONG_VALUE = "RD-API-03", 400, "a value that cannot be read";
    MISSING = "RD-API-04", 400, "a parameter or key is missing";
    NO_TOKEN = "RD-API-05", 401, "no token, or a wrong one";
    FOREIGN = "RD-API-06", 403, "a request that was meant for, or comes from, elsewhere";
    NO_ROUTE = "RD-API-07", 404, "nothing is served at this path";
    NOT_FOUND = "RD-API-08", 404, "no such message, group, replay or flow";
    WRONG_METHOD = "RD-API-09", 405, "a method that the path does not have";
    TOO_SLOW = "RD-API-10", 408, "the request did not arrive in time";
    WRONG_STATE = "RD-API-11", 409, "the state does not allow it";
    DUPLICATE = "RD-API-12", 409, "the id is taken";
    TOO_LARGE = "RD-API-13", 413, "the request is too large";
    WRONG_CONTENT_TYPE = "RD-API-14", 415, "a content type that is not read here";
    REFUSED = "RD-API-15", 422, "a request that makes no sense";
    PARTLY = "RD-API-16", 422, "only a part of the batch was taken";
    LIMIT = "RD-API-17", 429, "a limit is reached";
    BROKEN = "RD-API-18", 500, "what is stored cannot be read";
    UNAVAILABLE = "RD-API-19", 503, "it does not work now, and may later";
    OPEN_ADDRESS = "RD-CONFIG-17", 0, "an open address without TLS";
    PORT_TAKEN = "RD-API-21", 0, "the port is taken";
    CANNOT_LISTEN = "RD-API-22", 0, "the listener cannot start";
    SOCKET_TAKEN = "RD-API-23", 0, "the socket is taken";
    TOKEN_UNUSABLE = "RD-API-24", 0, "a token that cannot be used";
    NO_ANSWER = "RD-API-25", 0, "the running instance does not answer";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors")
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let pages: BTreeSet<String> = std::fs::read_dir(folder())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("RD-API-"))
            .collect();
        let codes: BTreeSet<String> = ALL.iter().map(|code| format!("{code}.md")).collect();
        assert_eq!(codes.len(), ALL.len(), "a code is given once");
        // One is the configuration's: an open address is refused alike in a flag and in a file.
        let elsewhere: Vec<&String> = codes.difference(&pages).collect();
        assert_eq!(elsewhere, ["RD-CONFIG-17.md"]);
        assert!(pages.is_subset(&codes), "{pages:?}");
    }

    #[test]
    fn every_page_says_what_it_means_and_how_to_fix_it() {
        for code in ALL {
            let text = std::fs::read_to_string(folder().join(format!("{code}.md"))).unwrap();
            assert!(text.starts_with(&format!("# {code}: {}\n", code.title())), "{code}: the title");
            for part in ["## What it means", "## Example", "## How to fix it"] {
                assert!(text.contains(part), "{code}: {part}");
            }
        }
    }
}
