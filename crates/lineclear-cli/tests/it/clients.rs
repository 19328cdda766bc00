//! The client libraries: their own tests, run with this binary.

mod python;
mod typescript;
