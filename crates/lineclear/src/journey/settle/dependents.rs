//! Dependents: a completed parent counts for the manifests that depend on it, in the transaction that records its completion.

use std::collections::{BTreeSet, HashMap};

use lineclear_model::job::Origin;
use lineclear_model::schedule::Need;
use lineclear_model::secret::without_value;
use lineclear_model::{Micros, Overlap, SkipReason, Spec};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value};
use crate::journey::execute::parent_output;
use crate::journey::plan::firing;
use crate::journey::plan::firing::{Firing, JobTemplate};
use crate::store::{JobId, StoreError, StoreResult};

/// Fires the children of `arrivals` (parent → its completed jobs). The caller has locked their state rows.
pub(crate) async fn children(session: &mut Session, arrivals: &HashMap<i64, Vec<JobId>>) -> StoreResult<()> {
    let parents = arrivals.keys().copied().collect();
    let rows = session.rows(Statement::DependentsLock, vec![Value::Ints(parents)]).await?;
    let mut firings = Vec::new();
    let mut states = Vec::new();
    let mut wanted = Vec::new();
    for row in &rows {
        let child = match Child::of(row) {
            Ok(child) => child,
            // A child that cannot be read must not keep its parents from ever being settled.
            Err(error) => {
                tracing::error!(%error, manifest = row.get::<String>("key")?, "a dependent manifest cannot be read");
                continue;
            }
        };
        let (fires, state) = child.arm(arrivals);
        let mut last_turn_at = child.last_turn_at;
        let mut completions = child.completions(arrivals);
        for _ in 0..fires {
            // A ledger key for each, later than all before: settles within one microsecond must not share one.
            let tick_at = last_turn_at.map_or(child.now, |last| child.now.max(last.offset(1)));
            last_turn_at = Some(tick_at);
            if child.template.overlap == Overlap::Allow {
                // Every firing counts, so each gets the outputs of its own parents' jobs; other rules use the newest.
                let of_turn = completions.next().unwrap_or_default();
                wanted.extend(
                    of_turn.into_iter().map(|(parent, job)| ((child.template.id, tick_at), parent, job)),
                );
            }
            let (template, origin) = (child.template.clone(), Origin::Dependent);
            firings.push(Firing { template, origin, tick_at, due_at: child.now, skip: child.skip });
        }
        states.push((child.template.id, state.0, state.1, last_turn_at));
    }
    if states.is_empty() {
        return Ok(());
    }
    let columns = vec![
        Column::Ints(states.iter().map(|s| Some(s.0)).collect()),
        Column::Texts(states.iter().map(|s| Some(s.1.clone())).collect()),
        Column::Ints(states.iter().map(|s| Some(s.2)).collect()),
        Column::Times(states.iter().map(|s| s.3).collect()),
    ];
    session.rows(Statement::DependentsArm, columns).await?;
    let fired = firing::fire(session, firings, Vec::new()).await?;
    let of_job = |(firing, parent, job)| fired.jobs.get(&firing).map(|id| (*id, parent, job));
    parent_output::remember(session, wanted.into_iter().filter_map(of_job).collect()).await
}

/// The parents that one firing is for, each with its job, or `None` for its newest completed one.
type Completions = Vec<(i64, Option<JobId>)>;

struct Child {
    template: JobTemplate,
    need: Need,
    dormant: bool,
    parents: BTreeSet<i64>,
    arrived: BTreeSet<i64>,
    round: i64,
    last_turn_at: Option<Micros>,
    skip: Option<SkipReason>,
    now: Micros,
}

impl Child {
    fn of(row: &Row) -> StoreResult<Child> {
        let corrupt = |what: String| StoreError::Corrupt { what };
        let spec = Spec::from_json(&row.get::<String>("spec")?)
            .map_err(|e| corrupt(without_value(&e.to_string())))?;
        let arrived: String = row.get("arrived")?;
        let parents: String = row.get("parents")?;
        let parent = |id: &str| id.parse().map_err(|_| corrupt(format!("{id:?} is not a manifest id")));
        let skip = if !row.get::<bool>("enabled")? {
            Some(SkipReason::Disabled)
        } else if row.get::<bool>("held")? {
            Some(SkipReason::DeadLetter)
        } else if !row.get::<bool>("group_enabled")? {
            Some(SkipReason::GroupDisabled)
        } else {
            None
        };
        Ok(Child {
            template: JobTemplate::of(row)?,
            need: spec.schedule.need(),
            dormant: spec.schedule.is_dormant(),
            parents: parents.split(',').map(parent).collect::<StoreResult<_>>()?,
            arrived: serde_json::from_str(&arrived).map_err(|e| corrupt(e.to_string()))?,
            round: row.get("round")?,
            last_turn_at: row.get("last_turn_at")?,
            skip,
            now: row.get("now")?,
        })
    }

    /// What each firing is for, in the order of the firings: one completion each, or all parents together.
    fn completions(&self, arrivals: &HashMap<i64, Vec<JobId>>) -> std::vec::IntoIter<Completions> {
        let of = |parent: &i64| arrivals.get(parent).cloned().unwrap_or_default();
        let each = |parent: &i64| of(parent).into_iter().map(|job| vec![(*parent, Some(job))]).collect();
        let firings: Vec<Completions> = match self.need {
            Need::Any => {
                self.parents.iter().flat_map(|parent| -> Vec<Completions> { each(parent) }).collect()
            }
            Need::All => vec![self.parents.iter().map(|parent| (*parent, None)).collect()],
        };
        firings.into_iter()
    }

    /// How often it fires for these arrivals, and its state afterwards.
    fn arm(&self, arrivals: &HashMap<i64, Vec<JobId>>) -> (i64, (String, i64)) {
        let jobs = |parent: &i64| arrivals.get(parent).map_or(0, Vec::len);
        let same = (json(&self.arrived), self.round);
        if self.dormant {
            // Only its running parent wakes it.
            return (0, same);
        }
        match self.need {
            Need::Any => {
                let fires =
                    i64::try_from(self.parents.iter().map(jobs).sum::<usize>()).expect("a batch fits");
                (fires, (same.0, self.round + fires))
            }
            Need::All => {
                let here = self.parents.iter().filter(|parent| jobs(parent) > 0);
                let arrived: BTreeSet<i64> = self.arrived.iter().chain(here).copied().collect();
                if arrived.is_superset(&self.parents) {
                    (1, (json(&BTreeSet::new()), self.round + 1))
                } else {
                    (0, (json(&arrived), self.round))
                }
            }
        }
    }
}

fn json(ids: &BTreeSet<i64>) -> String {
    serde_json::to_string(ids).expect("numbers are JSON")
}
