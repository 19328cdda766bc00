//! The resources of the API.

pub(crate) mod apply;
mod audit;
pub(crate) mod bulk_modes;
mod bulk_operations;
mod corrupt_data;
mod dead_letters;
mod doctor;
mod events;
mod explain;
mod groups;
mod idempotency;
mod jobs;
mod locks;
mod manifests;
mod nodes;
mod openapi;
mod search;
mod settings;
mod stats;
mod status;
mod wait;
