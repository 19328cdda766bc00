//! The real binary, run as people run it: what it prints and what it ends with.
//!
//! One test program for all commands, because each further one would link the whole binary's dependencies
//! again.

mod ask;
mod batch;
mod batches;
mod bench;
mod command;
mod db;
mod dead;
mod demo;
mod deploy;
mod docs;
mod events;
mod frozen;
mod gone;
mod group;
mod doctor;
mod guide;
mod health;
mod http_kind;
mod import;
mod lock_place;
mod lock_run;
mod lock_command;
mod lock_faults;
mod lock_look;
mod manifest_diff;
mod migrate;
mod node;
mod otlp;
mod once;
mod progress;
mod run;
mod schedule;
mod samples;
mod serve;
mod slow;
mod status;
mod surroundings;
mod secrets;
mod token;
mod tree;
mod verbatim;
mod yes;
