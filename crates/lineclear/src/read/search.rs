//! search: jobs that a query finds.

use lineclear_model::query::{Moment, Names, Query};
use lineclear_model::{JobState, Micros};

use crate::db::Value;
use crate::db::statements::Statement;
use crate::read::{JobView, PAGE_MAX, next_of};
use crate::store::{JobId, Store, StoreError, StoreResult};

/// Rows of each table that a page of a search may look through.
const WINDOW: u32 = 10_000;

/// A page of jobs that a query found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What was found, newest first.
    pub items: Vec<JobView>,
    /// Pass this to look on; `None`: there is no older job. A page may be empty and not the last: a search for rare things looks
    /// through a bounded number of rows at a time.
    pub next: Option<JobId>,
    /// Rows that were looked through for this page.
    pub looked: u64,
}

impl Store {
    /// Jobs that `query` finds, newest first, before `before` if given.
    pub async fn search(&self, query: &Query, before: Option<JobId>, most: u32) -> StoreResult<Found> {
        let most = most.clamp(1, PAGE_MAX);
        let query = self.fixed(query.clone()).await?;
        // Where everything fits, a page needs no more rows than it has; where most does, not many more.
        let windows = if query == Query::default() {
            vec![most]
        } else {
            vec![most.saturating_mul(4).min(WINDOW), WINDOW]
        };
        let mut found = Found { items: Vec::new(), next: before, looked: 0 };
        for window in windows {
            let left = most - u32::try_from(found.items.len()).unwrap_or(most);
            let looked = u32::try_from(found.looked).unwrap_or(u32::MAX);
            let next = self.look_for(&query, found.next, left, window.saturating_sub(looked).max(1)).await?;
            found.items.extend(next.items);
            (found.next, found.looked) = (next.next, found.looked + next.looked);
            if found.items.len() >= most as usize || found.next.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Looks through so many rows of each table.
    async fn look_for(
        &self,
        query: &Query,
        before: Option<JobId>,
        most: u32,
        window: u32,
    ) -> StoreResult<Found> {
        let before = before.map_or(i64::MAX, |before| before.0);
        let rows = self.read_rows(Statement::SearchJobs, params(query, before, most, window)).await?;
        let first =
            rows.first().ok_or_else(|| StoreError::Corrupt { what: "search did not answer".to_owned() })?;
        let seen_down_to: Option<i64> = first.get("seen_down_to")?;
        let looked = first.get("looked")?;
        let mut items = Vec::new();
        for row in &rows {
            if row.get::<Option<i64>>("id")?.is_some() {
                items.push(JobView::of(row)?);
            }
        }
        let next = next_of(&items, most, |job| job.id).or(seen_down_to.map(JobId));
        Ok(Found { items, next, looked })
    }

    /// The same query with moments instead of "so long ago", on the database's clock.
    pub(crate) async fn fixed(&self, query: Query) -> StoreResult<Query> {
        let is_ago = |moment: Option<Moment>| matches!(moment, Some(Moment::Ago(_)));
        if !is_ago(query.since) && !is_ago(query.until) {
            return Ok(query);
        }
        let rows = self.read_rows(Statement::Now, Vec::new()).await?;
        let now: Micros = rows
            .first()
            .ok_or_else(|| StoreError::Corrupt { what: "now did not answer".to_owned() })?
            .get("now")?;
        Ok(query.fixed_at(now))
    }

    /// How many jobs a query finds, up to a bound.
    pub async fn count(&self, query: &Query) -> StoreResult<Count> {
        let query = self.fixed(query.clone()).await?;
        let (mut count, mut before) = (0, None);
        for _ in 0..COUNT_PAGES_MAX {
            let found = self.search(&query, before, PAGE_MAX).await?;
            count += found.items.len() as u64;
            before = found.next;
            if before.is_none() || count >= COUNT_MAX {
                break;
            }
        }
        Ok(Count { count, is_exact: before.is_none() })
    }
}

/// What `search_jobs` is given. The query's moments are fixed.
pub(crate) fn params(query: &Query, before: i64, most: u32, window: u32) -> Vec<Value> {
    use JobState::{Cancelled, Completed, Dead, Held, Parked, Queued, Ready, Retrying, Running, Scheduled};
    let int = |value: i64| Value::Int(Some(value));
    let any = |states: &[JobState]| Value::Bool(states.iter().any(|state| query.wants(*state)));
    let words = |words: Option<Vec<String>>| Value::MaybeTexts(words);
    let time = |moment: Option<Moment>| Value::Time(moment.map(|moment| moment.at(Micros::EPOCH)));
    let (mut least, mut below) = (query.id_span.min.max(0), before.min(query.id_span.max.saturating_add(1)));
    if let (Some(first), Some(last)) = (query.ids.iter().min(), query.ids.iter().max()) {
        (least, below) = (least.max(*first), below.min(last.saturating_add(1)));
    }
    let mut params = vec![
        int(below),
        int(i64::from(most)),
        int(i64::from(window)),
        int(least),
        any(&[Scheduled, Queued, Held, Parked, Retrying]),
        any(&[Ready, Running]),
        any(&[Dead]),
        any(&[Completed, Cancelled]),
        words(query.states.as_ref().map(|states| states.iter().map(ToString::to_string).collect())),
        words(query.origins.as_ref().map(|origins| origins.iter().map(ToString::to_string).collect())),
    ];
    for Names { any_of, none_of } in
        [&query.kind, &query.group, &query.manifest, &query.route, &query.node, &query.error]
    {
        params.extend([Value::Texts(any_of.clone()), Value::Texts(none_of.clone())]);
    }
    params.extend([Value::Ints(query.ids.clone()), Value::Ints(query.not_ids.clone())]);
    params.extend([int(query.claims.min), int(query.claims.max)]);
    params.extend([
        Value::Int(query.duration.map(|span| span.min)),
        Value::Int(query.duration.map(|span| span.max)),
    ]);
    params.extend([time(query.since), time(query.until)]);
    for Names { any_of, none_of } in [&query.tag, &query.fingerprint, &query.reason] {
        params.extend([Value::Texts(any_of.clone()), Value::Texts(none_of.clone())]);
    }
    params.push(Value::Bool(query.only_awaiting));
    params
}

/// Jobs that are counted for a batch at most.
const COUNT_MAX: u64 = 10_000;

/// Pages that counting looks through at most.
const COUNT_PAGES_MAX: u32 = 20;

/// How many jobs a query finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// So many.
    pub count: u64,
    /// And no more; otherwise at least so many: counting stops at a bound.
    pub is_exact: bool,
}
