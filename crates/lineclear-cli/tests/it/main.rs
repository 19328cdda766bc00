//! The real binary, run as people run it: what it prints and what it ends with.
//!
//! One test program for all commands, because each further one would link the whole binary's dependencies
//! again.

mod db;
mod docs;
mod run;
mod schedule;
