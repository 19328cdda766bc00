//! What is written, each in one transaction. Updates of several processes arrive late and in any order: [`decide`] says which of
//! them change a row. The clocks of processes are not written: an update says how long ago something happened, and the database's
//! clock does the rest.

use super::super::record::LockEventKind;
use super::super::runners::RunnerUpdate;
use super::super::updates::{Contention, HoldEnd, LeaseUpdate, VanishedHold};
use super::value::{Params, Row, Value};
use super::{Executor, Statement, params};
use crate::error::LockError;
use crate::name::Epoch;

/// A change of the tables.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write(Vec<LeaseUpdate>),
    Contend(Vec<Contention>),
    End(HoldEnd),
    Runners(Vec<RunnerUpdate>),
    Remove(VanishedHold),
    /// One statement.
    Run(Statement, Params),
}

impl Change {
    /// Applies the change; `false`: it did not apply any more.
    pub(super) async fn apply(&self, db: &mut dyn Executor) -> Result<bool, LockError> {
        match self {
            Change::Write(updates) if db.is_set_wise() => {
                db.run_all(Statement::LeaseWrite, updates.iter().map(params::write).collect()).await?;
            }
            Change::Write(updates) => {
                for update in updates {
                    write(db, update).await?;
                }
            }
            Change::Contend(contentions) => {
                let rows = contentions.iter().map(params::contend).collect();
                db.run_all(Statement::LeaseContend, rows).await?;
            }
            Change::End(end) => {
                let event = Event {
                    name: end.name.as_str(),
                    store: &end.store,
                    what: end.what,
                    ago: 0,
                    holder: &end.holder,
                    epoch: end.epoch,
                    before: None,
                    by_whom: end.by_whom.as_deref(),
                    why: end.why.as_deref(),
                };
                let mut params = params::end(end);
                if db.is_set_wise() {
                    params.extend(event.details());
                    db.run(Statement::LeaseEnd, params).await?;
                } else {
                    db.run(Statement::LeaseEnd, params).await?;
                    db.run(Statement::EventWrite, event.params()).await?;
                }
            }
            Change::Runners(runners) => {
                db.run_all(Statement::RunnerWrite, runners.iter().map(params::runner).collect()).await?;
            }
            Change::Remove(hold) => return remove(db, hold).await,
            Change::Run(statement, params) => drop(db.run(*statement, params.clone()).await?),
        }
        Ok(true)
    }

    /// Whether it only renews rows.
    #[cfg(feature = "mysql")]
    pub(super) fn renewals(&self) -> Option<&[LeaseUpdate]> {
        let Change::Write(updates) = self else { return None };
        let only_renews = |update: &LeaseUpdate| update.acquisitions == 0 && update.ended_ago.is_none();
        updates.iter().all(only_renews).then_some(updates)
    }
}

async fn write(db: &mut dyn Executor, update: &LeaseUpdate) -> Result<(), LockError> {
    let (name, store) = (update.name.as_str(), &*update.store);
    let rows = db.run(Statement::LeaseCurrent, params::key(name, store)).await?;
    let current = rows.first().map(CurrentHold::from_row).transpose()?;
    let (changed, before) = match decide(current.as_ref(), update) {
        Decision::Outdated => return Ok(()),
        Decision::SameHolder => (false, None),
        Decision::NewHolder(before) => (true, before),
    };
    let mut params = params::write(update);
    params.push(("changed", i64::from(changed).into()));
    db.run(Statement::LeaseWrite, params).await?;
    if changed {
        let event = Event {
            name,
            store,
            what: LockEventKind::Taken,
            ago: update.acquired_ago,
            holder: &update.holder.to_string(),
            epoch: update.epoch,
            before: before.as_deref(),
            by_whom: None,
            why: None,
        };
        db.run(Statement::EventWrite, event.params()).await?;
    }
    Ok(())
}

async fn remove(db: &mut dyn Executor, hold: &VanishedHold) -> Result<bool, LockError> {
    if db.is_set_wise() {
        return Ok(!db.run(Statement::LeaseRemove, params::vanished(hold)).await?.is_empty());
    }
    let rows = db.run(Statement::LeaseVanished, params::vanished(hold)).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    db.run(Statement::LeaseRemove, params::key(&hold.name, &hold.store)).await?;
    let why = row.maybe_text("why")?;
    let event = Event {
        name: &hold.name,
        store: &hold.store,
        what: LockEventKind::Vanished,
        ago: 0,
        holder: &hold.holder,
        epoch: hold.epoch,
        before: None,
        by_whom: None,
        why: why.as_deref(),
    };
    db.run(Statement::EventWrite, event.params()).await?;
    Ok(true)
}

/// An event to insert.
struct Event<'a> {
    name: &'a str,
    store: &'a str,
    what: LockEventKind,
    ago: i64,
    holder: &'a str,
    epoch: Epoch,
    before: Option<&'a str>,
    by_whom: Option<&'a str>,
    why: Option<&'a str>,
}

impl Event<'_> {
    /// Of `event_write`.
    fn params(&self) -> Params {
        let mut params = params::key(self.name, self.store);
        params.extend([
            ("what", Value::text(self.what.as_str())),
            ("ago", self.ago.into()),
            ("holder", Value::text(self.holder)),
            ("epoch", self.epoch.get().into()),
            ("before", self.before.into()),
            ("by", self.by_whom.into()),
            ("why", self.why.into()),
        ]);
        params
    }

    /// What `lease_end` needs beside the parameters of its own, where it inserts the event itself.
    fn details(&self) -> Params {
        let (what, holder) = (Value::text(self.what.as_str()), Value::text(self.holder));
        vec![("what", what), ("holder", holder), ("by", self.by_whom.into()), ("why", self.why.into())]
    }
}

/// What a row has before an update.
#[derive(Clone, Debug)]
struct CurrentHold {
    incarnation: String,
    holder: String,
    epoch: i64,
    /// Microseconds since 1970, as `now`.
    renewed_at: i64,
    released: bool,
    now: i64,
}

impl CurrentHold {
    /// From a row of `lease_current`.
    fn from_row(row: &Row) -> Result<CurrentHold, LockError> {
        Ok(CurrentHold {
            incarnation: row.text("incarnation")?,
            holder: row.text("holder")?,
            epoch: row.int("epoch")?,
            renewed_at: row.int("renewed_us")?,
            released: row.int("released")? == 1,
            now: row.int("now_us")?,
        })
    }
}

/// What an update does to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// Nothing: the row is newer.
    Outdated,
    /// The holder stays the same.
    SameHolder,
    /// The holder changes; this was the holder before.
    NewHolder(Option<String>),
}

/// An update changes a row if its epoch is higher; if its hold began after the row was last renewed (a store may forget its epochs); or if
/// it belongs to the hold in the row and that has not ended. `lease_write.sql` of PostgreSQL has the same rule.
fn decide(current: Option<&CurrentHold>, update: &LeaseUpdate) -> Decision {
    let Some(current) = current else { return Decision::NewHolder(None) };
    let same = current.incarnation == update.holder.incarnation.to_string();
    let (epoch, began) = (update.epoch.get(), current.now.saturating_sub(update.acquired_ago));
    let continues = same && epoch == current.epoch && !current.released;
    if epoch <= current.epoch && began <= current.renewed_at && !continues {
        return Decision::Outdated;
    }
    if same { Decision::SameHolder } else { Decision::NewHolder(Some(current.holder.clone())) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::holder::Holder;
    use crate::name::LockName;

    fn update(holder: &Arc<Holder>, epoch: i64, acquired_ago: i64) -> LeaseUpdate {
        LeaseUpdate {
            name: LockName::new("a").unwrap(),
            store: Arc::from("postgres"),
            holder: holder.clone(),
            kind: None,
            epoch: Epoch::new(epoch),
            since_ago: acquired_ago,
            acquired_ago,
            ended_ago: None,
            renew_ms: 5_000,
            acquisitions: 1,
        }
    }

    #[test]
    fn an_update_changes_a_row_if_it_is_newer_or_continues_its_hold() {
        let (ours, theirs) = (Arc::new(Holder::this()), Arc::new(Holder::this()));
        let current = CurrentHold {
            incarnation: ours.incarnation.to_string(),
            holder: ours.to_string(),
            epoch: 5,
            renewed_at: 1_000,
            released: false,
            now: 1_100,
        };
        let before = Decision::NewHolder(Some(ours.to_string()));
        let decided = |current: &CurrentHold, update: &LeaseUpdate| decide(Some(current), update);
        assert_eq!(decide(None, &update(&ours, 1, 0)), Decision::NewHolder(None));
        assert_eq!(decided(&current, &update(&theirs, 6, 500)), before);
        assert_eq!(decided(&current, &update(&theirs, 4, 500)), Decision::Outdated);
        assert_eq!(decided(&current, &update(&theirs, 5, 500)), Decision::Outdated);
        assert_eq!(decided(&current, &update(&ours, 5, 500)), Decision::SameHolder, "a renewal");
        assert_eq!(decided(&current, &update(&theirs, 1, 50)), before, "the store has forgotten its epochs");
        let ended = CurrentHold { released: true, ..current };
        assert_eq!(decided(&ended, &update(&ours, 5, 500)), Decision::Outdated, "the lock was broken");
    }
}
