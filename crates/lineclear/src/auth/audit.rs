//! The audit log: an entry is written before an action, and its result after it.

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Column, Query, Row, values};
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{AuditId, Store, StoreResult, TokenId};
use crate::validate;

/// An action that is about to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudit {
    /// The actor: `token:ci`, `session:ci`, `proxy:ada`, `anonymous:127.0.0.1`, `cli:ada`, `local`.
    pub who: String,
    /// The token that authorizes it.
    pub token: Option<TokenId>,
    /// The action.
    pub action: String,
    /// The object of the action.
    pub target: String,
    /// The id of the request.
    pub request_id: String,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEnd {
    /// The entry it belongs to.
    pub id: AuditId,
    /// The HTTP status of the response.
    pub status: u16,
    /// The state before and after, as JSON; never an input or a secret.
    pub details: Option<String>,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// Its id; later ones are larger.
    pub id: AuditId,
    /// When the action began.
    pub at: Micros,
    /// Actor, action, target and request.
    pub entry: NewAudit,
    /// The HTTP status of the response. `None`: the action has not finished, or the server died before it recorded the
    /// result; the change may have been applied or not.
    pub status: Option<u16>,
    /// When the action finished.
    pub finished_at: Option<Micros>,
    /// The state before and after, as JSON.
    pub details: Option<String>,
}

impl AuditView {
    pub(crate) fn of(row: &Row) -> StoreResult<AuditView> {
        Ok(AuditView {
            id: AuditId(row.get("id")?),
            at: row.get("at")?,
            entry: NewAudit {
                who: row.get("who")?,
                token: row.get::<Option<i64>>("token_id")?.map(TokenId),
                action: row.get("action")?,
                target: row.get("target")?,
                request_id: row.get("request_id")?,
            },
            status: row.get("status")?,
            finished_at: row.get("finished_at")?,
            details: row.get("details")?,
        })
    }
}

/// Selects entries of the audit log; all given conditions must match.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// The actor.
    pub who: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// Entries from this time on.
    pub since: Option<Micros>,
}

/// Rows that a filtered page scans at most.
const WINDOW: u32 = 10_000;

impl Store {
    /// Records actions that are about to be taken, in one statement. The ids are in the order of the entries.
    pub async fn audit_begin(&self, entries: Vec<NewAudit>) -> StoreResult<Vec<AuditId>> {
        validate::check_batch(entries.len())?;
        for entry in &entries {
            [&entry.who, &entry.action, &entry.target, &entry.request_id]
                .into_iter()
                .try_for_each(|text| validate::check_text(text))?;
        }
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let texts = |of: fn(&NewAudit) -> &String| {
            Column::Texts(entries.iter().map(|entry| Some(of(entry).clone())).collect())
        };
        let columns = vec![
            texts(|entry| &entry.who),
            Column::Ints(entries.iter().map(|entry| entry.token.map(|id| id.0)).collect()),
            texts(|entry| &entry.action),
            texts(|entry| &entry.target),
            texts(|entry| &entry.request_id),
        ];
        self.run(Query::each(Statement::AuditBegin, columns, |row| row.get("id").map(AuditId))).await
    }

    /// Records the results of actions, in one statement. The first result of an entry stays.
    pub async fn audit_end(&self, ends: Vec<AuditEnd>) -> StoreResult<()> {
        validate::check_batch(ends.len())?;
        if ends.is_empty() {
            return Ok(());
        }
        let columns = vec![
            Column::Ints(ends.iter().map(|end| Some(end.id.0)).collect()),
            Column::Ints(ends.iter().map(|end| Some(i64::from(end.status))).collect()),
            Column::Texts(ends.into_iter().map(|end| end.details).collect()),
        ];
        self.run(Query::execute(Statement::AuditEnd, columns)).await
    }

    /// Entries of the audit log, newest first. A page may be empty without being the last: a filtered page scans a bounded
    /// number of rows.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditId>,
        most: u32,
    ) -> StoreResult<Page<AuditView, AuditId>> {
        let most = most.clamp(1, PAGE_MAX);
        let params = values![
            before.map_or(i64::MAX, |before| before.0),
            most,
            WINDOW,
            filter.who.as_deref(),
            filter.action.as_deref(),
            filter.since,
        ];
        let rows = self.read_rows(Statement::AuditList, params).await?;
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
