//! One module for each command.

pub(crate) mod db;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod lock;
pub(crate) mod person;
pub(crate) mod place;
pub(crate) mod schedule;
pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod serve;
pub(crate) mod health;
pub(crate) mod token;
pub(crate) mod ask;
pub(crate) mod job;
pub(crate) mod manifest;
pub(crate) mod raw;
pub(crate) mod status;
pub(crate) mod sure;
pub(crate) mod group;
pub(crate) mod dead;
pub(crate) mod batch;
pub(crate) mod events;
pub(crate) mod node;
pub(crate) mod completions;
pub(crate) mod man;
