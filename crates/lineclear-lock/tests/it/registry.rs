//! The lease registry: what every database that has one must do.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::registry::{Classifier, Hold};
use lineclear_lock::{
    Epoch, Holder, LeaseRecord, LeaseState, LockEventKind, LockName, Locks, Next, Registry, RegistryOptions,
    RunnerRecord, RunnerState, Singleton, Term,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::kit::{Place, SOON, TTL, quick};

/// Heartbeats come often, so that a test need not wait for them.
pub(crate) fn often() -> RegistryOptions {
    RegistryOptions {
        heartbeat: Duration::from_millis(300),
        sweep_after: Duration::from_millis(900),
        ..RegistryOptions::default()
    }
}

/// Heartbeats and sweeps never come.
pub(crate) fn never() -> RegistryOptions {
    let day = Duration::from_secs(24 * 3600);
    RegistryOptions { heartbeat: day, sweep_after: day * 3, ..RegistryOptions::default() }
}

impl Place {
    /// The locks, recorded in the same database, as another process would open them.
    pub(crate) async fn with_registry(&self, options: RegistryOptions) -> Locks {
        let registry = Registry::new(self.url.as_deref().unwrap(), options).unwrap();
        Locks::with_registry(self.backend(), quick(), registry).await.unwrap()
    }
}

fn registry(locks: &Locks) -> &Registry {
    locks.registry().unwrap()
}

pub(crate) async fn only(locks: &Locks) -> LeaseRecord {
    let mut leases = registry(locks).leases(100).await.unwrap();
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases.remove(0)
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < SOON, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn events(locks: &Locks) -> Vec<LockEventKind> {
    let mut events = registry(locks).history(Some("report"), None, 100).await.unwrap();
    events.reverse();
    events.into_iter().map(|event| event.what).collect()
}

pub(crate) async fn a_held_lock_is_shown_with_who_holds_it_since_when_and_of_which_kind(place: &Place) {
    let (one, other) = (place.with_registry(never()).await, place.with_registry(never()).await);
    let held = one.of_kind("books").try_lock("report").await.unwrap().unwrap();
    one.flush().await;
    let lease = only(&other).await;
    let me = one.holder();
    assert_eq!((lease.name.as_str(), lease.state, lease.epoch), ("report", LeaseState::Held, held.epoch()));
    assert_eq!((&lease.machine, lease.pid), (&me.machine, me.pid));
    assert_eq!(lease.incarnation, me.incarnation.to_string());
    assert_eq!(lease.node, format!("{}/{}", me.machine, me.pid));
    assert_eq!((lease.kind.as_deref(), lease.released_at), (Some("books"), None));
    assert_eq!((lease.since, lease.holds), (lease.acquired_at, 1));
    registry(&one).flush().await.unwrap();
    let renewed = only(&other).await;
    assert_eq!(
        (renewed.since, renewed.acquired_at),
        (lease.since, lease.acquired_at),
        "it began when it began"
    );
    assert!(renewed.renewed_at > lease.renewed_at);
    assert!(lease.renewed_ago < SOON);
    let engine = lease.inspection.as_ref().unwrap();
    assert_eq!((&engine.holding.holder, engine.holding.epoch), (&lease.holder(), held.epoch()));
    held.release().await.unwrap();
    one.flush().await;
    let lease = only(&other).await;
    assert_eq!(lease.state, LeaseState::Idle, "the row is kept");
    assert!(lease.released_at.is_some_and(|at| at >= lease.acquired_at));
    assert_eq!(events(&other).await, [LockEventKind::Taken]);
    assert_eq!(registry(&other).lease("report").await.unwrap().len(), 1);
    assert_eq!(registry(&other).lease("Report").await.unwrap().len(), 0);
}

/// V1
pub(crate) async fn a_lock_that_is_held_for_long_stays_and_is_renewed(place: &Place) {
    let (one, other) = (place.with_registry(often()).await, place.with_registry(often()).await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    one.flush().await;
    for _ in 0..3 {
        // Two hours pass, and the heartbeat comes.
        place
            .sql("update {t}lock_lease set renewed_at = renewed_at - {2h}, acquired_at = acquired_at - {2h}")
            .await;
        until("the row is renewed", async || {
            let leases = registry(&other).leases(100).await.unwrap();
            leases.first().is_some_and(|lease| lease.state == LeaseState::Held && lease.renewed_ago < SOON)
        })
        .await;
    }
    let lease = only(&other).await;
    assert_eq!((lease.state, lease.epoch, lease.holds), (LeaseState::Held, held.epoch(), 1));
    held.release().await.unwrap();
}

/// V2
pub(crate) async fn taking_and_releasing_often_does_not_flicker(place: &Place) {
    let (one, other) = (place.with_registry(often()).await, place.with_registry(often()).await);
    drop(one.try_lock("report").await.unwrap().unwrap());
    one.flush().await;
    let first = only(&other).await;
    let runner = tokio::spawn(async move {
        for _ in 0..30 {
            let held = one.acquire("report", SOON).await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(40)).await;
            held.release().await.unwrap();
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        one.flush().await;
        one
    });
    while !runner.is_finished() {
        let lease = only(&other).await;
        assert!(matches!(lease.state, LeaseState::Held | LeaseState::Idle), "{lease:?}");
        assert_eq!((lease.since, &lease.incarnation), (first.since, &first.incarnation));
    }
    let one = runner.await.unwrap();
    let lease = only(&other).await;
    assert_eq!((lease.state, lease.holds), (LeaseState::Idle, 31));
    assert_eq!(events(&one).await, [LockEventKind::Taken], "the same node has had it all the time");
}

/// V3
pub(crate) async fn who_finds_it_busy_writes_nothing_but_is_counted_on_the_holder_s_row(place: &Place) {
    let (one, other) = (place.with_registry(never()).await, place.with_registry(often()).await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    one.flush().await;
    for _ in 0..5 {
        assert!(other.try_lock("report").await.unwrap().is_none());
    }
    until("the count is written", async || only(&one).await.contended == 5).await;
    let lease = only(&one).await;
    assert!(lease.belongs_to(one.holder()) && !lease.belongs_to(other.holder()));
    assert!(lease.contended_at.is_some());
    assert_eq!(events(&one).await, [LockEventKind::Taken]);
    held.release().await.unwrap();
    one.flush().await;
    // A lock without a row: the process that found it busy adds none.
    place.sql("delete from {t}lock_lease").await;
    let unseen = place.locks().await.try_lock("report").await.unwrap().unwrap();
    assert!(other.try_lock("report").await.unwrap().is_none());
    tokio::time::sleep(often().heartbeat * 3).await;
    assert_eq!(registry(&one).leases(100).await.unwrap(), []);
    unseen.release().await.unwrap();
}

/// V4
pub(crate) async fn processes_of_one_machine_and_pid_are_told_apart(place: &Place) {
    let (one, other) = (place.with_registry(never()).await, place.with_registry(never()).await);
    assert_eq!((&one.holder().machine, one.holder().pid), (&other.holder().machine, other.holder().pid));
    let held = [one.try_lock("a").await.unwrap().unwrap(), other.try_lock("b").await.unwrap().unwrap()];
    one.flush().await;
    other.flush().await;
    let leases = registry(&one).leases(100).await.unwrap();
    let ours: Vec<bool> = leases.iter().map(|lease| lease.belongs_to(one.holder())).collect();
    assert_eq!(ours, [true, false]);
    assert_ne!(leases[0].holder(), leases[1].holder());
    drop(held);
}

pub(crate) async fn a_change_of_hands_is_an_event_with_both_of_them(place: &Place) {
    let (one, other) = (place.with_registry(never()).await, place.with_registry(never()).await);
    for locks in [&one, &one, &other, &one] {
        locks.acquire("report", SOON).await.unwrap().unwrap().release().await.unwrap();
        locks.flush().await;
    }
    let history = registry(&one).history(Some("report"), None, 100).await.unwrap();
    let hands: Vec<_> = history.iter().rev().map(|event| (&event.before, &event.holder)).collect();
    let (a, b) = (one.holder().to_string(), other.holder().to_string());
    assert_eq!(hands, [(&None, &a), (&Some(a.clone()), &b), (&Some(b.clone()), &a)]);
    assert!(history.is_sorted_by(|newer, older| newer.epoch > older.epoch && newer.at >= older.at));
    let page = registry(&one).history(None, Some(history[0].id), 1).await.unwrap();
    assert_eq!(page, history[1..2]);
    let lease = only(&one).await;
    assert_eq!((lease.holds, lease.contended), (1, 0), "counted since the lock came to this node");
}

/// Each of the states that need no death.
pub(crate) async fn a_row_is_checked_against_the_store_of_the_lock(place: &Place) {
    let (one, plain) = (place.with_registry(never()).await, place.locks().await);
    let state = async || only(&one).await.state;
    let held = one.try_lock("report").await.unwrap().unwrap();
    one.flush().await;
    assert_eq!(state().await, LeaseState::Held);
    place.sql("update {t}lock_lease set renew_ms = 5000, renewed_at = renewed_at - {2h}").await;
    assert_eq!(state().await, LeaseState::Stale, "not heard of, but the lock is held");
    let seen = plain.inspect("report").await.unwrap().unwrap();
    assert!(plain.break_lock("report", &seen, "a test", None).await.unwrap());
    until("its session has ended", async || state().await != LeaseState::Stale).await;
    assert_eq!(state().await, LeaseState::Orphan, "not released, and not held");
    let next = plain.acquire("report", SOON).await.unwrap().unwrap();
    assert_eq!(state().await, LeaseState::Drift, "a holder without a registry has it");
    drop(held);
    one.flush().await;
    assert_eq!(state().await, LeaseState::Drift);
    next.release().await.unwrap();
    assert_eq!(state().await, LeaseState::Idle);
}

pub(crate) async fn who_went_away_is_swept_by_the_database_s_clock_and_who_has_the_lock_is_not(
    place: &Place,
) {
    let one = place.with_registry(never()).await;
    let held = one.try_lock("held").await.unwrap().unwrap();
    one.try_lock("idle").await.unwrap().unwrap().release().await.unwrap();
    one.try_lock("young").await.unwrap().unwrap().release().await.unwrap();
    one.flush().await;
    // A holder that is gone, and one with a recent heartbeat; neither holds its lock.
    for (name, ago) in [("gone", "{2h}"), ("here", "{2h} + {2h} + {2h}")] {
        place
            .sql(&format!(
                "insert into {{t}}lock_lease (lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at, \
                 renewed_at, renew_ms, holds, contended) select '{name}', store, 'm/1', 'm', 1, 'i', kind, 7, since_at, acquired_at, \
                 renewed_at - {ago}, 300, 1, 0 from {{t}}lock_lease where lock_name = 'held'"
            ))
            .await;
    }
    place
        .sql("update {t}lock_lease set renew_ms = 300, renewed_at = renewed_at - {2h} where lock_name = 'held'")
        .await;
    let days = ["{2h}"; 13].join(" - ");
    place
        .sql(&format!(
            "update {{t}}lock_lease set released_at = released_at - {days} where lock_name = 'idle'"
        ))
        .await;
    let sweeper = place.with_registry(often()).await;
    let leases = async || registry(&sweeper).leases(100).await.unwrap();
    until("those that are long over have been removed", async || {
        !leases().await.iter().any(|lease| lease.name == "gone" || lease.name == "idle")
    })
    .await;
    // And the next pass, too, leaves the others alone.
    registry(&sweeper).sweep().await.unwrap();
    let left = leases().await;
    let left: Vec<_> = left.iter().map(|lease| (lease.name.as_str(), lease.state)).collect();
    let expected = [("held", LeaseState::Stale), ("here", LeaseState::Orphan), ("young", LeaseState::Idle)];
    assert_eq!(left, expected);
    let history = registry(&sweeper).history(Some("gone"), None, 10).await.unwrap();
    assert_eq!(
        (history.len(), history[0].what, history[0].epoch),
        (1, LockEventKind::Vanished, Epoch::new(7))
    );
    assert_eq!(history[0].holder, "m/1/i");
    assert!(history[0].why.as_ref().unwrap().contains("last renewed at 2"), "{history:?}");
    held.release().await.unwrap();
}

pub(crate) async fn a_lock_is_taken_away_with_a_raised_epoch_and_it_is_written_down(place: &Place) {
    let (one, operator) = (place.with_registry(never()).await, place.with_registry(never()).await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    one.flush().await;
    let seen = operator.inspect("report").await.unwrap().unwrap();
    assert_eq!((&seen.holding.holder, seen.holding.epoch), (&one.holder().to_string(), held.epoch()));
    assert!(operator.break_lock("report", &seen, "ada", Some("it hangs")).await.unwrap());
    tokio::time::timeout(SOON, held.lost().cancelled()).await.expect("the holder hears of it");
    let next = operator.acquire("report", SOON).await.unwrap().unwrap();
    assert!(next.epoch().get() > held.epoch().get() + 1, "the break raised the epoch");
    assert!(!operator.break_lock("report", &seen, "ada", None).await.unwrap(), "it is another's now");
    assert_eq!(next.confirm().await.unwrap(), Ok(()));
    let history = registry(&operator).history(Some("report"), None, 10).await.unwrap();
    let broken = history.iter().find(|event| event.what == LockEventKind::Broken).unwrap();
    assert_eq!((broken.by_whom.as_deref(), broken.why.as_deref()), (Some("ada"), Some("it hangs")));
    assert_eq!((&broken.holder, broken.epoch), (&one.holder().to_string(), held.epoch()));
}

pub(crate) async fn all_that_is_known_explains_a_lock(place: &Place) {
    let locks = place.with_registry(never()).await;
    let explained = locks.explain("report").await.unwrap();
    assert_eq!((explained.inspection.is_none(), explained.lease, explained.next), (true, None, Next::Free));
    let held = locks.try_lock("report").await.unwrap().unwrap();
    locks.flush().await;
    let explained = locks.explain("report").await.unwrap();
    let Next::Held { if_it_dies, if_it_freezes } = explained.next else { panic!("{explained:?}") };
    assert!(if_it_dies <= TTL && if_it_freezes.is_none_or(|time| time <= TTL));
    assert_eq!(if_it_freezes.is_some(), explained.promises.frozen_holder_ends);
    assert_eq!(explained.lease.unwrap().state, LeaseState::Held);
    assert_eq!((explained.inspection.unwrap().holding.epoch, explained.history.len()), (held.epoch(), 1));
    held.release().await.unwrap();
    assert_eq!(locks.explain("report").await.unwrap().next, Next::Free);
}

/// V7
pub(crate) async fn without_decoration_rows_are_made_by_hand(place: &Place) {
    let classifier = Classifier::new(|name| name.ends_with("-cache").then(|| "cache".to_owned()));
    let locks =
        place.with_registry(RegistryOptions { record_automatically: false, classifier, ..never() }).await;
    let registry = registry(&locks);
    assert!(!registry.tables_exist().await.unwrap(), "nothing was made");
    assert_eq!(registry.leases(10).await.unwrap(), []);
    assert_eq!(registry.history(None, None, 10).await.unwrap(), []);
    let held = locks.try_lock("report").await.unwrap().unwrap();
    locks.flush().await;
    assert_eq!(registry.leases(10).await.unwrap(), []);

    let hold = |name: &str, kind: Option<&str>| Hold {
        name: LockName::new(name).unwrap(),
        store: Arc::from("mine"),
        token: Uuid::new_v4(),
        epoch: Epoch::new(0),
        kind: kind.map(Arc::from),
        holder: Arc::new(Holder::this()),
        ttl: None,
    };
    let (plain, told) = (hold("book-cache", None), hold("outbox-a", Some("mail")));
    registry.acquired(plain.clone());
    registry.acquired(told.clone());
    registry.flush().await.unwrap();
    let leases = registry.leases(10).await.unwrap();
    let kinds: Vec<_> = leases.iter().map(|lease| (lease.kind.as_deref(), lease.state)).collect();
    assert_eq!(kinds, [(Some("cache"), LeaseState::Held), (Some("mail"), LeaseState::Held)]);
    registry.released(plain.token);
    registry.lost(told.token, "on purpose");
    registry.flush().await.unwrap();
    let leases = registry.leases(10).await.unwrap();
    assert!(leases.iter().all(|lease| lease.state == LeaseState::Idle), "{leases:?}");
    let lost = registry.history(Some("outbox-a"), None, 1).await.unwrap();
    assert_eq!((lost[0].what, lost[0].why.as_deref()), (LockEventKind::Lost, Some("on purpose")));
    // And once more, without epochs.
    registry.acquired(Hold { token: Uuid::new_v4(), ..plain });
    registry.flush().await.unwrap();
    let again = registry.lease("book-cache").await.unwrap();
    assert_eq!((again[0].state, again[0].holds), (LeaseState::Held, 2));
    held.release().await.unwrap();
}

pub(crate) async fn many_that_start_at_once_make_the_tables_once(place: &Place) {
    let starts = (0..12).map(|number| {
        let locks = place.with_registry(never());
        async move {
            let locks = locks.await;
            let held = locks.try_lock(&format!("lock-{number:02}")).await.unwrap().unwrap();
            locks.registry().unwrap().flush().await.unwrap();
            (locks, held)
        }
    });
    let started = join_all(starts.collect()).await;
    let leases = registry(&started[0].0).leases(100).await.unwrap();
    assert_eq!(leases.len(), 12);
    assert!(leases.iter().all(|lease| lease.state == LeaseState::Held), "{leases:?}");
    let page = registry(&started[0].0).leases_after(&leases[3], 2).await.unwrap();
    let names: Vec<_> = page.iter().map(|lease| lease.name.as_str()).collect();
    assert_eq!(names, ["lock-04", "lock-05"]);
}

/// Polls them all at once.
async fn join_all<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_over = true;
        for (one, done) in &mut all {
            if done.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => is_over = false,
                }
            }
        }
        if is_over { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    all.into_iter().map(|(_, done)| done.unwrap()).collect()
}

/// Work that fails once, or runs until it is told to stop.
fn start(locks: &Locks, fails: bool) -> (Singleton, CancellationToken, tokio::task::JoinHandle<()>) {
    let (singleton, stop) = (Singleton::new(locks, "mirror"), CancellationToken::new());
    let (runner, stopping) = (singleton.clone(), stop.clone());
    let work = move |term: Term| async move {
        if fails {
            return Err("no prices \0 today");
        }
        term.ending().cancelled().await;
        Ok(())
    };
    let running = tokio::spawn(async move { runner.run(&stopping, work).await.unwrap() });
    (singleton, stop, running)
}

async fn runners(locks: &Locks) -> Vec<RunnerRecord> {
    registry(locks).runners(100).await.unwrap()
}

fn states(runners: &[RunnerRecord]) -> Vec<&'static str> {
    let mut states: Vec<_> = runners.iter().map(|runner| runner.state.as_str()).collect();
    states.sort_unstable();
    states
}

pub(crate) async fn runners_are_shown_on_every_node_with_state_and_error(place: &Place) {
    // A busy machine must not make rows stale.
    let options = || RegistryOptions { heartbeat: Duration::from_secs(2), ..RegistryOptions::default() };
    let (one, other) = (place.with_registry(options()).await, place.with_registry(options()).await);
    assert!(runners(&one).await.is_empty(), "there is no table yet");
    let first = start(&one.of_kind("prices"), false);
    until("it runs", async || states(&runners(&other).await) == ["running"]).await;
    let second = start(&other, true);
    until("one runs, and one waits", async || states(&runners(&one).await) == ["running", "waiting"]).await;
    let all = runners(&one).await;
    let ours = all.iter().find(|runner| runner.is_active()).unwrap();
    let me = one.holder();
    assert_eq!((ours.name.as_str(), ours.kind.as_deref()), ("mirror", Some("prices")));
    assert_eq!(
        (&ours.machine, ours.pid, &ours.incarnation),
        (&me.machine, me.pid, &me.incarnation.to_string())
    );
    assert_eq!((ours.epoch.is_some(), ours.failures, ours.last_error.as_deref()), (true, 0, None));
    assert!(
        all.iter().all(|runner| runner.epoch.is_some() == runner.is_active() && !runner.is_stale()),
        "{all:?}"
    );
    // A heartbeat renews the row, and keeps the moment at which the state began.
    until("it is renewed", async || {
        let now = runners(&other).await;
        let again = now.iter().find(|runner| runner.id == ours.id).unwrap();
        assert_eq!(again.since, ours.since);
        again.renewed_at > ours.renewed_at
    })
    .await;

    first.1.cancel();
    first.2.await.unwrap();
    until("the other one fails", async || {
        let now = runners(&one).await;
        now.iter().any(|runner| runner.state == RunnerState::Failing && runner.failures > 0)
    })
    .await;
    let all = runners(&one).await;
    let failing = all.iter().find(|runner| runner.last_error.is_some()).unwrap();
    assert!(failing.last_error.as_deref().unwrap().starts_with("no prices ") && failing.failed_at.is_some());
    assert!(failing.kind.is_none() && failing.incarnation == other.holder().incarnation.to_string());
    until("the stop is shown", async || {
        let now = runners(&other).await;
        let stopped = now.iter().find(|runner| runner.id == ours.id).expect("it is shown for a while");
        (stopped.state, stopped.epoch) == (RunnerState::Stopped, None)
    })
    .await;
    second.1.cancel();
    second.2.await.unwrap();
}

pub(crate) async fn a_runner_whose_node_vanished_is_stale_and_then_removed(place: &Place) {
    let (one, other) = (place.with_registry(never()).await, place.with_registry(often()).await);
    let (_singleton, stop, running) = start(&one, false);
    until("it runs", async || states(&runners(&other).await) == ["running"]).await;
    assert!(!runners(&other).await[0].is_stale());
    place.sql("update {t}lock_runner set renewed_at = renewed_at - {2h}, renew_ms = 300").await;
    // Sweeps need a registry that has written.
    let held = other.try_lock("other").await.unwrap().unwrap();
    until("it is gone", async || {
        let now = runners(&other).await;
        assert!(now.iter().all(|runner| runner.is_stale() && !runner.is_active()), "{now:?}");
        now.is_empty()
    })
    .await;
    held.release().await.unwrap();
    // A node that was only frozen is there again with its next heartbeat.
    until("it is there again", async || {
        one.flush().await;
        states(&runners(&other).await) == ["running"]
    })
    .await;
    stop.cancel();
    running.await.unwrap();
}
