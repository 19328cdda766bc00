//! Dead letters: revive, acknowledge.

use lineclear::model::{Failure, JobState, Micros, Outcome};
use lineclear::store::{DeadLetterId, JobId, NewJob, Revival, UniqueKey};

use crate::kit::{TestDb, completed, daily, job, payload};

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

conformance! {
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
        let key = Some(UniqueKey { key: "k".to_owned(), keep: None });
        let (id, letter) = dead(db, NewJob { unique_key: key.clone(), ..job() }).await;
        assert!(db.store.enqueue(NewJob { unique_key: key.clone(), ..job() }).await.unwrap().existing, "it may come back");
        db.store.acknowledge(vec![letter], "ann", Some("known, see runbook")).await.unwrap();
        assert_eq!(db.state(id).await, Some(JobState::Dead));
        assert!(!db.store.enqueue(NewJob { unique_key: key, ..job() }).await.unwrap().existing);
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
}
