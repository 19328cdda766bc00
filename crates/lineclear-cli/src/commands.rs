//! One module for each command, named like the command.

pub(crate) mod api;
pub(crate) mod bench;
pub(crate) mod bulk_operation;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod dead_letter;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod help;
pub(crate) mod job;
pub(crate) mod lock;
pub(crate) mod man;
pub(crate) mod manifest;
pub(crate) mod node;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod work;
