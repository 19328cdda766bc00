//! Lists and details, page by page.

use lineclear::model::{Failure, JobState, Micros, Outcome};
use lineclear::read::JobFilter;
use lineclear::store::{Dispatch, JobId, NewJob, main_route};

use crate::kit::{TestDb, completed, daily, failed, job, name};

/// One job in every state.
async fn one_of_each(db: &TestDb) -> Vec<(JobId, JobState)> {
    let node = db.node("a").await;
    let mut all = Vec::new();
    for (state, outcome) in [
        (JobState::Completed, completed()),
        (JobState::Retrying, failed("no")),
        (JobState::Dead, Outcome::DeadLetter(Failure::new("x", "y"))),
    ] {
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, outcome).await;
        all.push((id, state));
    }
    all.push((db.enqueue(job()).await, JobState::Running));
    db.take_one(node).await;
    let keyed = NewJob { limit_key: Some("k".to_owned()), ..job() };
    db.store.set_limit("k", 0).await.unwrap();
    all.push((db.enqueue(keyed).await, JobState::Held));
    assert_eq!(db.take(node, 10).await.len(), 0);
    all.push((db.enqueue(job()).await, JobState::Ready));
    db.store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap();
    let m = db.declare(daily("m")).await;
    db.let_a_tick_come().await;
    db.plan().await;
    all.push((db.store.ticks(m, None, 1).await.unwrap().items[0].job.unwrap(), JobState::Parked));
    db.store.pause(vec![name("m")]).await.unwrap();
    let cancelled = db.enqueue(job()).await;
    db.store.cancel(cancelled).await.unwrap();
    all.push((cancelled, JobState::Cancelled));
    all.push((
        db.enqueue(NewJob { due_at: Micros::new(4_102_444_800_000_000), ..job() }).await,
        JobState::Scheduled,
    ));
    all.push((db.enqueue(NewJob { kind: name("rare"), ..job() }).await, JobState::Queued));
    all
}

conformance! {
    async fn every_state_is_listed_and_found_by_it(db) {
        let all = one_of_each(db).await;
        assert_eq!(all.len(), JobState::ALL.len(), "every state there is");
        for (id, state) in &all {
            assert_eq!(db.state(*id).await, Some(*state));
            let filter = JobFilter { states: vec![*state], ..JobFilter::default() };
            let found = db.store.jobs(&filter, None, 100).await.unwrap();
            assert_eq!(found.items.iter().map(|job| job.id).collect::<Vec<_>>(), [*id], "{state}");
        }
        let filter = JobFilter { kind: Some(name("rare")), ..JobFilter::default() };
        assert_eq!(db.store.jobs(&filter, None, 100).await.unwrap().items.len(), 1);
        assert_eq!(db.store.job(JobId(i64::MAX)).await.unwrap(), None);
    }

    pgbouncer async fn pages_go_through_all_jobs_newest_first(db) {
        let mut expected: Vec<JobId> = one_of_each(db).await.into_iter().map(|(id, _)| id).collect();
        expected.sort_by_key(|id| std::cmp::Reverse(*id));
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let page = db.store.jobs(&JobFilter::default(), before, 3).await.unwrap();
            found.extend(page.items.iter().map(|job| job.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, expected);
    }

    async fn manifests_groups_and_dead_letters_are_paged_too(db) {
        for n in 0..5 {
            db.declare(daily(&format!("m{n}"))).await;
        }
        let first = db.store.manifests(None, 2).await.unwrap();
        let second = db.store.manifests(first.next.as_ref(), 2).await.unwrap();
        let third = db.store.manifests(second.next.as_ref(), 2).await.unwrap();
        assert_eq!((first.items.len(), second.items.len(), third.items.len()), (2, 2, 1));
        assert_eq!((third.items[0].key.clone(), third.next), (name("m4"), None));

        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 3]).await.unwrap();
        for claim in db.take(node, 3).await {
            db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
        }
        let first = db.store.dead_letters(Some("awaiting"), None, 2).await.unwrap();
        let second = db.store.dead_letters(Some("awaiting"), first.next, 2).await.unwrap();
        assert_eq!((first.items.len(), second.items.len(), second.next), (2, 1, None));
        let groups = db.store.groups(None, 1).await.unwrap();
        assert_eq!(groups.items[0].name, "*");
    }

    async fn a_job_in_detail_has_its_input_and_its_tries(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, failed("no route to host")).await;
        let detail = db.store.job(id).await.unwrap().unwrap();
        assert_eq!(detail.input.as_deref(), Some(r#"{"n":1}"#));
        assert_eq!(detail.job.last_error.as_deref(), Some("no route to host"));
        assert_eq!((detail.job.failures, detail.job.claim_no), (Some(1), 1));
        let execution = &detail.executions[0];
        assert_eq!(execution.error_type.as_deref(), Some("test_error"));
        assert!(execution.claimed_at.unwrap() <= execution.finished_at);
    }

    pgbouncer async fn of_a_job_that_was_tried_very_often_the_last_claims_are_there_with_their_nodes(db) {
        let id = db.enqueue(job()).await;
        let (old, new) = (db.node("old").await, db.node("new").await);
        db.sql("update {t}work_queue set claim_no = 1100").await;
        db.sql(&format!(
            "insert into {{t}}execution (job_id, claim_no, final, outcome, origin, kind, node, created_at, due_at, finished_at)
             with recursive s (n) as (select 1 union all select n + 1 from s where n < 1100)
             select id, n, false, 'failed', origin, kind, {}, created_at, due_at, created_at from s, {{t}}work_queue",
            old.0
        ))
        .await;
        let claim = db.take_one(new).await;
        let output = Some(crate::kit::payload("42"));
        db.settle(new, &claim, Outcome::Completed { output }).await;
        let executions = async || db.store.job(id).await.unwrap().unwrap().executions;
        let shown = executions().await;
        assert_eq!((shown.len(), shown[0].claim_no), (1_000, 102), "oldest first, and the last of them");
        let last = shown.last().unwrap();
        assert_eq!((last.claim_no, last.is_final, last.output.as_deref()), (1_101, true, Some("42")));
        assert_eq!((shown[0].node_name.as_deref(), last.node_name.as_deref()), (Some("old"), Some("new")));
        assert_eq!(db.store.last_executions(id, 2).await.unwrap(), shown[998..]);
        db.sql("delete from {t}node where name = 'old'").await;
        assert_eq!((executions().await[0].node, executions().await[0].node_name.clone()), (Some(old), None));
        let first = db.store.executions(id, None, 10).await.unwrap();
        assert_eq!((first.items[0].claim_no, first.next), (1, Some(10)), "page by page, all of them");
    }

    async fn a_manifest_that_cannot_be_read_is_listed_beside_the_others(db) {
        db.declare(daily("broken")).await;
        db.declare(daily("fine")).await;
        db.sql("update {t}manifest set spec = 'x' where key = 'broken'").await;
        let views = db.store.manifests(None, 10).await.unwrap().items;
        assert_eq!(views.iter().map(|view| view.manifest.is_ok()).collect::<Vec<_>>(), [false, true]);
    }

    async fn a_job_that_is_over_still_shows_its_input(db) {
        let node = db.node("a").await;
        let long = crate::kit::payload(&format!("{{\"text\":\"{}\"}}", "x".repeat(2000)));
        for input in [crate::kit::payload(r#"{"n":1}"#), long] {
            let id = db.enqueue(NewJob { input: input.clone(), ..job() }).await;
            let claim = db.take_one(node).await;
            db.settle(node, &claim, completed()).await;
            assert_eq!(db.store.job(id).await.unwrap().unwrap().input.as_deref(), Some(input.as_str()));
            let id = db.enqueue(NewJob { input: input.clone(), ..job() }).await;
            db.store.cancel(id).await.unwrap();
            assert_eq!(db.store.job(id).await.unwrap().unwrap().input.as_deref(), Some(input.as_str()));
        }
    }
}
