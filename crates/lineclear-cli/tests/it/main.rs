//! The real binary, run as people run it: what it prints and what it ends with.
//!
//! One test program for all commands, because each further one would link the whole binary's dependencies
//! again.

mod run;
mod slow;
mod commands;
mod lock;
mod kinds;
mod crashes;
mod terminal;
mod documents;
