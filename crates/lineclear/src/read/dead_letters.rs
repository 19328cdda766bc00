//! dead letters: lists, and families of those that died alike.

use lineclear_model::{DeadReason, Micros};

use crate::db::statements::Statement;
use crate::db::{Row, Value};
use crate::read::rows::dead_letter_of;
use crate::read::{DeadLetterView, PAGE_MAX, Page, next_of};
use crate::store::{DeadLetterFilter, DeadLetterId, JobId, Store, StoreError, StoreResult};
use crate::validate;

/// Rows that a page of those that match may look through.
const WINDOW: u32 = 10_000;
/// Rows that are looked through for families.
pub const FAMILIES_LOOKED_MAX: u32 = 100_000;

/// Dead letters that died alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyView {
    /// The kind of work.
    pub kind: String,
    /// Why they died.
    pub reason: DeadReason,
    /// The family of errors; `None`: they died of no error, because their workers vanished.
    pub fingerprint: Option<String>,
    /// How many.
    pub count: u64,
    /// When the first of them died.
    pub first_at: Micros,
    /// When the last one did.
    pub last_at: Micros,
    /// The newest job.
    pub job: JobId,
    /// What went wrong with it last.
    pub last_error: Option<String>,
}

/// What was found of families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Families {
    /// The largest first.
    pub items: Vec<FamilyView>,
    /// Dead letters that match, over all families.
    pub total: u64,
    /// Whether that is all: only the newest [`FAMILIES_LOOKED_MAX`] are looked at.
    pub is_exact: bool,
    /// When it was so, on the database's clock.
    pub at: Micros,
}

impl Store {
    /// Dead letters, newest first; `status` is awaiting, revived or acknowledged.
    pub async fn dead_letters(
        &self,
        status: Option<&str>,
        before: Option<DeadLetterId>,
        most: u32,
    ) -> StoreResult<Page<DeadLetterView, DeadLetterId>> {
        self.dead_letters_matching(&DeadLetterFilter::default(), status, before, most).await
    }

    /// The same, of those that match.
    pub async fn dead_letters_matching(
        &self,
        filter: &DeadLetterFilter,
        status: Option<&str>,
        before: Option<DeadLetterId>,
        most: u32,
    ) -> StoreResult<Page<DeadLetterView, DeadLetterId>> {
        filter.fingerprint.as_deref().map_or(Ok(()), validate::check_text)?;
        let most = most.clamp(1, PAGE_MAX);
        // Where everything fits, a page needs no more rows than it has.
        let window = if *filter == DeadLetterFilter::default() { most } else { WINDOW };
        let mut params = vec![
            Value::Int(Some(before.map_or(i64::MAX, |before| before.0))),
            Value::Text(status.map(str::to_owned)),
            Value::Int(Some(i64::from(most))),
        ];
        params.extend(filter.params());
        params.push(Value::Int(Some(i64::from(window))));
        let rows = self.read_rows(Statement::ListDeadLetters, params).await?;
        let seen_down_to: Option<i64> = first(&rows)?.get("seen_down_to")?;
        let mut items = Vec::new();
        for row in &rows {
            if row.get::<Option<i64>>("id")?.is_some() {
                items.push(dead_letter_of(row)?);
            }
        }
        let next = next_of(&items, most, |letter| letter.id).or(seen_down_to.map(DeadLetterId));
        Ok(Page { items, next })
    }

    /// Dead letters that await a person and match, put together by kind, reason and family of errors.
    pub async fn dead_families(&self, filter: &DeadLetterFilter, most: u32) -> StoreResult<Families> {
        filter.fingerprint.as_deref().map_or(Ok(()), validate::check_text)?;
        let mut params = filter.params().to_vec();
        let most = most.clamp(1, PAGE_MAX);
        params.extend([FAMILIES_LOOKED_MAX, most].map(|n| Value::Int(Some(i64::from(n)))));
        let rows = self.read_rows(Statement::ListDeadFamilies, params).await?;
        let (looked, total): (u64, u64) = (first(&rows)?.get("looked")?, first(&rows)?.get("total")?);
        let at = first(&rows)?.get("now")?;
        let mut items = Vec::new();
        for row in &rows {
            if row.get::<Option<String>>("kind")?.is_some() {
                items.push(family_of(row)?);
            }
        }
        Ok(Families { items, total, is_exact: looked < u64::from(FAMILIES_LOOKED_MAX), at })
    }
}

fn first(rows: &[Row]) -> StoreResult<&Row> {
    rows.first().ok_or_else(|| StoreError::Corrupt { what: "dead letters did not answer".to_owned() })
}

fn family_of(row: &Row) -> StoreResult<FamilyView> {
    Ok(FamilyView {
        kind: row.get("kind")?,
        reason: row.word("reason", DeadReason::from_word)?,
        fingerprint: row.get("fingerprint")?,
        count: row.get("count")?,
        first_at: row.get("first_at")?,
        last_at: row.get("last_at")?,
        job: JobId(row.get("job_id")?),
        last_error: row.get("last_error")?,
    })
}
