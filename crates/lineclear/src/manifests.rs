//! Manifests and groups: declared by code and files, edited by operators.

pub(crate) mod declaration;
pub(crate) mod declare;
pub(crate) mod declared_fields;
pub(crate) mod dependency_cycle;
pub(crate) mod expected_version;
pub(crate) mod groups;
pub(crate) mod merge;
pub(crate) mod pause;
pub(crate) mod remove;
pub(crate) mod rerank;
pub(crate) mod stored;
pub(crate) mod upsert;
mod write;
