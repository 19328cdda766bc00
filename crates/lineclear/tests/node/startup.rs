//! The options and declarations with which a program starts a node.

mod manifests;
mod metrics;
mod resolves;
mod settings;
mod stores;
