//! Nodes: which are alive, and which one leads the planning.

use std::time::Duration;

use lineclear::store::{Led, NodeInfo, Retention};
use lineclear_lock::{LeaseRecord, LeaseState, LockEventKind, Registry, RegistryOptions};

use crate::kit::TestDb;

fn named(label: &str) -> NodeInfo {
    let list = || "[]".to_owned();
    NodeInfo {
        name: format!("node {label}"),
        host: "host".to_owned(),
        pid: 1,
        incarnation: label.to_owned(),
        version: "0".to_owned(),
        roles: list(),
        routes: list(),
        kinds: list(),
        slots: 4,
        runners: "{}".to_owned(),
    }
}

/// Sends a heartbeat of a node that has won these cycles: how many, and how many seconds ago the first and the last was.
async fn beat(db: &TestDb, label: &str, won: Option<(u32, u64, u64)>) {
    let led = won.map(|(cycles, first, last)| Led {
        cycles,
        first_ago: Duration::from_secs(first),
        last_ago: Duration::from_secs(last),
    });
    db.store.heartbeat_leading(named(label), led, Duration::from_secs(10)).await.unwrap();
}

fn registry(db: &TestDb) -> Registry {
    Registry::new(db.url(), RegistryOptions::default()).unwrap()
}

async fn planner(db: &TestDb) -> LeaseRecord {
    let mut leases = registry(db).leases(10).await.unwrap();
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases.remove(0)
}

fn ago(lease: &LeaseRecord, time: std::time::SystemTime) -> u64 {
    // By the database's clock.
    (lease.renewed_at + lease.renewed_ago).duration_since(time).unwrap().as_secs()
}

conformance! {
    pgbouncer async fn a_node_hears_with_its_heartbeat_that_it_shall_drain_and_that_it_shall_not(db) {
        let beat = async || db.store.heartbeat(named("a")).await.unwrap();
        let id = beat().await.id;
        assert!(!beat().await.drains);
        assert!(db.store.drain_node(id, "ann").await.unwrap());
        assert!(db.store.drain_node(id, "bob").await.unwrap(), "once more is no harm");
        assert!(beat().await.drains);
        let seen = db.store.nodes(10).await.unwrap().remove(0);
        assert_eq!((seen.state(), seen.drain_by.as_deref(), seen.holds), ("draining", Some("ann"), 0));
        assert!(!seen.takes_nothing, "it has not said so");
        assert!(db.store.resume_node(id, "bob").await.unwrap());
        assert!(!beat().await.drains);
        let seen = db.store.nodes(10).await.unwrap().remove(0);
        assert_eq!((seen.state(), seen.drain_at, seen.drain_by), ("alive", None, None));
        assert!(!db.store.drain_node(lineclear::store::NodeId(999), "ann").await.unwrap(), "there is none");
        // What it reported during an earlier drain does not count for the next one.
        let quiet = async || db.store.heartbeat_draining(named("a"), None, Duration::from_secs(10), true).await.unwrap();
        let state = async || db.store.nodes(10).await.unwrap().remove(0).state();
        db.store.drain_node(id, "ann").await.unwrap();
        quiet().await;
        assert_eq!(state().await, "drained");
        db.store.resume_node(id, "ann").await.unwrap();
        quiet().await;
        assert_eq!(state().await, "alive");
        db.store.drain_node(id, "ann").await.unwrap();
        assert_eq!(state().await, "draining", "it has taken work in between");
        quiet().await;
        assert_eq!(state().await, "drained");
        // A process that is started again is another node.
        db.store.drain_node(id, "ann").await.unwrap();
        assert!(!db.store.heartbeat(named("b")).await.unwrap().drains);
    }

    async fn a_node_that_is_gone_is_lost_while_it_holds_jobs_and_silent_otherwise(db) {
        let node = db.node("a").await;
        db.enqueue(crate::kit::job()).await;
        let claim = db.take_one(node).await;
        let state = async || {
            let seen = db.store.nodes(10).await.unwrap().remove(0);
            (seen.state(), seen.holds)
        };
        assert_eq!(state().await, ("alive", 1));
        db.age("node", "seen_at", 31).await;
        assert_eq!(state().await, ("lost", 1));
        db.settle(node, &claim, crate::kit::completed()).await;
        assert_eq!(state().await, ("silent", 0));
    }

    async fn the_planner_is_shown_since_when_it_leads_until_another_wins_a_later_cycle(db) {
        beat(db, "a", None).await;
        assert_eq!(registry(db).leases(10).await.unwrap(), [], "no node has led yet");
        beat(db, "a", Some((3, 100, 50))).await;
        let lease = planner(db).await;
        assert_eq!((lease.name.as_str(), lease.store.as_str(), lease.kind.as_deref()), ("planner", "engine", Some("planner")));
        assert_eq!((lease.node.as_str(), lease.holder(), lease.holds), ("node a", "host/1/a".to_owned(), 3));
        assert_eq!((lease.state, lease.renew_every), (LeaseState::Held, Duration::from_secs(10)));
        assert!((100..130).contains(&ago(&lease, lease.since)) && (50..80).contains(&ago(&lease, lease.acquired_at)));
        // It goes on leading while nothing is due.
        db.age("lock_lease", "renewed_at", 40).await;
        assert_eq!(planner(db).await.state, LeaseState::Stale);
        beat(db, "b", None).await;
        assert_eq!(planner(db).await.state, LeaseState::Stale, "another's heartbeat is not its own");
        beat(db, "a", None).await;
        let lease = planner(db).await;
        assert_eq!((lease.state, lease.node.as_str(), lease.holds), (LeaseState::Held, "node a", 3));
        // What came before the cycle that is known changes nothing; what came after it does.
        beat(db, "b", Some((1, 90, 80))).await;
        assert_eq!(planner(db).await.node, "node a");
        beat(db, "b", Some((2, 90, 20))).await;
        let lease = planner(db).await;
        assert_eq!((lease.node.as_str(), lease.holds, lease.epoch.get()), ("node b", 2, 2));
        assert!(ago(&lease, lease.since) < 90, "not from before the other's last cycle");
        beat(db, "b", Some((1, 5, 5))).await;
        let again = planner(db).await;
        assert_eq!((again.holds, again.since, again.epoch), (3, lease.since, lease.epoch));
        let history = registry(db).history(Some("planner"), None, 10).await.unwrap();
        let hands: Vec<_> = history.iter().map(|event| (event.what, event.before.as_deref(), event.holder.as_str())).collect();
        assert_eq!(hands, [(LockEventKind::Taken, Some("host/1/a"), "host/1/b"), (LockEventKind::Taken, None, "host/1/a")]);
    }

    pgbouncer async fn a_planner_that_stops_says_so_and_one_that_went_away_is_cleaned(db) {
        beat(db, "a", Some((1, 0, 0))).await;
        db.store.resign(&named("b")).await.unwrap();
        assert_eq!(planner(db).await.state, LeaseState::Held, "it was not the other's");
        db.store.resign(&named("a")).await.unwrap();
        assert_eq!(planner(db).await.state, LeaseState::Idle);
        db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(planner(db).await.node, "node a", "the row is kept");
        db.age("lock_lease", "acquired_at", 10).await;
        beat(db, "b", Some((1, 0, 0))).await;
        assert_eq!(planner(db).await.state, LeaseState::Held);
        db.age("lock_lease", "renewed_at", 59).await;
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing());
        db.age("lock_lease", "renewed_at", 2).await;
        let cleaned = db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(cleaned.locks, 1);
        assert_eq!(registry(db).leases(10).await.unwrap(), []);
        let last = registry(db).history(None, None, 1).await.unwrap();
        assert_eq!((last[0].what, last[0].holder.as_str()), (LockEventKind::Vanished, "host/1/b"));
    }

    async fn a_lock_s_row_is_not_the_cleaners_and_events_are_bounded(db) {
        beat(db, "a", Some((1, 0, 0))).await;
        db.sql("update {t}lock_lease set lock_name = 'report', store = 'redis'").await;
        db.age("lock_lease", "renewed_at", 10_000).await;
        let numbers = "with recursive n (n) as (select 1 union all select n + 1 from n where n < 1500)";
        for (name, store) in [("planner", "engine"), ("report", "redis")] {
            let columns = "lock_name, store, what, at, holder, epoch";
            let select = format!("select '{name}', '{store}', 'taken', (select at from {{t}}lock_event limit 1), 'h', n from n");
            db.sql(&format!("{numbers} insert into {{t}}lock_event ({columns}) {select}")).await;
        }
        while !db.store.clean(&Retention::default(), 300).await.unwrap().is_nothing() {}
        assert_eq!(planner(db).await.name, "report");
        let count = async |name| {
            let rows = db.sql(&format!("select count(*) from {{t}}lock_event where lock_name = '{name}'")).await;
            rows[0][0].as_deref().unwrap().parse::<u32>().unwrap()
        };
        assert_eq!((count("planner").await, count("report").await), (1000, 1500));
        db.age("lock_event", "at", 8 * 86_400).await;
        while !db.store.clean(&Retention::default(), 1000).await.unwrap().is_nothing() {}
        assert_eq!((count("planner").await, count("report").await), (0, 0));
    }

    async fn a_node_keeps_its_id_and_is_seen(db) {
        let first = db.node("a").await;
        db.age("node", "seen_at", 100).await;
        let other = db.node("b").await;
        assert_ne!(first, other);
        assert_eq!(db.store.nodes(10).await.unwrap()[0].id, other, "last seen first");
        assert_eq!(db.node("a").await, first);
        let nodes = db.store.nodes(10).await.unwrap();
        assert_eq!((nodes.len(), nodes[0].id), (2, first));
        assert!(nodes.iter().all(|node| node.seen_at <= node.now));
    }
}
