//! Jobs that leave their node: submitters, remote workers, and handlers inside `enqueue`.

use super::*;

mod custom;
mod inline;
mod panics;
pub(crate) mod pull;
#[cfg(feature = "outbound")]
mod push;
