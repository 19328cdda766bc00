//! What a program gives to a node when it starts.

mod manifests;
mod metrics;
mod resolves;
mod settings;
mod stores;
