//! The audit: who changed what. Rows are added and get their outcome once; nothing else changes them.

use super::db::Value;
use super::sql::Statement;
use super::verbs::audit::{AuditBegin, AuditEnd, AuditFilter, AuditOver, AuditView, NewAudit};
use super::views::{PAGE_MAX, Page, next_of};
use super::{AuditId, Store, StoreResult, door};

/// Rows that a filtered page may look through.
const WINDOW: u32 = 10_000;

impl Store {
    /// Writes down what is about to be done, in one statement; the ids are in the order of the entries.
    pub async fn audit_begin(&self, entries: Vec<NewAudit>) -> StoreResult<Vec<AuditId>> {
        door::check_batch(entries.len())?;
        for entry in &entries {
            [&entry.who, &entry.action, &entry.target, &entry.request_id]
                .into_iter()
                .try_for_each(|text| door::check_text(text))?;
        }
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        self.run(AuditBegin(entries)).await
    }

    /// Writes down what became of it, in one statement. The first word about an entry stays.
    pub async fn audit_end(&self, ends: Vec<AuditEnd>) -> StoreResult<()> {
        door::check_batch(ends.len())?;
        if ends.is_empty() {
            return Ok(());
        }
        self.run(AuditOver(ends)).await
    }

    /// What was done, newest first. A page may be empty and not the last: a filter looks through a bounded number of rows at a time.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditId>,
        most: u32,
    ) -> StoreResult<Page<AuditView, AuditId>> {
        let most = most.clamp(1, PAGE_MAX);
        let params = vec![
            Value::Int(Some(before.map_or(i64::MAX, |before| before.0))),
            Value::Int(Some(i64::from(most))),
            Value::Int(Some(i64::from(WINDOW))),
            Value::Text(filter.who.clone()),
            Value::Text(filter.action.clone()),
            Value::Time(filter.since),
        ];
        let rows = self.look(Statement::AuditList, params).await?;
        let seen_down_to = rows.first().map_or(Ok(None), |row| row.get::<Option<i64>>("seen_down_to"))?;
        let mut items = Vec::new();
        for row in &rows {
            if row.get::<Option<i64>>("id")?.is_some() {
                items.push(AuditView::of(row)?);
            }
        }
        let next = next_of(&items, most, |entry| entry.id).or(seen_down_to.map(AuditId));
        Ok(Page { items, next })
    }
}
