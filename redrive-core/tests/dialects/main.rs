//! Dead letters of other systems: each writer by hand, anything at all, and what the real writers wrote.

#[path = "../trails/mod.rs"]
mod trails;

mod hostile;
mod ledger;
mod rabbitmq;
mod samples;
mod writers;

use redrive_core::Headers;

/// Headers of text.
fn headers(pairs: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in pairs {
        headers.push(*name, (*value).to_owned());
    }
    headers
}
