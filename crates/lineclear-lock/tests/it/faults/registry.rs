//! The lease registry when something fails: holders that die or freeze, a database that is away, tables that are gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_lock::{LeaseState, LockEventKind, LockName, Locks, Next, Registry, RegistryOptions};
use lineclear_testkit::Proxy;

use crate::faults::holder_with;
use crate::kit::{Place, SOON, TTL, quick};
use crate::registry::{never, often, only, until};
use crate::stores::postgres::connect;

const BEAT: Duration = Duration::from_millis(200);

/// V5: what is seen of a killed holder, until nothing is left but its history.
async fn a_killed_holder_is_an_orphan_then_gone_and_its_history_stays(place: &Place) {
    let mut child = holder_with(place, TTL, Some(BEAT)).await;
    let other = place.with_registry(RegistryOptions { sweep_after: TTL * 4, ..often() }).await;
    let lease = only(&other).await;
    assert_eq!((lease.state, lease.renew_every), (LeaseState::Held, BEAT));
    child.kill().unwrap();
    let killed = Instant::now();
    until("it is not heard of", async || only(&other).await.state != LeaseState::Held).await;
    let noticed = killed.elapsed();
    // Three heartbeats, and something for a busy machine.
    assert!(noticed < BEAT * 3 + Duration::from_secs(8), "{noticed:?}");
    until("its lock is free", async || only(&other).await.state == LeaseState::Orphan).await;
    let registry = other.registry().unwrap();
    until("its row is swept", async || registry.leases(10).await.unwrap().is_empty()).await;
    let history = registry.history(Some("report"), None, 10).await.unwrap();
    let what: Vec<LockEventKind> = history.iter().map(|event| event.what).collect();
    assert_eq!(what, [LockEventKind::Vanished, LockEventKind::Taken]);
    assert_eq!((&history[0].holder, history[0].epoch), (&lease.holder(), lease.epoch));
}

#[tokio::test]
async fn a_killed_holder_of_a_postgres_lease_is_an_orphan_then_gone() {
    a_killed_holder_is_an_orphan_then_gone_and_its_history_stays(&Place::postgres("lock=lease").await).await;
}

#[tokio::test]
async fn a_killed_holder_of_a_session_lock_is_an_orphan_then_gone() {
    a_killed_holder_is_an_orphan_then_gone_and_its_history_stays(&Place::postgres("lock=session").await)
        .await;
}

#[tokio::test]
async fn a_killed_holder_in_a_sqlite_file_is_an_orphan_then_gone() {
    a_killed_holder_is_an_orphan_then_gone_and_its_history_stays(&Place::sqlite()).await;
}

/// A registry that sweeps silent rows would delete this one, and operators could not see which process holds the lock.
#[tokio::test]
async fn a_frozen_holder_of_a_session_lock_is_shown_as_stale_until_its_session_ends() {
    let place = Place::postgres("lock=session").await;
    let mut child = holder_with(&place, TTL, Some(BEAT)).await;
    let other = place.with_registry(often()).await;
    child.pause().await.unwrap();
    until("it is not heard of", async || only(&other).await.state == LeaseState::Stale).await;
    // Long after it would have been swept, and after its lock would have ended if it were a lease.
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(only(&other).await.state, LeaseState::Stale);
    let explained = other.explain("report").await.unwrap();
    assert_eq!(explained.next, Next::Never);
    let seen = explained.inspection.unwrap();
    assert_eq!(seen.alive, Some(true));
    assert!(other.break_lock("report", &seen, "ada", None).await.unwrap());
    let next = other.acquire("report", SOON).await.unwrap().unwrap();
    assert!(next.epoch() > seen.holding.epoch);
    child.resume().unwrap();
    child.wait_for_line("lost, trusted for 0ns", SOON).await.unwrap();
    child.wait_for_line("late write refused", SOON).await.unwrap();
}

/// V6: the session that has the lock is not the one that the row is about.
#[tokio::test]
async fn a_session_that_began_later_is_another_s() {
    let place = Place::postgres("lock=session").await;
    let locks = place.with_registry(never()).await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    locks.flush().await;
    assert_eq!(only(&locks).await.state, LeaseState::Held);
    // Its session ends, and another program takes the same key.
    let client = connect(&place).await;
    let key = LockName::new("report").unwrap().key("lineclear");
    let seen = locks.inspect("report").await.unwrap().unwrap();
    let end = format!("select pg_terminate_backend({})", seen.connection.unwrap());
    client.batch_execute(&end).await.unwrap();
    until("the key is free", async || {
        let took = client.query_one("select pg_try_advisory_lock($1)", &[&key]).await.unwrap();
        took.get::<_, bool>(0)
    })
    .await;
    let lease = only(&locks).await;
    assert_eq!(lease.state, LeaseState::Drift);
    let who = lease.inspection.unwrap().holding.holder;
    assert!(who.starts_with("unknown, with session "), "{who}");
    drop(held);
}

/// The fence of a holder whose lock was broken is refused, even before another holder has the lock.
#[tokio::test]
async fn a_lock_that_was_taken_away_fences_nothing_any_more() {
    let place = Place::postgres("lock=lease").await;
    let locks = place.locks().await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let mut client = connect(&place).await;
    let transaction = client.transaction().await.unwrap();
    assert!(lineclear_lock::postgres::fence(&transaction, held.fence()).await.unwrap());
    // While a fenced transaction is open, it cannot be taken away: its effects are still to come.
    let seen = locks.inspect("report").await.unwrap().unwrap();
    let error = locks.break_lock("report", &seen, "ada", None).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("fenced transaction"), "{error}");
    transaction.commit().await.unwrap();
    assert!(locks.break_lock("report", &seen, "ada", None).await.unwrap());
    let transaction = client.transaction().await.unwrap();
    assert!(!lineclear_lock::postgres::fence(&transaction, held.fence()).await.unwrap());
    drop(held);
}

/// Locks in one place, recorded in another that can be taken away.
async fn apart() -> (Place, Place, Proxy) {
    let (locks, table) = (Place::postgres("lock=lease").await, Place::postgres("lock=lease").await);
    let proxy = Proxy::to_url(table.url.as_deref().unwrap()).await.unwrap();
    (locks, table, proxy)
}

async fn recorded_through(proxy: &Proxy, locks: &Place, table: &Place) -> Locks {
    let url = proxy.url_for(table.url.as_deref().unwrap());
    Locks::with_registry(locks.backend(), quick(), Registry::new(&url, often()).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_is_silent_or_away_costs_no_lock_and_catches_up() {
    for silent in [true, false] {
        let (place, table, proxy) = apart().await;
        let locks = recorded_through(&proxy, &place, &table).await;
        locks.try_lock("first").await.unwrap().unwrap().release().await.unwrap();
        locks.flush().await;
        if silent {
            proxy.silence()
        } else {
            proxy.cut().await
        }
        let begun = Instant::now();
        let held = locks.try_lock("report").await.unwrap().unwrap();
        for _ in 0..20 {
            locks.try_lock("other").await.unwrap().unwrap().release().await.unwrap();
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}: nothing waits for the registry");
        assert_eq!(held.confirm().await.unwrap(), Ok(()));
        proxy.heal();
        let reader = Registry::new(table.url.as_deref().unwrap(), never()).unwrap();
        until("the registry has caught up", async || {
            let leases = reader.leases(10).await.unwrap();
            let shown: Vec<_> = leases.iter().map(|lease| (lease.name.as_str(), lease.state)).collect();
            shown == [("first", LeaseState::Idle), ("other", LeaseState::Idle), ("report", LeaseState::Held)]
        })
        .await;
        // A row is written as soon as there is something to write: what came after it follows.
        until("all of it is there", async || reader.lease("other").await.unwrap()[0].holds >= 20).await;
        assert_eq!(reader.lease("other").await.unwrap()[0].holds, 20, "nothing was forgotten");
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn tables_that_are_dropped_are_made_again_and_no_lock_is_lost() {
    for place in [Place::sqlite(), Place::postgres("lock=session").await] {
        let locks = place.with_registry(often()).await;
        let held = locks.try_lock("report").await.unwrap().unwrap();
        locks.flush().await;
        place.sql("drop view {t}nagare_leases; drop table {t}lock_lease; drop table {t}lock_event;").await;
        assert_eq!(held.confirm().await.unwrap(), Ok(()));
        let registry = locks.registry().unwrap();
        until("the row is back", async || registry.leases(10).await.is_ok_and(|leases| leases.len() == 1))
            .await;
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_registry_that_may_not_be_written_costs_no_lock() {
    let place = Place::postgres("lock=lease").await;
    let url = place.url.clone().unwrap();
    let readonly = format!("{url}&options=-c%20default_transaction_read_only%3Don");
    let registry = Registry::new(&readonly, often()).unwrap();
    let locks = Locks::with_registry(place.backend(), quick(), registry).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    locks.flush().await;
    assert!(locks.registry().unwrap().flush().await.is_err());
    assert_eq!(locks.registry().unwrap().leases(10).await.unwrap(), []);
    assert_eq!(held.confirm().await.unwrap(), Ok(()));
    held.release().await.unwrap();
}

#[tokio::test]
async fn looking_makes_no_file_and_a_registry_that_is_away_leaves_the_store_to_explain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    let registry = Registry::new(path.to_str().unwrap(), never()).unwrap();
    assert_eq!(registry.leases(10).await.unwrap(), []);
    assert_eq!(registry.history(None, None, 10).await.unwrap(), []);
    assert!(!registry.tables_exist().await.unwrap() && !path.exists());

    let (place, table, proxy) = apart().await;
    let locks = recorded_through(&proxy, &place, &table).await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    proxy.cut().await;
    let explained = locks.explain("report").await.unwrap();
    assert_eq!(explained.inspection.unwrap().holding.epoch, held.epoch());
    assert_eq!(explained.lease, None);
    held.release().await.unwrap();
}

/// Nor does who starts wait for it.
#[tokio::test]
async fn who_starts_without_a_registry_that_answers_starts_at_once() {
    let (place, table, proxy) = apart().await;
    proxy.silence();
    let begun = Instant::now();
    let locks = recorded_through(&proxy, &place, &table).await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    held.release().await.unwrap();
    // And who ends waits a little, and no more.
    let begun = Instant::now();
    locks.flush().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn locks_of_one_process_are_recorded_in_a_file_and_told_from_those_of_another() {
    let (map, file) = (Place::in_process(), Place::sqlite());
    let registry = Registry::new(file.url.as_deref().unwrap(), never()).unwrap();
    let locks = Locks::with_registry(map.backend(), quick(), registry).await.unwrap();
    let held = locks.try_lock("outbox-a").await.unwrap().unwrap();
    locks.flush().await;
    let lease = only(&locks).await;
    assert_eq!((lease.state, lease.kind.as_deref()), (LeaseState::Held, Some("outbox")));
    assert!(lease.store.starts_with("in-process/"), "{}", lease.store);
    held.release().await.unwrap();
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn locks_in_redis_are_recorded_in_a_database_and_checked_against_redis() {
    let (redis, table) = (Place::redis(), Place::postgres("lock=lease").await);
    let registry = Registry::new(table.url.as_deref().unwrap(), never()).unwrap();
    let locks = Locks::with_registry(redis.backend(), quick(), registry).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    locks.flush().await;
    let lease = only(&locks).await;
    assert_eq!((lease.state, lease.store.as_str()), (LeaseState::Held, "redis"));
    let seen = lease.inspection.unwrap();
    assert!(locks.break_lock("report", &seen, "ada", Some("blue-green")).await.unwrap());
    assert!(!locks.break_lock("report", &seen, "ada", None).await.unwrap(), "its token is gone");
    tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
    let next = locks.try_lock("report").await.unwrap().unwrap();
    assert!(next.epoch().get() > held.epoch().get() + 1);
    let refused =
        Locks::open_with_registry(redis.url.as_deref().unwrap(), quick(), never()).await.unwrap_err();
    assert!(refused.to_string().starts_with("refused by registry_url: "), "{refused}");
    let elsewhere = RegistryOptions { url: table.url.clone(), ..never() };
    assert!(Locks::open_with_registry(redis.url.as_deref().unwrap(), quick(), elsewhere).await.is_ok());
}

/// A backend that has no such verb says so.
#[tokio::test]
async fn a_store_that_cannot_take_locks_away_says_so() {
    #[derive(Debug)]
    struct Plain(lineclear_lock::InProcess);
    use lineclear_lock::backend::{
        Backend, Extended, Grant, Holding, LockFuture, LockRequest, Promises, Released,
    };
    impl Backend for Plain {
        fn promises(&self) -> Promises {
            self.0.promises()
        }
        fn open(&self) -> LockFuture<'_, ()> {
            self.0.open()
        }
        fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
            self.0.acquire(ask)
        }
        fn extend<'a>(
            &'a self,
            ask: &'a LockRequest,
            epoch: lineclear_lock::Epoch,
        ) -> LockFuture<'a, Extended> {
            self.0.extend(ask, epoch)
        }
        fn release<'a>(
            &'a self,
            ask: &'a LockRequest,
            epoch: Option<lineclear_lock::Epoch>,
        ) -> LockFuture<'a, Released> {
            self.0.release(ask, epoch)
        }
        fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
            self.0.read(name)
        }
    }
    let locks = Locks::new(Arc::new(Plain(lineclear_lock::InProcess::new())), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let seen = locks.inspect("report").await.unwrap().unwrap();
    let refused = locks.break_lock("report", &seen, "ada", None).await.unwrap_err();
    assert!(refused.to_string().starts_with("refused by break: "), "{refused}");
    held.release().await.unwrap();
}

/// What a dashboard that knows the seeds' table reads.
#[tokio::test]
async fn the_view_has_the_columns_and_formats_of_nagare_leases() {
    let place = Place::postgres("lock=lease").await;
    let locks = place.with_registry(never()).await;
    let held = locks.try_lock("nagare-outbox-main").await.unwrap().unwrap();
    locks.try_lock("event-route-Loan-BookEvent").await.unwrap().unwrap().release().await.unwrap();
    locks.flush().await;
    let client = connect(&place).await;
    let rows = client.query("select * from lineclear.nagare_leases order by lock_name", &[]).await.unwrap();
    let columns: Vec<(&str, &str)> =
        rows[0].columns().iter().map(|column| (column.name(), column.type_().name())).collect();
    let expected = ["lock_name", "node_id", "machine", "pid", "kind", "acquired_at", "renewed_at"];
    let expected = expected.map(|name| (name, if name == "pid" { "int4" } else { "text" }));
    assert_eq!(columns, expected);
    let shown: Vec<[String; 3]> = rows.iter().map(|row| [row.get(0), row.get(1), row.get(4)]).collect();
    let node = format!("{}/{}", locks.holder().machine, locks.holder().pid);
    assert_eq!(shown[0], ["event-route-Loan-BookEvent".to_owned(), node.clone(), "subscription".to_owned()]);
    assert_eq!(shown[1], ["nagare-outbox-main".to_owned(), node, "outbox".to_owned()]);
    let at: String = rows[0].get("renewed_at");
    assert!(at.len() == 27 && &at[10..11] == "T" && at.ends_with('Z'), "{at}");
    let known: bool = client
        .query_one(
            "select bool_and(v.renewed_at::timestamptz = l.renewed_at and v.acquired_at::timestamptz = l.acquired_at)
             from lineclear.nagare_leases v join lineclear.lock_lease l using (lock_name)",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert!(known, "the same moments");
    // What was released long ago would have been swept there.
    place.sql("update {t}lock_lease set released_at = released_at - {2h}").await;
    let left = client.query("select 1 from lineclear.nagare_leases", &[]).await.unwrap().len();
    assert_eq!(left, 1);
    held.release().await.unwrap();
}

#[tokio::test]
async fn the_view_is_the_same_in_a_sqlite_file() {
    let place = Place::sqlite();
    let locks = place.with_registry(never()).await;
    let held = locks.try_lock("outbox-a").await.unwrap().unwrap();
    locks.flush().await;
    let file =
        rusqlite::Connection::open(place.url.as_deref().unwrap().trim_start_matches("sqlite:")).unwrap();
    let mut view = file.prepare("select * from nagare_leases").unwrap();
    let expected = ["lock_name", "node_id", "machine", "pid", "kind", "acquired_at", "renewed_at"];
    assert_eq!(view.column_names(), expected);
    let (node, at): (String, String) =
        view.query_row([], |row| Ok((row.get("node_id")?, row.get("renewed_at")?))).unwrap();
    assert_eq!(node, format!("{}/{}", locks.holder().machine, locks.holder().pid));
    let written: i64 = file.query_row("select renewed_at from lock_lease", [], |row| row.get(0)).unwrap();
    let shown: f64 = file.query_row("select unixepoch(?1, 'subsec')", [&at], |row| row.get(0)).unwrap();
    #[expect(clippy::cast_precision_loss, reason = "milliseconds are compared")]
    let apart = (written as f64 / 1e6 - shown).abs();
    assert!(at.ends_with('Z') && apart < 0.002, "{at}, {apart}");
    held.release().await.unwrap();
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn the_view_is_the_same_in_mysql() {
    use mysql_async::prelude::Queryable;
    let place = Place::mysql().await;
    let locks = place.with_registry(never()).await;
    let held = locks.try_lock("outbox-a").await.unwrap().unwrap();
    locks.flush().await;
    let opts = mysql_async::Opts::from_url(place.url.as_deref().unwrap()).unwrap();
    let mut connection = mysql_async::Conn::new(opts).await.unwrap();
    let row: mysql_async::Row = connection.query_first("select * from nagare_leases").await.unwrap().unwrap();
    let columns = row.columns();
    let names: Vec<_> = columns.iter().map(|column| column.name_str()).collect();
    let expected = ["lock_name", "node_id", "machine", "pid", "kind", "acquired_at", "renewed_at"];
    assert_eq!(names, expected);
    let node: String = row.get("node_id").unwrap();
    assert_eq!(node, format!("{}/{}", locks.holder().machine, locks.holder().pid));
    let at: String = row.get("renewed_at").unwrap();
    assert!(at.len() == 27 && &at[10..11] == "T" && at.ends_with('Z'), "{at}");
    held.release().await.unwrap();
}
