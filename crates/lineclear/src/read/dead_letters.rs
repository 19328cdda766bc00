//! Lists of dead letters, and families: dead letters with the same error.

use lineclear_model::{DeadReason, Micros};

use crate::db::statements::Statement;
use crate::db::{Row, values};
use crate::error::no_answer;
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{DeadLetterFilter, DeadLetterId, JobId, Store, StoreResult};
use crate::validate;

/// Rows that a filtered page scans at most.
const WINDOW: u32 = 10_000;
/// Rows that are scanned for families at most.
pub const FAMILIES_LOOKED_MAX: u32 = 100_000;

/// A dead letter in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterView {
    /// Its id.
    pub id: DeadLetterId,
    /// Its job.
    pub job: JobId,
    /// The key of its manifest.
    pub manifest: Option<String>,
    /// The kind of work.
    pub kind: String,
    /// The reason.
    pub reason: DeadReason,
    /// The fingerprint of the error.
    pub fingerprint: Option<String>,
    /// `awaiting`, `revived` or `acknowledged`.
    pub status: String,
    /// The note of the person who resolved it.
    pub note: Option<String>,
    /// Failed attempts.
    pub failures: u32,
    /// Workers that vanished.
    pub crashes: u32,
    /// Its last error.
    pub last_error: Option<String>,
    /// When it died.
    pub dead_at: Micros,
    /// When it was resolved.
    pub resolved_at: Option<Micros>,
    /// Who resolved it.
    pub resolved_by: Option<String>,
}

fn dead_letter_of(row: &Row) -> StoreResult<DeadLetterView> {
    Ok(DeadLetterView {
        id: DeadLetterId(row.get("id")?),
        job: JobId(row.get("job_id")?),
        manifest: row.get("manifest_key")?,
        kind: row.get("kind")?,
        reason: row.word("reason", DeadReason::from_word)?,
        fingerprint: row.get("fingerprint")?,
        status: row.get("status")?,
        note: row.get("note")?,
        failures: row.get("failures")?,
        crashes: row.get("crashes")?,
        last_error: row.get("last_error")?,
        dead_at: row.get("dead_at")?,
        resolved_at: row.get("resolved_at")?,
        resolved_by: row.get("resolved_by")?,
    })
}

/// Dead letters of one kind that died for the same reason with the same error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyView {
    /// The kind of work.
    pub kind: String,
    /// The reason.
    pub reason: DeadReason,
    /// The fingerprint of the error; `None`: there was no error, their workers vanished.
    pub fingerprint: Option<String>,
    /// How many.
    pub count: u64,
    /// When the first died.
    pub first_at: Micros,
    /// When the last died.
    pub last_at: Micros,
    /// The newest job.
    pub job: JobId,
    /// Its last error.
    pub last_error: Option<String>,
}

/// A list of families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Families {
    /// The largest first.
    pub items: Vec<FamilyView>,
    /// Dead letters that match, over all families.
    pub total: u64,
    /// Whether `total` is exact: only the newest [`FAMILIES_LOOKED_MAX`] are scanned.
    pub is_exact: bool,
    /// When they were read, on the database's clock.
    pub at: Micros,
}

fn first(rows: &[Row]) -> StoreResult<&Row> {
    rows.first().ok_or_else(|| no_answer("list_dead_letters"))
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

    /// Dead letters that match a filter, newest first; `status` is awaiting, revived or acknowledged.
    pub async fn dead_letters_matching(
        &self,
        filter: &DeadLetterFilter,
        status: Option<&str>,
        before: Option<DeadLetterId>,
        most: u32,
    ) -> StoreResult<Page<DeadLetterView, DeadLetterId>> {
        filter.fingerprint.as_deref().map_or(Ok(()), validate::check_text)?;
        let most = most.clamp(1, PAGE_MAX);
        // Without a filter, a page scans no more rows than it returns.
        let window = if *filter == DeadLetterFilter::default() { most } else { WINDOW };
        let mut params = values![before.map_or(i64::MAX, |before| before.0), status, most];
        params.extend(filter.params());
        params.extend(values![window]);
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

    /// Awaiting dead letters that match a filter, grouped by kind, reason and fingerprint.
    pub async fn dead_families(&self, filter: &DeadLetterFilter, most: u32) -> StoreResult<Families> {
        filter.fingerprint.as_deref().map_or(Ok(()), validate::check_text)?;
        let mut params = filter.params().to_vec();
        let most = most.clamp(1, PAGE_MAX);
        params.extend(values![FAMILIES_LOOKED_MAX, most]);
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
