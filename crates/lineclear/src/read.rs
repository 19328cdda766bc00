//! Queries for pages, programs and operators: lists and details, page by page. Nothing here changes the database.

mod dead_letters;
pub(crate) mod events;
pub(crate) mod finished_jobs;
mod groups;
mod history;
pub(crate) mod jobs;
mod manifests;
mod nodes;
mod now;
pub(crate) mod search;
pub(crate) mod stats;
pub(crate) mod totals;

use crate::db::statements::Statement;
use crate::db::{Query, Row, Value};
pub use crate::read::dead_letters::{DeadLetterView, FAMILIES_LOOKED_MAX, Families, FamilyView};
pub use crate::read::groups::GroupView;
pub use crate::read::history::{ExecutionView, LastLines};
pub use crate::read::jobs::{JobDetail, JobFilter, JobView, StepView};
pub use crate::read::manifests::{ManifestView, TickView};
pub use crate::read::nodes::{NodeView, SubmitterView};
pub use crate::read::now::{PipelineView, RunningView, StageView, UpcomingView};
pub use crate::read::search::Found;
use crate::store::{Store, StoreResult};

/// Rows per page at most.
pub const PAGE_MAX: u32 = 1_000;

/// A page, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T, C> {
    /// The rows.
    pub items: Vec<T>,
    /// Pass this to get the next page; `None`: this was the last. A page may be empty without being the last: a filtered page
    /// scans a bounded number of rows.
    pub next: Option<C>,
}

/// The key of the last item if the page is full and may have a successor.
pub(crate) fn next_of<T, C>(items: &[T], most: u32, key: impl Fn(&T) -> C) -> Option<C> {
    (items.len() >= most as usize).then(|| items.last().map(key)).flatten()
}

impl Store {
    /// The rows of a statement that only reads.
    pub(crate) async fn read_rows(&self, statement: Statement, params: Vec<Value>) -> StoreResult<Vec<Row>> {
        self.db.read(Query::rows(statement, params)).await
    }
}
