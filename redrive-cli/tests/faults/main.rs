//! A machine that fails in other ways than by a kill: a full disk, a file that may only be read or is damaged, a clock
//! that is set, two processes on one file. The real binary on a real file.

// The limit on a running process's files is Linux's.
#![cfg(target_os = "linux")]

mod clock;
mod damage;
mod full;
#[path = "../kill/http.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod http;
mod process;
mod rights;
mod sharing;
