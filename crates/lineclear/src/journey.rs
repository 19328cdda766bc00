//! The journey of a job: a folder for each arrow of the diagram in the crate documentation.

pub(crate) mod enqueue;
pub(crate) mod plan;
pub(crate) mod dispatch;
pub(crate) mod claim;
pub(crate) mod submit;
pub(crate) mod execute;
pub(crate) mod isolate;
pub(crate) mod low_water;
pub(crate) mod settle;
pub(crate) mod clean;
