//! The command `redrive`.
fn main() {}
