//! What the documents show compiles and runs.

mod enqueue_docs;
pub(crate) mod enqueue_guide;
pub(crate) mod readme;
mod testing;
mod testing_guide;
