//! The `lineclear` binary.
#![forbid(unsafe_code)]

fn main() {}
