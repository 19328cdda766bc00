//! Declarations: all manifests of one owner, those that are no longer declared, and releases that come too late.

use std::collections::BTreeMap;

use lineclear::model::{
    GroupSpec, JobState, Manifest, ManifestFile, Overlap, Payload, Schedule, schedule::Need,
};
use lineclear::store::{
    Change, ChangeSource, Declaration, Declared, Dispatch, ExpectedVersion, Prune, StoreError, StoreResult,
    TriggerOptions, Written,
};

use crate::kit::{TestDb, completed, daily, failed, name};

/// A declaration of `owner`, with prune.
fn set(owner: &str, manifests: Vec<Manifest>) -> Declaration {
    Declaration { manifests, owner: Some(owner.to_owned()), prune: Prune::All, ..Declaration::default() }
}

async fn declare(db: &TestDb, declaration: Declaration) -> Vec<String> {
    match db.store.declare(declaration).await.unwrap() {
        Declared::Done { pruned, .. } => pruned.iter().map(ToString::to_string).collect(),
        Declared::Outdated { newest } => panic!("outdated by {newest}"),
    }
}

fn refused<T: std::fmt::Debug>(result: StoreResult<T>) -> (String, String) {
    match result {
        Err(StoreError::Refused { rule, why, .. }) => (rule, why),
        other => panic!("{other:?} is no refusal"),
    }
}

async fn keys(db: &TestDb) -> Vec<String> {
    db.store.manifests(None, 100).await.unwrap().items.iter().map(|view| view.key.to_string()).collect()
}

fn after(key: &str, parents: &[&str]) -> Manifest {
    let parents = parents.iter().map(|parent| name(parent)).collect();
    Manifest { schedule: Schedule::after(parents, Need::All).unwrap(), ..daily(key) }
}

conformance! {
    async fn pruning_removes_only_what_its_owner_no_longer_declares(db) {
        declare(db, set("a", vec![daily("a1"), daily("a2"), daily("a3")])).await;
        declare(db, set("b", vec![daily("b1")])).await;
        db.declare(daily("unowned")).await;
        db.store.upsert_manifests([Manifest { owner: Some("a".to_owned()), ..daily("a4") }], ChangeSource::Edit).await.unwrap();
        assert_eq!(declare(db, set("a", vec![daily("a2")])).await, ["a1", "a3"]);
        assert_eq!(keys(db).await, ["a2", "a4", "b1", "unowned"], "what a person made stays too");
        assert_eq!(declare(db, set("a", vec![daily("a2")])).await, Vec::<String>::new());
    }

    async fn a_person_removes_a_manifest_as_a_declaration_does(db) {
        declare(db, set("a", vec![daily("m"), daily("other"), after("child", &["other"])])).await;
        let id = db.store.manifest(&name("m")).await.unwrap().unwrap().id;
        db.let_a_tick_come().await;
        db.plan().await;
        let planned = db.store.ticks(id, None, 1).await.unwrap().items[0].job.unwrap();
        let asked = db.store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();

        let version = db.store.manifest(&name("m")).await.unwrap().unwrap().version;
        let late = db.store.remove_manifest(name("m"), Some((version + 1).into()), "ann").await;
        assert_eq!(refused(late).0, "changed_since");
        assert!(db.store.remove_manifest(name("m"), Some(version.into()), "ann").await.unwrap());
        assert_eq!(keys(db).await, ["child", "other"]);
        assert!(!db.store.remove_manifest(name("m"), None, "ann").await.unwrap(), "it is gone");
        assert!(!db.store.remove_manifest(name("missing"), Some(ExpectedVersion::Any), "ann").await.unwrap());

        let detail = db.store.job(planned).await.unwrap().unwrap();
        assert_eq!(detail.job.state, JobState::Cancelled);
        let why = detail.executions[0].error_message.clone().unwrap();
        assert!(why.contains("ann"), "{why}");
        assert_eq!(db.state(asked).await, Some(JobState::Queued), "what a person asked for goes on");
        let (rule, why) = refused(db.store.remove_manifest(name("other"), None, "ann").await);
        assert_eq!(rule, "manifest_has_dependents");
        assert!(why.contains("child"), "{why}");
        let again = db.store.upsert_manifests([daily("m")], ChangeSource::Edit).await.unwrap();
        assert_eq!(again[&name("m")], Written::Created, "it can be made anew");
    }

    pgbouncer async fn what_was_seen_of_a_manifest_must_still_be_so(db) {
        let any = db.store.edit_manifest(daily("m"), Some(ExpectedVersion::Any)).await;
        assert_eq!(refused(any).0, "changed_since", "there is none");
        let made = db.store.edit_manifest(daily("m"), None).await.unwrap();
        assert_eq!(made.became, Written::Created);
        assert_eq!(db.store.manifest(&name("m")).await.unwrap().unwrap().version, made.version);
        let same = db.store.edit_manifest(daily("m"), Some(ExpectedVersion::Any)).await.unwrap();
        assert_eq!((same.became, same.version), (Written::Unchanged, made.version));
        let other = |priority| Manifest { priority, ..daily("m") };
        let seen = Some(ExpectedVersion::Versions(vec![made.version + 7, made.version]));
        let next = db.store.edit_manifest(other(3), seen.clone()).await.unwrap();
        assert_eq!((next.became, next.version), (Written::Updated, made.version + 1));
        assert_eq!(db.store.manifest(&name("m")).await.unwrap().unwrap().version, next.version);
        assert_eq!(refused(db.store.edit_manifest(other(4), seen).await).0, "changed_since");
    }

    async fn prune_by_prefix_leaves_the_rest_of_the_owner(db) {
        declare(db, set("a", vec![daily("etl.x"), daily("etl.y"), daily("web.z")])).await;
        let etl = |manifests| Declaration { prune: Prune::Prefix("etl.".to_owned()), ..set("a", manifests) };
        assert_eq!(declare(db, etl(vec![daily("etl.y")])).await, ["etl.x"]);
        assert_eq!(keys(db).await, ["etl.y", "web.z"]);
        let (rule, why) = refused(db.store.declare(etl(vec![daily("web.z")])).await);
        assert_eq!(rule, "prune");
        assert!(why.contains("web.z") && why.contains("etl."), "{why}");
    }

    async fn planned_jobs_of_a_removed_manifest_end_with_a_reason_and_running_ones_finish(db) {
        let all = |key| Manifest { overlap: Some(Overlap::Allow), ..daily(key) };
        declare(db, set("a", vec![all("m")])).await;
        let id = db.store.manifests(None, 1).await.unwrap().items[0].id;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let running = db.take_one(node).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let asked = db.store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();
        db.let_a_tick_come().await;
        assert_eq!(declare(db, set("a", vec![])).await, ["m"]);

        let ticks = db.store.ticks(id, None, 10).await.unwrap().items;
        assert_eq!(ticks.len(), 3, "the ledger stays: {ticks:?}");
        assert_eq!(ticks[0].skip_reason.as_deref(), Some("removed"), "it was due and not planned");
        let planned = ticks[1].job.unwrap();
        let detail = db.store.job(planned).await.unwrap().unwrap();
        assert_eq!(detail.job.state, JobState::Cancelled);
        assert_eq!(detail.executions[0].error_type.as_deref(), Some("manifest_removed"));
        assert!(detail.executions[0].error_message.as_deref().unwrap().contains("\"a\""), "{detail:?}");

        assert_eq!(db.take_one(node).await.job, asked, "what a person asked for goes on");
        db.settle(node, &running, failed("no")).await;
        assert_eq!(db.state(running.job).await, Some(JobState::Retrying), "and so does what has begun");
        assert_eq!(db.plan().await, (0, 0));
        assert_eq!(db.store.trigger(name("m"), TriggerOptions::default()).await.unwrap(), None);
        assert_eq!(db.store.resume(vec![name("m")]).await.unwrap(), Vec::<lineclear::model::Name>::new());
    }

    async fn an_unclaimed_job_of_a_removed_manifest_ends_too(db) {
        declare(db, set("a", vec![daily("m")])).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let job = db.store.dispatch(Dispatch::new(lineclear::store::main_route(), 1)).await.unwrap()[0];
        assert_eq!(declare(db, set("a", vec![])).await, ["m"]);
        assert_eq!(db.state(job).await, Some(JobState::Cancelled));
    }

    async fn jobs_of_a_paused_manifest_that_is_removed_do_not_stay_parked(db) {
        declare(db, set("a", vec![daily("m")])).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.store.pause(vec![name("m")]).await.unwrap();
        db.settle(node, &claim, failed("no")).await;
        assert_eq!(db.state(claim.job).await, Some(JobState::Parked));
        declare(db, set("a", vec![])).await;
        assert_eq!(db.state(claim.job).await, Some(JobState::Retrying));
    }

    async fn a_removed_manifest_that_comes_back_begins_anew_and_runs_no_tick_twice(db) {
        declare(db, set("a", vec![daily("m")])).await;
        db.store.upsert_manifests([Manifest { owner: Some("a".to_owned()), priority: 9, ..daily("m") }], ChangeSource::Edit).await.unwrap();
        let id = db.store.manifests(None, 1).await.unwrap().items[0].id;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        declare(db, set("a", vec![])).await;
        let Declared::Done { written, .. } = db.store.declare(set("a", vec![daily("m")])).await.unwrap() else { panic!() };
        assert_eq!(written[&name("m")], Written::Created);
        let view = db.store.manifests(None, 1).await.unwrap().items.remove(0);
        assert_eq!((view.id, view.manifest.unwrap().priority), (id, 0), "the same row, without the old edit");
        assert_eq!(db.plan().await, (0, 0));
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        assert_eq!(db.count("tick where job_id is not null").await, 2);
    }

    async fn a_parent_does_not_go_without_its_dependents(db) {
        declare(db, set("a", vec![daily("p"), daily("q"), after("c", &["p", "q"])])).await;
        db.declare(after("elsewhere", &["q"])).await;
        let (rule, why) = refused(db.store.declare(set("a", vec![daily("p"), after("c", &["p"])])).await);
        assert_eq!(rule, "manifest_has_dependents");
        assert!(why.contains("elsewhere depends on q") && !why.contains("c depends"), "{why}");
        assert_eq!(keys(db).await, ["c", "elsewhere", "p", "q"], "all or nothing");
        let (_, why) = refused(db.store.declare(set("a", vec![daily("q"), after("c", &["p", "q"])])).await);
        assert!(why.contains("c depends on p"), "{why}");
        assert_eq!(declare(db, set("a", vec![daily("q")])).await, ["c", "p"], "together they may go");
    }

    async fn an_owner_does_not_take_over_a_manifest_unless_a_person_reassigns_it(db) {
        declare(db, set("a", vec![daily("m")])).await;
        let (rule, why) = refused(db.store.declare(set("b", vec![daily("m"), daily("n")])).await);
        assert_eq!(rule, "manifest_owner");
        assert!(why.contains("m belongs to \"a\"") && why.contains("\"b\""), "{why}");
        assert_eq!(refused(db.store.upsert_manifests([daily("m")], ChangeSource::Declaration).await).0, "manifest_owner");
        assert_eq!(keys(db).await, ["m"], "nothing was written");

        db.store.upsert_manifests([Manifest { owner: Some("b".to_owned()), ..daily("m") }], ChangeSource::Edit).await.unwrap();
        declare(db, set("a", vec![daily("m")])).await;
        declare(db, set("b", vec![daily("m"), daily("n")])).await;
        assert_eq!(refused(db.store.declare(set("a", vec![daily("m")])).await).0, "manifest_owner");
        assert_eq!(declare(db, set("a", vec![])).await, Vec::<String>::new());
        db.declare(daily("unowned")).await;
        declare(db, set("b", vec![daily("m"), daily("n"), daily("unowned")])).await;
        let strange = Manifest { owner: Some("c".to_owned()), ..daily("x") };
        assert_eq!(refused(db.store.declare(set("b", vec![strange])).await).0, "manifest_owner");
    }

    pgbouncer async fn an_older_release_changes_nothing_and_says_so(db) {
        let release = |n, priority, keys: &[&str]| {
            let manifests = keys.iter().map(|key| Manifest { priority, ..daily(key) }).collect();
            let groups = BTreeMap::from([("etl".to_owned(), GroupSpec { priority, ..GroupSpec::default() })]);
            Declaration { release: n, groups, ..set("a", manifests) }
        };
        declare(db, release(Some(7), 1, &["m", "old"])).await;
        assert_eq!(declare(db, release(Some(8), 2, &["m", "new"])).await, ["old"]);
        let outdated = db.store.declare(release(Some(7), 1, &["m", "old"])).await.unwrap();
        assert_eq!(outdated, Declared::Outdated { newest: 8 });
        assert_eq!(keys(db).await, ["m", "new"]);
        let priority = db.store.manifests(None, 1).await.unwrap().items[0].manifest.as_ref().unwrap().priority;
        let groups = db.store.groups(None, 10).await.unwrap().items;
        assert_eq!((priority, groups.iter().find(|group| group.name == "etl").unwrap().priority), (2, 2));
        declare(db, release(Some(8), 3, &["m", "new"])).await;
        declare(db, release(None, 4, &["m", "new"])).await;
        assert_eq!(db.store.declare(release(Some(7), 1, &[])).await.unwrap(), Declared::Outdated { newest: 8 }, "none does not take it back");
        let other = Declaration { release: Some(1), ..set("b", vec![daily("b1")]) };
        assert_eq!(declare(db, other).await, Vec::<String>::new(), "another owner has numbers of its own");
    }

    async fn prune_and_release_need_an_owner(db) {
        let unowned = |prune, release| Declaration { prune, release, manifests: vec![daily("m")], ..Declaration::default() };
        assert_eq!(refused(db.store.declare(unowned(Prune::All, None)).await).0, "owner");
        assert_eq!(refused(db.store.declare(unowned(Prune::Nothing, Some(1))).await).0, "owner");
        let huge = Declaration { release: Some(u64::MAX), ..set("a", vec![]) };
        assert_eq!(refused(db.store.declare(huge).await).0, "release");
        assert_eq!(db.count("manifest").await, 0);
    }

    async fn a_file_is_declared_with_its_groups_in_one_go(db) {
        let file = ManifestFile::from_toml(r#"
            [group.etl]
            limit = 4
            [group."*"]
            limit = 100
            [[manifest]]
            key = "nightly"
            kind = "load"
            group = "etl"
            schedule = { cron = "30 2 * * *" }
            on_dead = "go_on"
            [[manifest]]
            key = "report"
            kind = "report"
            schedule = { after = ["nightly"] }
        "#).unwrap();
        declare(db, Declaration { owner: Some("a".to_owned()), ..file.clone().into() }).await;
        assert_eq!(keys(db).await, ["nightly", "report"]);
        let groups = db.store.groups(None, 10).await.unwrap().items;
        assert_eq!(groups.iter().map(|group| group.limit).collect::<Vec<_>>(), [Some(100), Some(4)]);
        let mut broken = file;
        broken.group.insert("new".to_owned(), GroupSpec::default());
        broken.manifest[1].schedule = Schedule::after(vec![name("missing")], Need::All).unwrap();
        assert_eq!(refused(db.store.declare(Declaration { owner: Some("a".to_owned()), ..broken.into() }).await).0, "parent_unknown");
        assert_eq!(db.store.groups(None, 10).await.unwrap().items.len(), 2, "the group was not made either");
    }

    async fn a_stored_input_keeps_its_exact_text(db) {
        // Keys not in alphabetical order, an unusual number format, and numbers too large for most types.
        let odd = |digit: char| format!("{{\"z\":1.10,\"n\":1234567890123456789012{digit},\"a\":[1e400]}}");
        let of = |input: &str, retries| {
            Manifest { input: Payload::parse(input).unwrap(), retries: Some(retries), ..daily("m") }
        };
        let stored = async || {
            let manifest = db.store.manifest(&name("m")).await.unwrap().unwrap().manifest.unwrap();
            (manifest.input.as_str().to_owned(), manifest.retries)
        };
        let planned = async |manifest: Manifest| {
            let plan = db.store.apply(set("a", vec![manifest]), false).await.unwrap();
            plan.manifests[&name("m")].clone()
        };
        assert_eq!(planned(of(&odd('3'), 1)).await, Change::Created);
        assert_eq!(stored().await, (odd('3'), Some(1)));
        assert_eq!(planned(of(&odd('3'), 1)).await, Change::Unchanged);
        assert_eq!(planned(of(&odd('3'), 2)).await, Change::Changed(vec!["retries".to_owned()]));
        assert_eq!(stored().await, (odd('3'), Some(2)), "another field is merged beside it");
        assert_eq!(planned(of(&odd('4'), 2)).await, Change::Changed(vec!["input".to_owned()]), "the last digit");
        assert_eq!(stored().await, (odd('4'), Some(2)));
        let owned = Manifest { owner: Some("a".to_owned()), ..of(&odd('5'), 2) };
        db.store.upsert_manifests([owned], ChangeSource::Edit).await.unwrap();
        assert_eq!(planned(of(&odd('4'), 2)).await, Change::Unchanged, "an edit outlives what was said before");
        assert_eq!(stored().await, (odd('5'), Some(2)));
        let job = db.store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();
        assert_eq!(db.store.job(job).await.unwrap().unwrap().input, Some(odd('5')));
    }

    /// Earlier versions sorted the keys of declared fields.
    async fn what_was_stored_with_sorted_keys_is_no_other_declaration(db) {
        let schedule: Schedule = serde_json::from_str(r#"{"cron": "0 3 * * *", "tz": "Europe/Berlin", "end": "2050-01-01T00:00:00Z"}"#).unwrap();
        let said = Manifest { schedule, owner: Some("a".to_owned()), input: Payload::parse(r#"{"b":1,"a":2}"#).unwrap(), ..daily("m") };
        declare(db, set("a", vec![said.clone()])).await;
        let sorted: serde_json::Value = serde_json::to_value(&said).unwrap();
        db.sql(&format!("update {{t}}manifest set declared = '{sorted}'")).await;
        let edited = Manifest { retries: Some(9), input: Payload::parse("3").unwrap(), ..said.clone() };
        db.store.upsert_manifests([edited.clone()], ChangeSource::Edit).await.unwrap();
        declare(db, set("a", vec![said])).await;
        let now = db.store.manifest(&name("m")).await.unwrap().unwrap().manifest.unwrap();
        assert_eq!((now.retries, now.input.as_str(), now.schedule), (Some(9), "3", edited.schedule));
    }

    pgbouncer async fn declarations_at_once_do_not_hurt_each_other_nor_running_work(db) {
        declare(db, set("a", (0..10).map(|n| daily(&format!("a{n}"))).collect())).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let mut work = Vec::new();
        for half in 0..4 {
            let store = db.another_store().await;
            work.push(tokio::spawn(async move {
                for round in 0..5 {
                    let keys = (0..10).filter(|n| (n + half + round) % 2 == 0);
                    store.declare(set("a", keys.map(|n| daily(&format!("a{n}"))).collect())).await.unwrap();
                }
            }));
        }
        let mut done = 0;
        for claim in db.take(node, 100).await {
            db.settle(node, &claim, completed()).await;
            done += 1;
        }
        for declaring in work {
            declaring.await.unwrap();
        }
        assert_eq!(keys(db).await.len(), 5);
        let over = db.count("execution where final").await;
        assert_eq!((over, db.count("tick where job_id is not null").await), (10, 10), "{done} ran, the rest was cancelled");
    }
}
