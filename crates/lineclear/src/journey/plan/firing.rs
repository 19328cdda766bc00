//! A manifest's firing: the planner, a completed parent or a person wants it to run now. Its overlap rule decides whether
//! that makes a job, and the ledger records the decision.

use std::collections::{HashMap, HashSet};

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Overlap, SkipReason};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value};
use crate::journey::enqueue::insert::{QueueRow, queue};
use crate::store::{JobId, StoreError, StoreResult};

/// The fields that a job gets from its manifest.
#[derive(Clone, Debug)]
pub(crate) struct JobTemplate {
    pub(crate) id: i64,
    pub(crate) kind: String,
    pub(crate) route: String,
    pub(crate) input: String,
    pub(crate) group_id: Option<i64>,
    pub(crate) overlap: Overlap,
    pub(crate) priority: i64,
    pub(crate) retries: Option<i64>,
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) tags: Option<String>,
}

impl JobTemplate {
    pub(crate) fn of(row: &Row) -> StoreResult<JobTemplate> {
        Ok(JobTemplate {
            id: row.get("id")?,
            kind: row.get("kind")?,
            route: row.get("route")?,
            input: row.get("input")?,
            group_id: row.get("group_id")?,
            overlap: row.word("overlap", Overlap::from_word)?,
            priority: row.get("priority")?,
            retries: row.get("retries")?,
            timeout_ms: row.get("timeout_ms")?,
            tags: row.get("tags")?,
        })
    }

    pub(crate) fn job(&self, origin: Origin) -> QueueRow {
        QueueRow {
            id: None,
            manifest_id: Some(self.id),
            tick_at: None,
            origin,
            fresh: false,
            kind: self.kind.clone(),
            route: self.route.clone(),
            input: self.input.clone(),
            group_id: self.group_id,
            priority: self.priority,
            due_at: None,
            delay: None,
            limit_key: None,
            unique_key: None,
            retries: self.retries,
            timeout_ms: self.timeout_ms,
            trace: None,
            tags: self.tags.clone(),
        }
    }
}

/// One firing of one manifest.
pub(crate) struct Firing {
    pub(crate) template: JobTemplate,
    pub(crate) origin: Origin,
    pub(crate) tick_at: Micros,
    pub(crate) due_at: Micros,
    /// A reason to skip it that the caller knows.
    pub(crate) skip: Option<SkipReason>,
}

/// A range of ticks that the caller skips.
pub(crate) struct SkippedRange {
    pub(crate) manifest_id: i64,
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    pub(crate) reason: SkipReason,
}

/// The result of the firings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) queued: u64,
    pub(crate) skipped: u64,
    /// Jobs by manifest and tick.
    pub(crate) jobs: HashMap<(i64, Micros), JobId>,
}

/// The live jobs of a manifest.
#[derive(Clone, Copy, Default)]
struct Live {
    /// A job of any kind: waiting, running, or waiting for a retry.
    any: bool,
    /// A fresh row that was never claimed.
    waits: bool,
}

/// Queues a job for each firing, or records why not. The caller has locked the manifests.
pub(crate) async fn fire(
    session: &mut Session,
    mut firings: Vec<Firing>,
    ranges: Vec<SkippedRange>,
) -> StoreResult<Fired> {
    let make_way = apply_overlap(session, &mut firings).await?;
    if !make_way.is_empty() {
        session.rows(Statement::CancelForNext, vec![Value::Ints(make_way)]).await?;
    }
    let mut fired = Fired::default();
    let ids = write_ledger(session, &firings, &ranges, &mut fired).await?;
    let mut rows = Vec::new();
    let mut places = Vec::new();
    for firing in &firings {
        match ids.get(&(firing.template.id, firing.tick_at)) {
            Some(Some(id)) => {
                rows.push(job(firing, *id));
                places.push((firing.template.id, firing.tick_at));
            }
            Some(None) => {}
            // A tick that is in the ledger was planned before. A firing without a schedule is always new.
            None if firing.origin == Origin::Tick => {}
            None => {
                let what =
                    format!("manifest {} has had a firing at {} already", firing.template.id, firing.tick_at);
                return Err(StoreError::Corrupt { what });
            }
        }
    }
    let queued = queue(session, &rows).await?;
    // Another transaction inserted a fresh row between our read and our write.
    let late: Vec<(i64, Micros)> =
        places.iter().zip(&queued).filter(|(_, id)| id.is_none()).map(|(place, _)| *place).collect();
    fired.queued = u64::try_from(queued.len() - late.len()).expect("a count fits");
    fired.jobs = places.iter().zip(&queued).filter_map(|(place, id)| Some((*place, (*id)?))).collect();
    if !late.is_empty() {
        fired.skipped += u64::try_from(late.len()).expect("a count fits");
        let params = crate::db::Params {
            values: vec![Value::Text(Some(SkipReason::Overlap.as_str().to_owned()))],
            batch: vec![
                Column::Ints(late.iter().map(|(id, _)| Some(*id)).collect()),
                Column::Times(late.iter().map(|(_, at)| Some(*at)).collect()),
            ],
        };
        session.rows(Statement::TickSkip, params).await?;
    }
    Ok(fired)
}

fn job(firing: &Firing, id: JobId) -> QueueRow {
    let alone = matches!(firing.template.overlap, Overlap::QueueOne | Overlap::Cancel);
    QueueRow {
        id: Some(id.0),
        tick_at: (firing.origin == Origin::Tick).then_some(firing.tick_at),
        due_at: Some(firing.due_at),
        // Only one may wait, except where every tick counts.
        fresh: firing.template.overlap != Overlap::Allow,
        limit_key: alone.then(|| format!("manifest:{}", firing.template.id)),
        ..firing.template.job(firing.origin)
    }
}

/// Marks firings that their manifest's overlap rule holds back; returns the manifests whose running jobs must make way.
async fn apply_overlap(session: &mut Session, firings: &mut [Firing]) -> StoreResult<Vec<i64>> {
    let asked: HashSet<i64> = firings
        .iter()
        .filter(|t| t.skip.is_none() && t.template.overlap != Overlap::Allow)
        .map(|t| t.template.id)
        .collect();
    let mut live: HashMap<i64, Live> = HashMap::new();
    if !asked.is_empty() {
        let ids = asked.into_iter().collect();
        for row in session.rows(Statement::ManifestLive, vec![Value::Ints(ids)]).await? {
            let entry = live.entry(row.get("manifest_id")?).or_default();
            entry.any = true;
            entry.waits |= row.get::<bool>("waits")?;
        }
    }
    let mut make_way = Vec::new();
    for firing in firings.iter_mut().filter(|firing| firing.skip.is_none()) {
        let found = live.entry(firing.template.id).or_default();
        let free = match firing.template.overlap {
            Overlap::Allow => true,
            Overlap::Skip => !found.any,
            Overlap::QueueOne | Overlap::Cancel => !found.waits,
        };
        // Also if one waits already: the request to the running job may have met a locked row.
        if firing.template.overlap == Overlap::Cancel && found.any {
            make_way.push(firing.template.id);
        }
        if !free {
            firing.skip = Some(SkipReason::Overlap);
            continue;
        }
        // The next tick of the same manifest in this pass sees this one.
        *found = Live { any: true, waits: true };
    }
    Ok(make_way)
}

/// Records ranges as skipped.
pub(crate) async fn write_skipped(session: &mut Session, ranges: &[SkippedRange]) -> StoreResult<()> {
    write_ledger(session, &[], ranges, &mut Fired::default()).await.map(drop)
}

type Ledger = HashMap<(i64, Micros), Option<JobId>>;

/// Writes firings and ranges into the ledger; those that it had before are absent from the answer.
async fn write_ledger(
    session: &mut Session,
    firings: &[Firing],
    ranges: &[SkippedRange],
    fired: &mut Fired,
) -> StoreResult<Ledger> {
    let mut manifests = Vec::new();
    let mut ticks = Vec::new();
    let mut untils = Vec::new();
    let mut reasons = Vec::new();
    for firing in firings {
        manifests.push(Some(firing.template.id));
        ticks.push(Some(firing.tick_at));
        untils.push(None);
        reasons.push(firing.skip.map(|reason| reason.as_str().to_owned()));
    }
    for range in ranges {
        manifests.push(Some(range.manifest_id));
        ticks.push(Some(range.from));
        untils.push(Some(range.until));
        reasons.push(Some(range.reason.as_str().to_owned()));
    }
    if manifests.is_empty() {
        return Ok(Ledger::new());
    }
    let columns =
        vec![Column::Ints(manifests), Column::Times(ticks), Column::Times(untils), Column::Texts(reasons)];
    let mut ledger = Ledger::new();
    for row in session.rows(Statement::TickClaim, columns).await? {
        let job: Option<i64> = row.get("job_id")?;
        fired.skipped += u64::from(job.is_none());
        ledger.insert((row.get("manifest_id")?, row.get("tick_at")?), job.map(JobId));
    }
    Ok(ledger)
}
