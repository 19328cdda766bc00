//! The real binary, run as users run it: its output and its exit code.
//!
//! One test program for all commands, because each further one would link the whole binary's dependencies
//! again.

mod run;
mod slow;
mod commands;
mod lock;
mod kinds;
mod submitters;
mod clients;
mod crashes;
mod rolling;
mod terminal;
mod documents;
mod outages;
mod remote_workers;
