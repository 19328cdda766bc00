//! What people and their programs changed: written down before it is done, and what became of it after.

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value, Verb};
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{AuditId, Store, StoreResult, TokenId};
use crate::validate;

/// Something that is about to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudit {
    /// Who does it: `token:ci`, `session:ci`, `proxy:ada`, `cli:ada`, `local`.
    pub who: String,
    /// The token with which they do it.
    pub token: Option<TokenId>,
    /// What they do.
    pub action: String,
    /// What they do it to.
    pub target: String,
    /// The request by which they do it.
    pub request_id: String,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEnd {
    /// Of what.
    pub id: AuditId,
    /// The status of the answer, as in HTTP.
    pub status: u16,
    /// What it was before, and what it is now, as JSON; never an input or a secret.
    pub details: Option<String>,
}

/// A row of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// Its id; later ones are larger.
    pub id: AuditId,
    /// When it was about to be done.
    pub at: Micros,
    /// Who, what, to what, and by which request.
    pub entry: NewAudit,
    /// The status of the answer. `None`: it is not over, or the server died with it, and it may have been done or not.
    pub status: Option<u16>,
    /// When it was over.
    pub finished_at: Option<Micros>,
    /// What it was before, and what it is now, as JSON.
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

/// Which rows of the audit. All that is given must fit.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Of this person or token.
    pub who: Option<String>,
    /// Of this action.
    pub action: Option<String>,
    /// Not before.
    pub since: Option<Micros>,
}

/// Verb: things are about to be done. The ids are in the order of the entries.
pub(crate) struct AuditBegin(pub(crate) Vec<NewAudit>);

impl Verb for AuditBegin {
    type Answer = Vec<AuditId>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<AuditId>> {
        let texts = |of: fn(&NewAudit) -> &String| {
            Column::Texts(self.0.iter().map(|e| Some(of(e).clone())).collect())
        };
        let columns = vec![
            texts(|entry| &entry.who),
            Column::Ints(self.0.iter().map(|entry| entry.token.map(|id| id.0)).collect()),
            texts(|entry| &entry.action),
            texts(|entry| &entry.target),
            texts(|entry| &entry.request_id),
        ];
        let rows = session.rows(Statement::AuditBegin, columns).await?;
        rows.iter().map(|row| row.get("id").map(AuditId)).collect()
    }
}

/// Verb: what became of them.
pub(crate) struct AuditOver(pub(crate) Vec<AuditEnd>);

impl Verb for AuditOver {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let columns = vec![
            Column::Ints(self.0.iter().map(|end| Some(end.id.0)).collect()),
            Column::Ints(self.0.iter().map(|end| Some(i64::from(end.status))).collect()),
            Column::Texts(self.0.iter().map(|end| end.details.clone()).collect()),
        ];
        session.rows(Statement::AuditEnd, columns).await.map(drop)
    }
}

/// Rows that a filtered page may look through.
const WINDOW: u32 = 10_000;

impl Store {
    /// Writes down what is about to be done, in one statement; the ids are in the order of the entries.
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
        self.run(AuditBegin(entries)).await
    }

    /// Writes down what became of it, in one statement. The first word about an entry stays.
    pub async fn audit_end(&self, ends: Vec<AuditEnd>) -> StoreResult<()> {
        validate::check_batch(ends.len())?;
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
