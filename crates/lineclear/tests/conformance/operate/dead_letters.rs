//! Dead letters: revive, acknowledge.

use lineclear::model::{DeadReason, Failure, GroupSpec, JobState, Manifest, Micros, OnDead, Outcome};
use lineclear::store::{
    ChangeSource, DEAD_LETTERS_PER_CALL, DeadLetterFilter, DeadLetterId, JobId, NewJob, NodeId,
    ResolvedCount, Revival, UniqueKey,
};

use crate::kit::{TestDb, completed, daily, job, name, payload};

fn by() -> Revival {
    Revival { by: "ann".to_owned(), ..Revival::default() }
}

/// A job that died.
async fn dead(db: &TestDb, job: NewJob) -> (JobId, DeadLetterId) {
    let id = db.enqueue(job).await;
    let node = db.node("a").await;
    let claim = db.take_one(node).await;
    db.settle(node, &claim, Outcome::Failed(Failure::new("x", "broken").permanent())).await;
    let letters = db.store.dead_letters(Some("awaiting"), None, 100).await.unwrap().items;
    (id, letters.iter().find(|letter| letter.job == id).unwrap().id)
}

/// All that wait are dead; returns how many, 5,000 at most.
async fn die(db: &TestDb, node: NodeId) -> usize {
    let claims = db.take(node, 5000).await;
    let outcome = || Outcome::Failed(Failure::new("x", "broken").permanent());
    let settle = |claim| {
        let verdict = lineclear::model::Verdict::Bury { reason: DeadReason::Permanent };
        lineclear::store::Settlement::new(claim, outcome(), verdict)
    };
    db.store.settle(node, claims.iter().map(settle).collect()).await.unwrap().len()
}

conformance! {
    pgbouncer async fn a_revival_with_a_delay_is_due_by_the_databases_clock(db) {
        let (id, letter) = dead(db, job()).await;
        let delay = Some(std::time::Duration::from_secs(3600));
        db.store.revive(vec![letter], Revival { delay, ..by() }).await.unwrap();
        let hour = if db.is_sqlite() { "3600000000" } else { "interval '1 hour'" };
        let since = format!("(select resolved_at from {{t}}dead_letter where id = {letter})");
        let found = db.sql(&format!("select count(*) from {{t}}work_queue where id = {id} and phase = 'later' and due_at = {since} + {hour}")).await;
        assert_eq!(found[0][0].as_deref(), Some("1"));
    }

    pgbouncer async fn dead_letters_that_match_are_found_page_by_page_among_many_that_do_not(db) {
        let rare = NewJob { kind: name("rare"), ..job() };
        dead(db, rare.clone()).await;
        dead(db, job()).await;
        dead(db, rare).await;
        let filter = DeadLetterFilter { kind: Some(name("rare")), ..DeadLetterFilter::default() };
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = db.store.dead_letters_matching(&filter, Some("awaiting"), before, 1).await.unwrap();
            found.extend(page.items.iter().map(|letter| (letter.kind.clone(), letter.id)));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), 2);
        assert!(found[0].1 > found[1].1 && found.iter().all(|(kind, _)| kind == "rare"), "{found:?}");
        let families = db.store.dead_families(&DeadLetterFilter::default(), 1).await.unwrap();
        assert_eq!((families.total, families.is_exact, families.items.len()), (3, true, 1));
        assert_eq!((families.items[0].kind.as_str(), families.items[0].count), ("rare", 2), "the largest first");
    }

    async fn a_revived_job_runs_again_with_its_counters_at_zero(db) {
        let (id, letter) = dead(db, job()).await;
        let resolved = db.store.revive(vec![letter], by()).await.unwrap();
        assert_eq!((resolved.len(), resolved[0].job), (1, id));
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!((claim.job, claim.no, claim.failures), (id, 2, 0), "its claim number goes on");
        db.settle(node, &claim, completed()).await;
        assert_eq!(db.state(id).await, Some(JobState::Completed));
        let letters = db.store.dead_letters(None, None, 10).await.unwrap().items;
        assert_eq!((letters[0].status.as_str(), letters[0].resolved_by.as_deref()), ("revived", Some("ann")));
    }

    async fn a_revived_job_may_get_another_input_and_another_time(db) {
        let (_, letter) = dead(db, job()).await;
        let long = payload(&format!("{{\"text\":\"{}\"}}", "x".repeat(2000)));
        let later = Micros::new(4_102_444_800_000_000);
        let revival = Revival { input: Some(long.clone()), due_at: later, ..by() };
        db.store.revive(vec![letter], revival).await.unwrap();
        assert_eq!(db.count("work_queue where phase = 'later'").await, 1);
        db.sql("update {t}work_queue set due_at = created_at").await;
        db.let_later_come().await;
        assert_eq!(db.take_one(db.node("a").await).await.input, long);
    }

    async fn reviving_twice_revives_once(db) {
        let (_, letter) = dead(db, job()).await;
        assert_eq!(db.store.revive(vec![letter], by()).await.unwrap().len(), 1);
        assert_eq!(db.store.revive(vec![letter], by()).await.unwrap().len(), 0);
        assert_eq!(db.store.acknowledge(vec![letter], "ann", None).await.unwrap().len(), 0);
        assert_eq!(db.count("work_queue").await, 1);
    }

    async fn an_acknowledged_job_stays_dead(db) {
        let key = Some(UniqueKey::new("k"));
        let (id, letter) = dead(db, NewJob { unique_key: key.clone(), ..job() }).await;
        assert!(db.store.enqueue(NewJob { unique_key: key.clone(), ..job() }).await.unwrap().existing(), "it may come back");
        db.store.acknowledge(vec![letter], "ann", Some("known, see runbook")).await.unwrap();
        assert_eq!(db.state(id).await, Some(JobState::Dead));
        assert!(!db.store.enqueue(NewJob { unique_key: key, ..job() }).await.unwrap().existing());
        let letters = db.store.dead_letters(Some("acknowledged"), None, 10).await.unwrap().items;
        assert_eq!(letters[0].note.as_deref(), Some("known, see runbook"));
    }

    async fn a_dead_letter_holds_its_manifest_until_a_person_has_seen_it(db) {
        db.declare(daily("nightly")).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1);
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::Failed(Failure::new("x", "broken").permanent())).await;
        assert!(db.store.manifests(None, 10).await.unwrap().items[0].held);
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (0, 0), "held, and not even looked at");

        let letter = db.store.dead_letters(Some("awaiting"), None, 10).await.unwrap().items[0].id;
        db.store.acknowledge(vec![letter], "ann", None).await.unwrap();
        assert!(!db.store.manifests(None, 10).await.unwrap().items[0].held);
        assert_eq!(db.plan().await.0, 1, "the newest missed tick");
    }

    async fn a_manifest_with_two_dead_letters_waits_for_both(db) {
        let manifest = lineclear::model::Manifest { overlap: Some(lineclear::model::Overlap::Allow), ..daily("m") };
        db.declare(manifest).await;
        let node = db.node("a").await;
        for _ in 0..2 {
            db.store.trigger(crate::kit::name("m"), Default::default()).await.unwrap().unwrap();
        }
        for claim in db.take(node, 2).await {
            db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        }
        let letters = db.store.dead_letters(Some("awaiting"), None, 10).await.unwrap().items;
        db.store.revive(vec![letters[0].id], by()).await.unwrap();
        assert!(db.store.manifests(None, 10).await.unwrap().items[0].held);
        db.store.acknowledge(vec![letters[1].id], "ann", None).await.unwrap();
        assert!(!db.store.manifests(None, 10).await.unwrap().items[0].held);
    }

    pgbouncer async fn all_that_match_are_resolved_and_nothing_else(db) {
        db.group("etl", GroupSpec::default()).await;
        db.declare(daily("m")).await;
        let node = db.node("a").await;
        let kind = |text: &str| NewJob { kind: name(text), ..job() };
        db.enqueue(kind("one")).await;
        db.enqueue(kind("two")).await;
        db.enqueue(NewJob { group: Some(name("etl")), ..kind("three") }).await;
        db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        for claim in db.take(node, 10).await {
            let failure = Failure::new("x", format!("{} is broken", claim.kind));
            db.settle(node, &claim, Outcome::Failed(failure.permanent())).await;
        }
        let awaiting = async || db.store.dead_letters(Some("awaiting"), None, 100).await.unwrap().items;
        let of = async |kind: &str| awaiting().await.into_iter().find(|letter| letter.kind == kind);
        let all = DeadLetterFilter::default;
        for nothing in [
            DeadLetterFilter { kind: Some(name("four")), ..all() },
            DeadLetterFilter { manifest: Some(name("missing")), ..all() },
            DeadLetterFilter { group: Some(name("missing")), ..all() },
            DeadLetterFilter { reason: Some(DeadReason::WorkerLost), ..all() },
            DeadLetterFilter { before: Some(Micros::EPOCH), ..all() },
            DeadLetterFilter { fingerprint: Some("none".to_owned()), ..all() },
        ] {
            assert_eq!(db.store.acknowledge_matching(&nothing, "ann", None).await.unwrap().count, 0, "{nothing:?}");
        }
        let fingerprint = of("one").await.unwrap().fingerprint;
        for (one, kind) in [
            (DeadLetterFilter { kind: Some(name("one")), fingerprint, ..all() }, "one"),
            (DeadLetterFilter { group: Some(name("etl")), reason: Some(DeadReason::Permanent), ..all() }, "three"),
            (DeadLetterFilter { manifest: Some(name("m")), ..all() }, "work"),
        ] {
            assert_eq!(db.store.acknowledge_matching(&one, "ann", Some("known")).await.unwrap().count, 1, "{one:?}");
            assert_eq!(of(kind).await, None);
        }
        assert!(!db.store.manifests(None, 10).await.unwrap().items[0].held, "its manifest goes on");
        let revival = Revival { note: Some("fixed in 2.1".to_owned()), ..by() };
        assert_eq!(db.store.revive_matching(&all(), revival).await.unwrap().count, 1);
        let letters = db.store.dead_letters(None, None, 100).await.unwrap().items;
        let two = letters.iter().find(|letter| letter.kind == "two").unwrap();
        assert_eq!((two.status.as_str(), two.note.as_deref(), two.resolved_by.as_deref()), ("revived", Some("fixed in 2.1"), Some("ann")));
        assert!(letters.iter().all(|letter| letter.status != "awaiting"));
    }

    async fn many_batches_are_revived_each_letter_once(db) {
        let jobs = (0..1201).map(|_| job()).collect();
        db.store.enqueue_many(jobs).await.unwrap();
        let node = db.node("a").await;
        assert_eq!(die(db, node).await, 1201);
        let swept = |count| ResolvedCount { count, more: false };
        let revived = db.store.revive_matching(&DeadLetterFilter::default(), by()).await.unwrap();
        assert_eq!((revived, db.count("work_queue").await), (swept(1201), 1201));
        assert_eq!(db.store.revive_matching(&DeadLetterFilter::default(), by()).await.unwrap(), swept(0));
        assert_eq!(die(db, node).await, 1201);
        let acknowledged = db.store.acknowledge_matching(&DeadLetterFilter::default(), "ann", None).await.unwrap();
        assert_eq!(acknowledged, swept(1201));
    }

    async fn one_call_resolves_so_many_and_says_that_there_are_more(db) {
        let most = DEAD_LETTERS_PER_CALL;
        let node = db.node("a").await;
        let rest = 7;
        for part in [most, rest] {
            db.store.enqueue_many((0..part).map(|_| job()).collect()).await.unwrap();
        }
        assert_eq!(die(db, node).await as u64 + die(db, node).await as u64, most + rest);
        let all = DeadLetterFilter::default();
        let swept = |count, more| ResolvedCount { count, more };
        assert_eq!(db.store.acknowledge_matching(&all, "ann", None).await.unwrap(), swept(most, true));
        assert_eq!(db.store.acknowledge_matching(&all, "ann", None).await.unwrap(), swept(rest, false));
        db.sql("update {t}dead_letter set status = 'awaiting'").await;
        assert_eq!(db.store.revive_matching(&all, by()).await.unwrap(), swept(most, true));
        assert_eq!(db.store.revive_matching(&all, by()).await.unwrap(), swept(rest, false));
    }

    async fn resolving_resets_failures_and_crashes(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let failing = db.take_one(node).await;
        db.settle(node, &failing, crate::kit::failed("no")).await;
        for _ in 0..3 {
            db.let_later_come().await;
            let claim = db.take_one(node).await;
            db.store.mark_started(claim.reference()).await.unwrap();
            db.let_leases_end().await;
            db.store.reclaim(10, 3).await.unwrap();
        }
        let letter = db.store.dead_letters(Some("awaiting"), None, 10).await.unwrap().items.remove(0);
        assert_eq!((letter.reason, letter.failures, letter.crashes), (DeadReason::WorkerLost, 1, 3));
        db.store.revive(vec![letter.id], by()).await.unwrap();
        let claim = db.take_one(node).await;
        assert_eq!((claim.failures, claim.crashes, claim.no), (0, 0, 5));
    }

    async fn a_manifest_may_go_on_although_a_dead_letter_awaits(db) {
        let node = db.node("a").await;
        let go_on = Manifest { on_dead: OnDead::GoOn, ..daily("m") };
        db.declare(go_on.clone()).await;
        let held = async || db.store.manifests(None, 10).await.unwrap().items[0].held;
        for lost in [false, true] {
            db.let_a_tick_come().await;
            assert_eq!(db.plan().await.0, 1);
            let claim = db.take_one(node).await;
            if lost {
                db.store.mark_started(claim.reference()).await.unwrap();
                db.let_leases_end().await;
                db.store.reclaim(10, 1).await.unwrap();
            } else {
                db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
            }
            assert_eq!(db.state(claim.job).await, Some(JobState::Dead));
            assert!(!held().await);
        }
        db.store.upsert_manifests([daily("m")], ChangeSource::Edit).await.unwrap();
        assert!(held().await, "told to hold, it holds for what awaits already");
        db.store.upsert_manifests([go_on], ChangeSource::Edit).await.unwrap();
        assert!(!held().await);
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1);
    }
}
