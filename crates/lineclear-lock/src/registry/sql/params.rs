//! The parameters of each statement, in the order of their numbers.

use super::super::runners::RunnerUpdate;
use super::super::updates::{Contention, HoldEnd, LeaseFilter, LeaseUpdate, VanishedHold};
use super::value::{Params, Value};

/// Of `lease_current` and, where it follows `lease_vanished`, of `lease_remove`.
pub(super) fn key(name: &str, store: &str) -> Params {
    vec![("name", Value::name(name)), ("store", Value::name(store))]
}

/// Of `lease_write`; where the executor is not set-wise, `changed` follows.
pub(super) fn write(update: &LeaseUpdate) -> Params {
    let holder = &update.holder;
    let mut params = key(update.name.as_str(), &update.store);
    params.extend([
        ("node", Value::text(format!("{}/{}", holder.machine, holder.pid))),
        ("machine", Value::text(holder.machine.clone())),
        ("pid", i64::from(holder.pid).into()),
        ("incarnation", Value::text(holder.incarnation.to_string())),
        ("kind", update.kind.as_deref().into()),
        ("epoch", update.epoch.get().into()),
        ("since_ago", update.since_ago.into()),
        ("acquired_ago", update.acquired_ago.into()),
        ("ended_ago", update.ended_ago.into()),
        ("renew_ms", update.renew_ms.into()),
        ("taken", update.acquisitions.into()),
    ]);
    params
}

/// Of `runner_write`.
pub(super) fn runner(update: &RunnerUpdate) -> Params {
    let RunnerUpdate { runner, status, since_ago, failed_ago, renew_ms } = update;
    let holder = &runner.holder;
    // PostgreSQL has no zero bytes in text.
    let error = status.last_error.as_ref().map(|error| error.replace('\0', "\u{fffd}"));
    vec![
        ("id", Value::text(runner.id.to_string())),
        ("name", Value::name(runner.name.as_str())),
        ("store", Value::name(&*runner.store)),
        ("node", Value::text(format!("{}/{}", holder.machine, holder.pid))),
        ("machine", Value::text(holder.machine.clone())),
        ("pid", i64::from(holder.pid).into()),
        ("incarnation", Value::text(holder.incarnation.to_string())),
        ("kind", runner.kind.as_deref().into()),
        ("state", Value::text(status.state.as_str())),
        ("since_ago", (*since_ago).into()),
        ("epoch", status.epoch.map(|epoch| epoch.get()).into()),
        ("failures", i64::from(status.failures).into()),
        ("error", Value::Text(error)),
        ("failed_ago", (*failed_ago).into()),
        ("renew_ms", (*renew_ms).into()),
    ]
}

/// Of `lease_contend`.
pub(super) fn contend(contention: &Contention) -> Params {
    let mut params = key(contention.name.as_str(), &contention.store);
    params.push(("busy", contention.busy.into()));
    params
}

/// Of `lease_end`; where the executor is set-wise, the event's parameters follow.
pub(super) fn end(end: &HoldEnd) -> Params {
    let mut params = key(end.name.as_str(), &end.store);
    params.extend([("epoch", end.epoch.get().into()), ("incarnation", end.incarnation.as_deref().into())]);
    params
}

/// Of `lease_vanished`, and of `lease_remove` where the executor is set-wise.
pub(super) fn vanished(hold: &VanishedHold) -> Params {
    let mut params = key(&hold.name, &hold.store);
    params.extend([
        ("incarnation", Value::text(hold.incarnation.clone())),
        ("epoch", hold.epoch.get().into()),
        ("quiet", hold.quiet.into()),
    ]);
    params
}

/// Of `lease_clean` and `event_clean`.
pub(super) fn clean(keep: i64, limit: u32) -> Params {
    vec![("keep", keep.into()), ("limit", i64::from(limit).into())]
}

/// Of `lease_list`.
pub(super) fn list(filter: &LeaseFilter) -> Params {
    let (after, after_store) = filter.after.clone().unzip();
    vec![
        ("name", Value::Name(filter.name.clone())),
        ("after", Value::Name(after)),
        ("after_store", Value::Name(after_store)),
        ("quiet", filter.quiet.into()),
        ("limit", i64::from(filter.limit).into()),
    ]
}

/// Of `event_list`.
pub(super) fn events(name: Option<&str>, before: Option<i64>, limit: u32) -> Params {
    let name = Value::Name(name.map(str::to_owned));
    vec![("name", name), ("before", before.into()), ("limit", i64::from(limit).into())]
}
