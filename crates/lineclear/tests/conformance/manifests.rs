//! Manifests and groups: declared, edited, paused, resumed.

mod declare;

use std::collections::BTreeMap;
use std::time::Duration;

use lineclear::model::{GroupSpec, JobState, Manifest, Micros, Schedule, schedule::Need};
use lineclear::store::{ChangeSource, StoreError, TriggerOptions, Written};

use crate::kit::{TestDb, daily, name};

async fn one(db: &TestDb) -> Manifest {
    db.store.manifests(None, 10).await.unwrap().items[0].manifest.clone().unwrap()
}

async fn write(db: &TestDb, manifest: Manifest, voice: ChangeSource) -> Written {
    let key = manifest.key.clone();
    db.store.upsert_manifests([manifest], voice).await.unwrap()[&key]
}

fn rule<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Refused { rule, .. }) => rule,
        other => panic!("{other:?} is no refusal"),
    }
}

fn after(key: &str, parents: &[&str]) -> Manifest {
    let parents = parents.iter().map(|parent| name(parent)).collect();
    Manifest { schedule: Schedule::after(parents, Need::All).unwrap(), ..daily(key) }
}

conformance! {
    async fn a_manifest_comes_back_as_it_was_declared(db) {
        db.group("etl", GroupSpec::default()).await;
        let declared = Manifest {
            owner: Some("billing".to_owned()),
            group: Some(name("etl")),
            input: crate::kit::payload(r#"{"day":"today"}"#),
            schedule: Schedule::cron("30 2 * * *", "Europe/Berlin").unwrap(),
            jitter: Duration::from_secs(30),
            retries: Some(7),
            timeout: Some(Duration::from_secs(90)),
            priority: 3,
            overlap: Some(lineclear::model::Overlap::Skip),
            ..daily("nightly")
        };
        assert_eq!(write(db, declared.clone(), ChangeSource::Declaration).await, Written::Created);
        assert_eq!(one(db).await, declared);
        assert_eq!(write(db, declared, ChangeSource::Declaration).await, Written::Unchanged);
    }

    async fn an_edit_outlives_the_next_start_and_a_new_declaration_wins(db) {
        write(db, Manifest { priority: 1, retries: Some(3), ..daily("m") }, ChangeSource::Declaration).await;
        write(db, Manifest { priority: 9, retries: Some(3), ..daily("m") }, ChangeSource::Edit).await;
        assert_eq!(write(db, Manifest { priority: 1, retries: Some(3), ..daily("m") }, ChangeSource::Declaration).await, Written::Unchanged);
        assert_eq!(one(db).await.priority, 9, "the operator's");
        write(db, Manifest { priority: 1, retries: Some(5), ..daily("m") }, ChangeSource::Declaration).await;
        assert_eq!((one(db).await.priority, one(db).await.retries), (9, Some(5)), "only what the code changed");
        write(db, Manifest { priority: 2, retries: Some(5), ..daily("m") }, ChangeSource::Declaration).await;
        assert_eq!(one(db).await.priority, 2);
    }

    async fn a_declaration_that_does_not_go_with_an_edit_is_refused_and_changes_nothing(db) {
        let every = |time| Manifest { schedule: Schedule::every(Duration::from_secs(time)).unwrap(), ..daily("m") };
        write(db, every(3600), ChangeSource::Declaration).await;
        let edited = Manifest { jitter: Duration::from_secs(1200), ..every(3600) };
        write(db, edited.clone(), ChangeSource::Edit).await;
        let refused = db.store.upsert_manifests([every(60)], ChangeSource::Declaration).await;
        assert!(refused.as_ref().is_err_and(|e| e.to_string().contains("jitter")), "{refused:?}");
        assert_eq!(rule(refused), "manifest_edit");
        let is = async || (one(db).await.schedule, one(db).await.jitter);
        assert_eq!(is().await, (edited.schedule, edited.jitter));
        let both = Manifest { jitter: Duration::from_secs(5), ..every(60) };
        assert_eq!(write(db, both.clone(), ChangeSource::Declaration).await, Written::Updated, "that field is declared, too");
        assert_eq!(is().await, (both.schedule, both.jitter));
    }

    async fn groups_are_merged_the_same_way(db) {
        let declare = async |limit, priority| {
            let spec = GroupSpec { limit, priority, enabled: true };
            db.store.upsert_groups(BTreeMap::from([("etl".to_owned(), spec)]), ChangeSource::Declaration).await.unwrap();
        };
        declare(Some(4), 1).await;
        db.group("etl", GroupSpec { limit: Some(2), priority: 1, enabled: true }).await;
        declare(Some(4), 5).await;
        let groups = db.store.groups(None, 10).await.unwrap().items;
        let etl = groups.iter().find(|group| group.name == "etl").unwrap();
        assert_eq!((etl.limit, etl.priority, etl.active), (Some(2), 5, 0));
        assert_eq!(rule(db.store.upsert_groups(BTreeMap::from([("No".to_owned(), GroupSpec::default())]), ChangeSource::Edit).await), "group_name");
        let bad = GroupSpec { priority: 99, ..GroupSpec::default() };
        assert_eq!(rule(db.store.upsert_groups(BTreeMap::from([("x".to_owned(), bad)]), ChangeSource::Edit).await), "priority");
    }

    async fn a_changed_schedule_starts_anew_without_missed_ticks(db) {
        db.declare(daily("m")).await;
        db.let_ticks_come(86_400 * 7).await;
        let hourly = Schedule::every(Duration::from_secs(3600)).unwrap();
        write(db, Manifest { schedule: hourly, ..daily("m") }, ChangeSource::Declaration).await;
        assert_eq!(db.plan().await, (0, 0));
    }

    async fn bad_manifests_are_refused_and_nothing_is_written(db) {
        let refused = async |manifests: Vec<Manifest>| rule(db.store.upsert_manifests(manifests, ChangeSource::Declaration).await);
        let fine = || daily("fine");
        assert_eq!(refused(vec![fine(), Manifest { priority: 40, ..daily("m") }]).await, "manifest");
        assert_eq!(refused(vec![fine(), Manifest { group: Some(name("missing")), ..daily("m") }]).await, "group_unknown");
        assert_eq!(refused(vec![fine(), after("m", &["missing"])]).await, "parent_unknown");
        assert_eq!(refused(vec![fine(), fine()]).await, "manifest_twice");
        assert_eq!(refused(vec![fine(), after("a", &["b"]), after("b", &["a"])]).await, "manifest_cycle");
        assert_eq!(db.count("manifest").await, 0);
    }

    /// All pairs of ancestor and descendant would be fifty million.
    async fn a_chain_of_ten_thousand_manifests_is_written_and_a_circle_of_them_is_not(db) {
        let chain = |first: Manifest| {
            let links = (1..10_000).map(|n| after(&format!("m{n}"), &[&format!("m{}", n - 1)]));
            std::iter::once(first).chain(links).collect::<Vec<_>>()
        };
        assert_eq!(rule(db.store.upsert_manifests(chain(after("m0", &["m9999"])), ChangeSource::Declaration).await), "manifest_cycle");
        let written = db.store.upsert_manifests(chain(daily("m0")), ChangeSource::Declaration).await.unwrap();
        assert_eq!(written.len(), 10_000);
        assert_eq!(rule(db.store.upsert_manifests([after("m0", &["m9999"])], ChangeSource::Declaration).await), "manifest_cycle");
    }

    async fn a_circle_over_what_is_stored_is_refused(db) {
        db.declare(daily("a")).await;
        db.declare(after("b", &["a"])).await;
        db.declare(after("c", &["b"])).await;
        assert_eq!(rule(db.store.upsert_manifests([after("a", &["c"])], ChangeSource::Declaration).await), "manifest_cycle");
        assert!(one(db).await.schedule.is_timed(), "a is as it was");
    }

    async fn a_paused_manifest_and_its_jobs_step_aside(db) {
        let id = db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        assert_eq!(db.store.pause(vec![name("m"), name("missing")]).await.unwrap(), [name("m")]);
        assert_eq!(db.take(node, 10).await.len(), 0);
        assert_eq!(db.count("work_queue where phase = 'parked'").await, 1);
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (0, 0));

        db.store.resume(vec![name("m")]).await.unwrap();
        assert_eq!(db.plan().await, (0, 0), "the pause was no missed time");
        db.take_one(node).await;
        let ticks = db.store.ticks(id, None, 10).await.unwrap().items;
        assert!(ticks.iter().any(|tick| tick.skip_reason.as_deref() == Some("disabled")), "{ticks:?}");
    }

    async fn a_job_that_fails_while_its_manifest_is_paused_is_parked(db) {
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.store.pause(vec![name("m")]).await.unwrap();
        db.settle(node, &claim, crate::kit::failed("no")).await;
        assert_eq!(db.state(claim.job).await, Some(JobState::Parked));
        db.store.resume(vec![name("m")]).await.unwrap();
        assert_eq!(db.state(claim.job).await, Some(JobState::Retrying));
    }

    pgbouncer async fn nodes_that_declare_the_same_at_once_agree(db) {
        let mut starting = Vec::new();
        for _ in 0..4 {
            let store = db.another_store().await;
            starting.push(tokio::spawn(async move {
                let groups = BTreeMap::from([("etl".to_owned(), GroupSpec::default())]);
                store.upsert_groups(groups, ChangeSource::Declaration).await.unwrap();
                let manifests = (0..20).map(|n| daily(&format!("m{n}")));
                store.upsert_manifests(manifests, ChangeSource::Declaration).await.unwrap()
            }));
        }
        let mut created = 0;
        for start in starting {
            created += start.await.unwrap().values().filter(|written| **written == Written::Created).count();
        }
        assert_eq!(created, 20);
        assert_eq!(db.count("manifest").await, 20);
    }

    async fn switching_by_a_declaration_is_pausing_and_resuming(db) {
        let id = db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        write(db, Manifest { enabled: false, ..daily("m") }, ChangeSource::Edit).await;
        assert_eq!(db.take(node, 10).await.len(), 0, "its jobs step aside");
        db.let_a_tick_come().await;
        write(db, daily("m"), ChangeSource::Edit).await;
        db.take_one(node).await;
        let ticks = db.store.ticks(id, None, 10).await.unwrap().items;
        assert!(ticks.iter().any(|tick| tick.skip_reason.as_deref() == Some("disabled")), "{ticks:?}");
    }

    async fn resuming_again_mends_what_was_left_parked(db) {
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        for clean in [false, true] {
            db.sql("update {t}work_queue set phase = 'parked'").await;
            if clean {
                db.store.clean(&lineclear::store::Retention::default(), 100).await.unwrap();
            } else {
                db.store.resume(vec![name("m")]).await.unwrap();
            }
            assert_eq!(db.count("work_queue where phase = 'ready'").await, 1);
        }
        db.take_one(node).await;
    }

    async fn what_a_person_triggered_runs_although_its_manifest_is_paused(db) {
        db.declare(daily("m")).await;
        db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        db.store.pause(vec![name("m")]).await.unwrap();
        let node = db.node("a").await;
        db.take_one(node).await;
        db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        db.take_one(node).await;
    }

    async fn a_change_that_is_no_new_schedule_loses_no_due_tick(db) {
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        write(db, Manifest { jitter: Duration::from_secs(5), ..daily("m") }, ChangeSource::Declaration).await;
        assert_eq!(db.plan().await.0, 1);
    }

    async fn a_tick_that_was_due_when_the_schedule_changed_is_recorded(db) {
        let id = db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        let hourly = Schedule::every(Duration::from_secs(3600)).unwrap();
        write(db, Manifest { schedule: hourly, ..daily("m") }, ChangeSource::Declaration).await;
        let ticks = db.store.ticks(id, None, 10).await.unwrap().items;
        assert_eq!(ticks[0].skip_reason.as_deref(), Some("rescheduled"));
    }

    pgbouncer async fn a_group_is_triggered_as_a_whole(db) {
        db.group("etl", GroupSpec::default()).await;
        let of_group = |key| Manifest { group: Some(name("etl")), ..daily(key) };
        db.store.upsert_manifests([of_group("b"), of_group("a"), of_group("off"), daily("other")], ChangeSource::Declaration).await.unwrap();
        db.store.pause(vec![name("off")]).await.unwrap();
        let options = || TriggerOptions { input: Some(crate::kit::payload("7")), ..TriggerOptions::default() };
        let jobs = db.store.trigger_group(name("etl"), options()).await.unwrap().unwrap();
        assert_eq!(jobs.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let again = db.store.trigger_group(name("etl"), options()).await.unwrap().unwrap();
        assert_eq!(again.len(), 2, "triggering twice makes two jobs each");
        let node = db.node("a").await;
        let claims = db.take(node, 10).await;
        assert_eq!(claims.len(), 4);
        assert!(claims.iter().all(|claim| claim.input.as_str() == "7" && claim.origin.as_str() == "trigger"));
        assert!(jobs.iter().chain(&again).all(|(_, job)| claims.iter().any(|claim| claim.job == *job)));
        assert_eq!(db.store.trigger_group(name("missing"), options()).await.unwrap(), None);
    }

    async fn a_manifest_is_triggered_for_later(db) {
        db.declare(daily("m")).await;
        let later = Micros::new(4_000_000_000_000_000).unwrap();
        let options = |due_at| TriggerOptions { due_at: Some(due_at), ..TriggerOptions::default() };
        let job = db.store.trigger(name("m"), options(later)).await.unwrap().unwrap();
        assert_eq!(db.state(job).await, Some(JobState::Scheduled));
        assert_eq!(db.store.job(job).await.unwrap().unwrap().job.due_at, later);
        assert_eq!(db.take(db.node("a").await, 10).await.len(), 0);
        assert_eq!(rule(db.store.trigger(name("m"), options(Micros::EPOCH.offset(-1))).await), "due_at");
        db.sql("update {t}work_queue set due_at = created_at").await;
        db.store.promote(10).await.unwrap();
        assert_eq!(db.take_one(db.node("a").await).await.job, job);
    }
}
