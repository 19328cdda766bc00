//! A caller retries a job, in the way that the job's state allows.

use lineclear::model::{Failure, JobState, Manifest, Micros, Outcome};
use lineclear::store::{Declaration, Dispatch, JobId, NewJob, Prune, Retried, RetryOptions};

use crate::kit::{TestDb, completed, daily, failed, job, name, payload};

async fn retry(db: &TestDb, job: JobId) -> Retried {
    let options =
        RetryOptions { by: "ann".to_owned(), note: Some("fixed".to_owned()), ..RetryOptions::default() };
    db.store.retry(job, options).await.unwrap()
}

/// A job's input as people see it.
async fn shown(db: &TestDb, job: JobId) -> String {
    let detail = db.store.job(job).await.unwrap().unwrap();
    detail.secrets.mask(&detail.input.unwrap()).unwrap()
}

/// A manifest whose input has a field that only its mark makes a secret.
fn marked() -> Manifest {
    let (input, secret) = (payload(r#"{"pin":1234,"host":"h"}"#), vec!["/pin".to_owned()]);
    Manifest { input, secret, owner: Some("a".to_owned()), ..daily("m") }
}

const DOTS: &str = r#"{"pin":"•••","host":"h"}"#;

conformance! {
    async fn what_a_removed_manifest_marked_stays_secret_in_jobs_that_run_again(db) {
        let declare = async |manifests| {
            let owner = Some("a".to_owned());
            let declaration = Declaration { manifests, owner, prune: Prune::All, ..Declaration::default() };
            db.store.declare(declaration).await.unwrap();
        };
        declare(vec![marked()]).await;
        let node = db.node("a").await;
        let job = db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        declare(Vec::new()).await;
        assert!(db.store.manifest(&name("m")).await.unwrap().is_none());
        let Retried::Again(again) = retry(db, job).await else { panic!("it is over") };
        assert_eq!((shown(db, job).await, shown(db, again).await), (DOTS.to_owned(), DOTS.to_owned()));
        // It runs like any other job, whatever happened to its manifest.
        let claim = db.take_one(node).await;
        assert_eq!((claim.job, claim.input.as_str()), (again, marked().input.as_str()));
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        assert!(matches!(retry(db, again).await, Retried::Revived(_)));
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        assert_eq!(shown(db, again).await, DOTS);
        // One of the same key begins anew, and is not held by what was before it.
        declare(vec![Manifest { secret: Vec::new(), ..marked() }]).await;
        assert!(!db.store.manifest(&name("m")).await.unwrap().unwrap().held);
        assert_eq!(shown(db, again).await, DOTS, "and its marks are remembered");
    }

    async fn a_mark_that_is_taken_back_still_hides_what_was_given_under_it(db) {
        db.declare(marked()).await;
        let job = db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        db.store.cancel(job).await.unwrap();
        let edit = async |secret: &[&str]| {
            let secret = secret.iter().map(|mark| (*mark).to_owned()).collect();
            db.store.edit_manifest(Manifest { secret, ..marked() }, None).await.unwrap();
        };
        edit(&[]).await;
        let manifest = db.store.manifest(&name("m")).await.unwrap().unwrap().manifest.unwrap();
        assert!(manifest.secret.is_empty(), "it says what it was told");
        assert_eq!(shown(db, job).await, DOTS);
        let Retried::Again(again) = retry(db, job).await else { panic!("it is over") };
        assert_eq!(shown(db, again).await, DOTS, "a new job may have an old secret");
        edit(&["/host"]).await;
        edit(&["/other"]).await;
        assert_eq!(shown(db, job).await, r#"{"pin":"•••","host":"•••"}"#, "all that it ever marked");
        db.plan().await;
        db.sql("update {t}manifest set spec = 'x'").await;
        assert_eq!(shown(db, job).await, r#""•••""#, "without a readable manifest, the whole input is masked");
    }

    async fn what_is_dead_or_over_gets_another_input_and_what_waits_keeps_its_own(db) {
        let node = db.node("a").await;
        let large = format!(r#""{}""#, "x".repeat(2_000));
        let edited = async |job, input: &str| {
            let options = RetryOptions { by: "ann".to_owned(), input: Some(payload(input)), ..RetryOptions::default() };
            db.store.retry(job, options).await.unwrap()
        };
        let first = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("x")).await;
        assert_eq!(edited(first, "1").await, Retried::NotOver(JobState::Retrying));
        assert!(matches!(retry(db, first).await, Retried::Due));
        let claim = db.take_one(node).await;
        assert_eq!(claim.input.as_str(), job().input.as_str());
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        assert!(matches!(edited(first, &large).await, Retried::Revived(_)));
        let claim = db.take_one(node).await;
        assert_eq!((claim.job, claim.input.as_str()), (first, large.as_str()), "the same job");
        db.settle(node, &claim, completed()).await;
        let Retried::Again(again) = edited(first, "[2]").await else { panic!("it is over") };
        let claim = db.take_one(node).await;
        assert_eq!((claim.job, claim.input.as_str()), (again, "[2]"));
        assert_eq!(shown(db, first).await, large, "that one stays as it is");
    }

    async fn a_job_that_waits_for_its_next_try_is_due_now(db) {
        let node = db.node("a").await;
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("no")).await;
        assert!(db.take(node, 10).await.is_empty());
        assert_eq!(retry(db, id).await, Retried::Due);
        let again = db.take_one(node).await;
        assert_eq!((again.job, again.failures, again.no), (id, 1, 2), "its failures still count");
    }

    async fn a_dead_letter_is_revived(db) {
        let node = db.node("a").await;
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
        assert_eq!(retry(db, id).await, Retried::Revived(letter));
        assert_eq!(retry(db, id).await, Retried::NotOver(JobState::Queued));
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items.remove(0);
        assert_eq!((letter.resolved_by.as_deref(), letter.note.as_deref()), (Some("ann"), Some("fixed")));
        assert_eq!(db.take_one(node).await.failures, 0);
    }

    pgbouncer async fn what_is_over_runs_again_as_a_new_job_with_the_same_input(db) {
        let node = db.node("a").await;
        db.declare(daily("m")).await;
        let long = payload(&format!("{:?}", "x".repeat(2000)));
        let adhoc = db.enqueue(NewJob { input: long.clone(), ..job() }).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        let Retried::Again(new) = retry(db, adhoc).await else { panic!("it is over") };
        let claim = db.take_one(node).await;
        assert_eq!((claim.job, claim.input.clone()), (new, long));
        db.settle(node, &claim, completed()).await;

        let input = Some(payload(r#"{"day":7}"#));
        let options = lineclear::store::TriggerOptions { input: input.clone(), ..Default::default() };
        let of_manifest = db.store.trigger(name("m"), options).await.unwrap().unwrap();
        db.store.cancel(of_manifest).await.unwrap();
        let Retried::Again(_) = retry(db, of_manifest).await else { panic!("it is over") };
        let claim = db.take_one(node).await;
        assert_eq!((claim.manifest.is_some(), Some(claim.input)), (true, input));

        let dead = db.enqueue(NewJob { route: name("gpu"), ..job() }).await;
        let lease = crate::kit::lease(node);
        let claim = db.store.dispatch_into_lease(Dispatch::new(name("gpu"), 1), lease).await.unwrap().remove(0);
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        let letter = db.store.dead_letters(Some("awaiting"), None, 1).await.unwrap().items[0].id;
        db.store.acknowledge(vec![letter], "ann", None).await.unwrap();
        assert!(matches!(retry(db, dead).await, Retried::Again(_)));
        assert_eq!(db.store.dispatch_into_lease(Dispatch::new(name("gpu"), 1), lease).await.unwrap().len(), 1, "on its route");
    }

    async fn what_is_not_over_is_not_tried_again(db) {
        let node = db.node("a").await;
        let runs = db.enqueue(job()).await;
        db.take_one(node).await;
        let queued = db.enqueue(job()).await;
        let later = db.enqueue(NewJob { due_at: Micros::new(4_102_444_800_000_000), ..job() }).await;
        for (id, state) in [(runs, JobState::Running), (queued, JobState::Queued), (later, JobState::Scheduled)] {
            assert_eq!(retry(db, id).await, Retried::NotOver(state));
        }
        assert_eq!(retry(db, JobId(999)).await, Retried::Unknown);
        assert_eq!(db.count("work_queue").await, 2);
    }
}
