//! For Lineclear's own tests.
#![forbid(unsafe_code)]
