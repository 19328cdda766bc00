//! One file for each command.

mod bench;
mod bulk_operation;
mod clock;
mod db;
pub(crate) mod dead_letter;
mod demo;
mod doctor;
pub(crate) mod events;
mod group;
mod health;
pub(crate) mod job;
mod manifest_diff;
mod manifest_import;
mod node;
mod outbox;
mod subscription;
mod schedule;
pub(crate) mod serve;
mod serve_attacks;
mod serve_otlp;
mod session;
mod status;
mod submitter;
mod token;
