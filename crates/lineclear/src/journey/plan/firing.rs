//! A manifest's turn: the planner, a completed parent or a person says that it should run now. Its overlap rule decides
//! whether that makes a job, and the ledger records what became of it.

use std::collections::{HashMap, HashSet};

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, Overlap, SkipReason, tag};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value};
use crate::journey::enqueue::insert::{QueueRow, queue};
use crate::store::{JobId, StoreError, StoreResult};

/// What a job gets from its manifest.
#[derive(Clone, Debug)]
pub(crate) struct Order {
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

/// The tags of a manifest, as jobs have them. Most have none, and their specs need not be read for it.
fn tags_of(spec: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Part {
        tags: Vec<Name>,
    }
    let has_some = spec.contains("\"tags\"");
    has_some.then(|| serde_json::from_str(spec).ok()).flatten().and_then(|part: Part| tag::text(&part.tags))
}

impl Order {
    pub(crate) fn of(row: &Row) -> StoreResult<Order> {
        Ok(Order {
            id: row.get("id")?,
            kind: row.get("kind")?,
            route: row.get("route")?,
            input: row.get("input")?,
            group_id: row.get("group_id")?,
            overlap: row.word("overlap", Overlap::from_word)?,
            priority: row.get("priority")?,
            retries: row.get("retries")?,
            timeout_ms: row.get("timeout_ms")?,
            tags: tags_of(&row.get::<String>("spec")?),
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
            limit_key: None,
            unique_key: None,
            retries: self.retries,
            timeout_ms: self.timeout_ms,
            trace: None,
            tags: self.tags.clone(),
        }
    }
}

/// One turn of one manifest.
pub(crate) struct Turn {
    pub(crate) order: Order,
    pub(crate) origin: Origin,
    pub(crate) tick_at: Micros,
    pub(crate) due_at: Micros,
    /// A reason not to run that was known before.
    pub(crate) skip: Option<SkipReason>,
}

/// A skipped range that was known before.
pub(crate) struct SkippedRange {
    pub(crate) manifest_id: i64,
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    pub(crate) reason: SkipReason,
}

/// What became of the turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) queued: u64,
    pub(crate) skipped: u64,
    /// Jobs by manifest and tick.
    pub(crate) jobs: HashMap<(i64, Micros), JobId>,
}

/// What a manifest has on the way already.
#[derive(Clone, Copy, Default)]
struct Live {
    /// A job of any kind: waiting, running, or waiting for a retry.
    any: bool,
    /// A fresh row that was never claimed.
    waits: bool,
}

/// Lets each turn make a job, or records why not. The caller has locked the manifests.
pub(crate) async fn take(
    session: &mut Session,
    mut turns: Vec<Turn>,
    ranges: Vec<SkippedRange>,
) -> StoreResult<Taken> {
    let make_way = apply_overlap(session, &mut turns).await?;
    if !make_way.is_empty() {
        session.rows(Statement::CancelForNext, vec![Value::Ints(make_way)]).await?;
    }
    let mut taken = Taken::default();
    let ids = write_ledger(session, &turns, &ranges, &mut taken).await?;
    let mut rows = Vec::new();
    let mut places = Vec::new();
    for turn in &turns {
        match ids.get(&(turn.order.id, turn.tick_at)) {
            Some(Some(id)) => {
                rows.push(job(turn, *id));
                places.push((turn.order.id, turn.tick_at));
            }
            Some(None) => {}
            // A tick that is in the ledger already was planned before. A turn that no schedule gave is always new.
            None if turn.origin == Origin::Tick => {}
            None => {
                let what = format!("manifest {} has had a turn at {} already", turn.order.id, turn.tick_at);
                return Err(StoreError::Corrupt { what });
            }
        }
    }
    let queued = queue(session, &rows).await?;
    // Somebody else's fresh row came between our look and our write.
    let late: Vec<(i64, Micros)> =
        places.iter().zip(&queued).filter(|(_, id)| id.is_none()).map(|(place, _)| *place).collect();
    taken.queued = u64::try_from(queued.len() - late.len()).expect("a count fits");
    taken.jobs = places.iter().zip(&queued).filter_map(|(place, id)| Some((*place, (*id)?))).collect();
    if !late.is_empty() {
        taken.skipped += u64::try_from(late.len()).expect("a count fits");
        let params = crate::db::Params {
            values: vec![Value::Text(Some(SkipReason::Overlap.as_str().to_owned()))],
            batch: vec![
                Column::Ints(late.iter().map(|(id, _)| Some(*id)).collect()),
                Column::Times(late.iter().map(|(_, at)| Some(*at)).collect()),
            ],
        };
        session.rows(Statement::TickSkip, params).await?;
    }
    Ok(taken)
}

fn job(turn: &Turn, id: JobId) -> QueueRow {
    let alone = matches!(turn.order.overlap, Overlap::QueueOne | Overlap::Cancel);
    QueueRow {
        id: Some(id.0),
        tick_at: (turn.origin == Origin::Tick).then_some(turn.tick_at),
        due_at: Some(turn.due_at),
        // Only one may wait, except where every tick counts.
        fresh: turn.order.overlap != Overlap::Allow,
        limit_key: alone.then(|| format!("manifest:{}", turn.order.id)),
        ..turn.order.job(turn.origin)
    }
}

/// Marks turns that their manifest's overlap rule holds back; returns the manifests whose running jobs must make way.
async fn apply_overlap(session: &mut Session, turns: &mut [Turn]) -> StoreResult<Vec<i64>> {
    let asked: HashSet<i64> = turns
        .iter()
        .filter(|t| t.skip.is_none() && t.order.overlap != Overlap::Allow)
        .map(|t| t.order.id)
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
    for turn in turns.iter_mut().filter(|turn| turn.skip.is_none()) {
        let found = live.entry(turn.order.id).or_default();
        let free = match turn.order.overlap {
            Overlap::Allow => true,
            Overlap::Skip => !found.any,
            Overlap::QueueOne | Overlap::Cancel => !found.waits,
        };
        if !free {
            turn.skip = Some(SkipReason::Overlap);
            continue;
        }
        if turn.order.overlap == Overlap::Cancel && found.any {
            make_way.push(turn.order.id);
        }
        // The next tick of the same manifest in this pass sees this one.
        *found = Live { any: true, waits: true };
    }
    Ok(make_way)
}

/// Records ranges as skipped.
pub(crate) async fn write_skipped(session: &mut Session, ranges: &[SkippedRange]) -> StoreResult<()> {
    write_ledger(session, &[], ranges, &mut Taken::default()).await.map(drop)
}

type Ledger = HashMap<(i64, Micros), Option<JobId>>;

/// Writes turns and ranges into the ledger; what was there before is absent from the answer.
async fn write_ledger(
    session: &mut Session,
    turns: &[Turn],
    ranges: &[SkippedRange],
    taken: &mut Taken,
) -> StoreResult<Ledger> {
    let mut manifests = Vec::new();
    let mut ticks = Vec::new();
    let mut untils = Vec::new();
    let mut reasons = Vec::new();
    for turn in turns {
        manifests.push(Some(turn.order.id));
        ticks.push(Some(turn.tick_at));
        untils.push(None);
        reasons.push(turn.skip.map(|reason| reason.as_str().to_owned()));
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
        taken.skipped += u64::from(job.is_none());
        ledger.insert((row.get("manifest_id")?, row.get("tick_at")?), job.map(JobId));
    }
    Ok(ledger)
}
