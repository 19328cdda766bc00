//! The engine of Lineclear.
#![forbid(unsafe_code)]
