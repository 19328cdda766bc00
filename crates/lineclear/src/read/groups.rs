//! Groups.

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{Store, StoreResult};

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its name; `*` is the global group.
    pub name: String,
    /// Active jobs at most; `None`: no limit.
    pub limit: Option<u32>,
    /// Its priority.
    pub priority: u8,
    /// Whether its jobs are dispatched.
    pub enabled: bool,
    /// Its active jobs.
    pub active: u64,
    /// Its version; grows with every change.
    pub version: i64,
}

impl GroupView {
    pub(crate) fn of(row: &Row) -> StoreResult<GroupView> {
        Ok(GroupView {
            name: row.get("name")?,
            limit: row.get("max_active")?,
            priority: row.get("priority")?,
            enabled: row.get("enabled")?,
            active: row.get("active")?,
            version: row.get("version")?,
        })
    }
}

impl Store {
    /// Groups in the order of their names, after `after` if given.
    pub async fn groups(&self, after: Option<&str>, most: u32) -> StoreResult<Page<GroupView, String>> {
        let most = most.clamp(1, PAGE_MAX);
        let params = values![after.unwrap_or_default(), most];
        let items = self.db.read(Query::each(Statement::ListGroups, params, GroupView::of)).await?;
        let next = next_of(&items, most, |group| group.name.clone());
        Ok(Page { items, next })
    }

    /// One group.
    pub async fn group(&self, name: &str) -> StoreResult<Option<GroupView>> {
        self.db.read(Query::first(Statement::GetGroup, values![name], GroupView::of)).await
    }
}
