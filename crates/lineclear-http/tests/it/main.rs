//! The API over real sockets, on a node that runs.

// First: the others use its macro.
#[macro_use]
mod kit;

mod access;
mod audit;
mod batch_modes;
mod batches;
mod apply;
mod contrast;
mod corpus;
mod dead_letters;
mod document;
mod doctor;
mod explain;
mod events;
mod groups;
mod jobs;
mod listener;
mod locks;
mod manifests;
mod nodes;
mod once;
mod pages;
mod pages_cluster;
mod pages_dead;
mod pages_job;
mod pages_modes;
mod pages_overview;
mod pages_retry;
mod scopes;
mod search;
mod security;
mod server;
mod session;
mod stored;
mod settings;
mod stats;
mod status;
mod wait;
mod wire;
