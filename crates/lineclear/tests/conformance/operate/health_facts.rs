//! Health facts: each problem that a test causes is found, and reported by its check.

use lineclear::model::doctor::{self, Check, CheckName, Finding};
use lineclear::model::{Failure, Outcome, Verdict};
use lineclear::store::{Dispatch, NewJob, Settlement, main_route};

use crate::kit::{TestDb, daily, job, name};

async fn checks(db: &TestDb) -> Vec<Check> {
    let facts = db.store.health_facts(5).await.unwrap();
    [doctor::nodes(&facts), doctor::work(&facts), vec![doctor::late(&facts)]].concat()
}

/// The checks that are warnings or failures, with their sentences.
async fn trouble(db: &TestDb) -> Vec<(CheckName, Finding, String)> {
    let found = checks(db).await.into_iter().filter(Check::is_trouble);
    found.map(|check| (check.check, check.finding, check.message)).collect()
}

async fn names(db: &TestDb) -> Vec<CheckName> {
    trouble(db).await.into_iter().map(|(name, ..)| name).collect()
}

conformance! {
    async fn a_node_with_nothing_left_lying_is_well(db) {
        db.node("web-1").await;
        db.enqueue(job()).await;
        assert_eq!(trouble(db).await, []);
    }

    async fn a_lease_that_is_not_reclaimed_is_reported_with_its_node(db) {
        let node = db.node("web-1").await;
        db.node("web-2").await;
        db.enqueue(job()).await;
        db.take_one(node).await;
        assert_eq!(trouble(db).await, []);
        db.age("background_job", "due_at", 3600).await;
        assert_eq!(names(db).await, [CheckName::Leases], "its node lives: it may be frozen");
        db.sql("update {t}node set seen_at = started_at where name = 'web-1'").await;
        db.age("node", "seen_at", 100).await;
        db.node("web-2").await;
        let found = trouble(db).await;
        assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [CheckName::Lost, CheckName::Leases]);
        assert!(found[0].2.contains("web-1 (silent for 1m4") && found[0].2.contains("holds 1 job"), "{found:?}");
        assert_eq!(found[1].1, Finding::Failure);
    }

    async fn waiting_work_without_a_live_node_is_a_failure(db) {
        assert_eq!(trouble(db).await[0].1, Finding::Warning, "nothing is to be done");
        db.node("web-1").await;
        db.age("node", "seen_at", 100).await;
        db.enqueue(job()).await;
        let found = trouble(db).await;
        assert_eq!((found[0].0, found[0].1), (CheckName::Alive, Finding::Failure), "{found:?}");
        db.age("work_queue", "due_at", 100).await;
        let found = trouble(db).await;
        let overdue = found.iter().find(|found| found.0 == CheckName::Overdue).unwrap();
        assert!(overdue.1 == Finding::Failure && overdue.2.contains("`node` blocks 1 of the 1"), "{found:?}");
    }

    async fn the_gate_in_the_way_of_most_is_named(db) {
        let node = db.node("web-1").await;
        db.group("etl", lineclear::model::GroupSpec { limit: Some(1), ..Default::default() }).await;
        let limited = || NewJob { group: Some(name("etl")), ..job() };
        for _ in 0..4 {
            db.enqueue(limited()).await;
        }
        db.take_one(node).await;
        db.age("work_queue", "due_at", 100).await;
        let found = trouble(db).await;
        assert_eq!((found[0].0, found[0].1), (CheckName::Overdue, Finding::Warning), "{found:?}");
        assert!(found[0].2.contains("`group_limit` blocks 3 of the 3"), "{found:?}");
        // In other places than the queue: dispatched and not claimed, or not promoted.
        db.sql("update {t}work_queue set phase = 'later'").await;
        let found = trouble(db).await;
        assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [CheckName::Overdue], "{found:?}");
    }

    async fn an_unknown_kind_is_named_until_a_node_knows_it(db) {
        let node = db.node("web-1").await;
        db.enqueue(NewJob { kind: name("mail"), ..job() }).await;
        let claim = db.take_one(node).await;
        let parked = Settlement::new(&claim, Outcome::Released, Verdict::Park);
        db.store.settle(node, vec![parked]).await.unwrap();
        let found = trouble(db).await;
        assert_eq!((found[0].0, found[0].1), (CheckName::Kinds, Finding::Failure), "{found:?}");
        assert!(found[0].2.contains("knows their kind: mail"), "{found:?}");
        db.sql("update {t}node set kinds = '[\"work\", \"mail\"]'").await;
        assert_eq!(trouble(db).await, [], "it brings it back");
    }

    async fn manifests_without_a_planner_are_late(db) {
        db.node("web-1").await;
        db.declare(daily("nightly")).await;
        assert_eq!(names(db).await, [CheckName::Leader], "its node does not plan");
        db.sql("update {t}node set roles = '[\"planner\", \"workers\"]'").await;
        assert_eq!(trouble(db).await, []);
        db.age("manifest", "next_due_at", 2 * 86_400).await;
        let found = trouble(db).await;
        assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [CheckName::Leader, CheckName::Late], "{found:?}");
    }

    async fn a_dead_letter_waits_for_a_person(db) {
        let node = db.node("web-1").await;
        db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
        db.age("dead_letter", "dead_at", 7200).await;
        let found = trouble(db).await;
        assert_eq!((found[0].0, found[0].1), (CheckName::DeadLetters, Finding::Warning), "{found:?}");
        assert!(found[0].2.contains("the oldest for 2h"), "{found:?}");
    }

    pgbouncer async fn a_job_that_was_handed_over_and_not_claimed_is_seen(db) {
        db.node("web-1").await;
        db.enqueue(job()).await;
        db.store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap();
        assert_eq!(trouble(db).await, []);
        db.age("background_job", "was_due_at", 100).await;
        let found = trouble(db).await;
        assert_eq!((found[0].0, found[0].1), (CheckName::Overdue, Finding::Failure), "{found:?}");
        assert!(found[0].2.contains("no node dispatches them"), "{found:?}");
    }

    async fn a_busy_line_with_a_slot_free_gets_on(db) {
        let node = db.node("web-1").await;
        db.store.enqueue_many(vec![job(), job(), job()]).await.unwrap();
        db.age("work_queue", "due_at", 100).await;
        assert_eq!(trouble(db).await[0].1, Finding::Failure, "none was claimed");
        let claim = db.take(node, 1).await.remove(0);
        let found = trouble(db).await;
        assert_eq!((found[0].0, found[0].1), (CheckName::Overdue, Finding::Warning), "{found:?}");
        assert!(found[0].2.ends_with("its queue moves: more jobs arrive than are done"), "{found:?}");
        db.age("background_job", "claimed_at", 100).await;
        assert_eq!(trouble(db).await[0].1, Finding::Failure, "that was long ago");
        db.settle(node, &claim, crate::kit::completed()).await;
        assert_eq!(trouble(db).await[0].1, Finding::Warning, "its slot has just become free");
        db.age("execution", "finished_at", 100).await;
        assert_eq!(trouble(db).await[0].1, Finding::Failure);
        db.sql("update {t}node set slots = 1").await;
        db.take(node, 1).await;
        db.age("background_job", "claimed_at", 100).await;
        let found = trouble(db).await;
        assert!(found[0].1 == Finding::Warning && found[0].2.ends_with("are taken"), "{found:?}");
    }

    async fn slots_of_nodes_that_do_not_run_it_are_not_free_for_it(db) {
        let node = db.node("web-1").await;
        db.store.enqueue_many(vec![job(), job()]).await.unwrap();
        db.sql("update {t}node set slots = 1").await;
        db.take(node, 1).await;
        db.node("web-2").await;
        db.sql("update {t}node set routes = '[\"gpu\"]' where name = 'web-2'").await;
        db.age("work_queue", "due_at", 100).await;
        db.age("background_job", "claimed_at", 100).await;
        let found = trouble(db).await;
        assert!(found[0].1 == Finding::Warning && found[0].2.ends_with("are taken"), "{found:?}");
    }

    async fn a_long_line_does_not_hide_other_routes_groups_and_keys(db) {
        db.node("web-1").await;
        let limited = || lineclear::model::GroupSpec { limit: Some(1_000_000), ..Default::default() };
        db.group("a", limited()).await;
        db.group("b", limited()).await;
        let of = |group: &str| NewJob { group: Some(name(group)), ..job() };
        let keyed = |key: &str| NewJob { limit_key: Some(key.to_owned()), ..job() };
        let mut last = Vec::new();
        for (many, one) in [(job(), NewJob { route: name("zoo"), ..job() }), (of("a"), of("b")), (keyed("k"), keyed("z"))] {
            db.store.enqueue_many(vec![many; 1_100]).await.unwrap();
            last.push(db.enqueue(one).await);
        }
        db.sql("update {t}work_queue set phase = 'held' where limit_key is not null").await;
        db.age("work_queue", "due_at", 100).await;
        // The first late one of each route in each line, then of the next group or key, then the second ones.
        let facts = db.store.health_facts(12).await.unwrap();
        let seen: Vec<i64> = facts.overdue.iter().map(|job| job.job).collect();
        for job in last {
            assert!(seen.contains(&job.0), "{job:?}: {seen:?}");
        }
        db.sql("update {t}work_queue set phase = 'ready'").await;
    }
}
