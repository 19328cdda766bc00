//! Search for jobs.

use lineclear_model::query::{Moment, Names, Query};
use lineclear_model::{JobState, Micros};

use crate::db::statements::Statement;
use crate::db::{Value, values};
use crate::error::no_answer;
use crate::read::{JobView, PAGE_MAX, next_of};
use crate::store::{JobId, Store, StoreResult};

/// Rows of each table that a page scans at most.
const WINDOW: u32 = 10_000;

/// Counting stops here.
const COUNT_MAX: u64 = 10_000;
/// Pages that counting scans at most.
const COUNT_PAGES_MAX: u32 = 20;

/// A page of jobs that match a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The jobs, newest first.
    pub items: Vec<JobView>,
    /// Pass this to get the next page; `None`: this was the last. A page may be empty without being the last: each scans a
    /// bounded number of rows.
    pub next: Option<JobId>,
    /// Rows that were scanned for this page.
    pub rows_scanned: u64,
}

/// How many jobs match a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number counted.
    pub count: u64,
    /// Whether that is all; otherwise there are at least that many.
    pub is_exact: bool,
}

/// The parameters of `search_jobs`. The query has no relative times.
pub(crate) fn params(query: &Query, before: i64, most: u32, window: u32) -> Vec<Value> {
    use JobState::{Cancelled, Completed, Dead, Held, Parked, Queued, Ready, Retrying, Running, Scheduled};
    let any = |states: &[JobState]| states.iter().any(|state| query.wants(*state));
    let words = |words: Option<Vec<String>>| Value::MaybeTexts(words);
    let time = |moment: Option<Moment>| moment.map(|moment| moment.at(Micros::EPOCH));
    let (mut least, mut below) = (query.id_span.min.max(0), before.min(query.id_span.max.saturating_add(1)));
    if let (Some(first), Some(last)) = (query.ids.iter().min(), query.ids.iter().max()) {
        (least, below) = (least.max(*first), below.min(last.saturating_add(1)));
    }
    let mut params = values![
        below,
        most,
        window,
        least,
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
        params.extend(values![any_of.clone(), none_of.clone()]);
    }
    params.extend(values![query.ids.clone(), query.not_ids.clone()]);
    params.extend(values![query.claims.min, query.claims.max]);
    params.extend(values![query.duration.map(|span| span.min), query.duration.map(|span| span.max)]);
    params.extend(values![time(query.since), time(query.until)]);
    for Names { any_of, none_of } in [&query.tag, &query.fingerprint, &query.reason] {
        params.extend(values![any_of.clone(), none_of.clone()]);
    }
    params.extend(values![query.only_awaiting]);
    params
}

impl Store {
    /// Jobs that match a query, newest first, before `before` if given.
    pub async fn search(&self, query: &Query, before: Option<JobId>, most: u32) -> StoreResult<Found> {
        let most = most.clamp(1, PAGE_MAX);
        let query = self.fixed(query.clone()).await?;
        // Without a filter, a page scans no more rows than it returns. Otherwise it begins with a small window.
        let windows = if query == Query::default() {
            vec![most]
        } else {
            vec![most.saturating_mul(4).min(WINDOW), WINDOW]
        };
        let mut found = Found { items: Vec::new(), next: before, rows_scanned: 0 };
        for window in windows {
            let left = most - u32::try_from(found.items.len()).unwrap_or(most);
            let scanned = u32::try_from(found.rows_scanned).unwrap_or(u32::MAX);
            let next =
                self.search_window(&query, found.next, left, window.saturating_sub(scanned).max(1)).await?;
            found.items.extend(next.items);
            (found.next, found.rows_scanned) = (next.next, found.rows_scanned + next.rows_scanned);
            if found.items.len() >= most as usize || found.next.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Searches `window` rows of each table.
    async fn search_window(
        &self,
        query: &Query,
        before: Option<JobId>,
        most: u32,
        window: u32,
    ) -> StoreResult<Found> {
        let before = before.map_or(i64::MAX, |before| before.0);
        let rows = self.read_rows(Statement::SearchJobs, params(query, before, most, window)).await?;
        let first = rows.first().ok_or_else(|| no_answer("search_jobs"))?;
        let seen_down_to: Option<i64> = first.get("seen_down_to")?;
        let rows_scanned = first.get("looked")?;
        let mut items = Vec::new();
        for row in &rows {
            if row.get::<Option<i64>>("id")?.is_some() {
                items.push(JobView::of(row)?);
            }
        }
        let next = next_of(&items, most, |job| job.id).or(seen_down_to.map(JobId));
        Ok(Found { items, next, rows_scanned })
    }

    /// The query with times relative to now replaced by absolute ones, on the database's clock.
    pub(crate) async fn fixed(&self, query: Query) -> StoreResult<Query> {
        let is_ago = |moment: Option<Moment>| matches!(moment, Some(Moment::Ago(_)));
        if !is_ago(query.since) && !is_ago(query.until) {
            return Ok(query);
        }
        let now = self.now().await?;
        Ok(query.fixed_at(now))
    }

    /// Counts the jobs that match a query, up to a bound.
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
