//! What handlers write while they run: steps, progress and log lines, fenced by the claim number.

use std::time::Duration;

use lineclear::model::{Failure, Outcome};
use lineclear::store::{
    Claim, Dispatch, FencedWrite, LogLine, NewLogLine, ProgressView, Retention, Revival, StepRecord,
    StoreError,
};

use crate::kit::{TestDb, completed, failed, job, payload};

const DAYS_31: i64 = 31 * 86_400;

fn step(name: &str, position: u32, result: Result<&str, &str>) -> StepRecord {
    let result = result.map(payload).map_err(|message| Failure::new("step", message));
    StepRecord { name: name.to_owned(), position, result, took: Duration::from_millis(1500) }
}

async fn record(db: &TestDb, claim: &Claim, step: StepRecord) -> FencedWrite {
    db.store.record_step(claim.reference(), step).await.unwrap()
}

/// A job that did one step and died.
async fn dead_after_a_step(db: &TestDb) -> lineclear::store::DeadLetterId {
    db.enqueue(job()).await;
    let node = db.node("a").await;
    let claim = db.take_one(node).await;
    record(db, &claim, step("extract", 1, Ok("7"))).await;
    db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
    db.store.dead_letters(Some("awaiting"), None, 10).await.unwrap().items[0].id
}

conformance! {
    pgbouncer async fn steps_are_kept_over_tries_and_listed_in_their_order(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!(record(db, &claim, step("transform", 1, Ok("[1,2]"))).await, FencedWrite::Recorded);
        assert_eq!(record(db, &claim, step("load", 2, Err("no route"))).await, FencedWrite::Recorded);
        assert_eq!(db.store.finished_step(id, "transform").await.unwrap(), Some(payload("[1,2]")));
        assert_eq!(db.store.finished_step(id, "load").await.unwrap(), None, "it failed, and is to be done again");
        assert_eq!(db.store.finished_step(id, "other").await.unwrap(), None);
        db.settle(node, &claim, failed("no route")).await;
        db.let_later_come().await;
        let again = db.take_one(node).await;
        record(db, &again, step("load", 2, Ok("null"))).await;

        let steps = db.store.job(id).await.unwrap().unwrap().steps;
        let seen: Vec<_> = steps.iter().map(|s| (s.name.as_str(), s.claim_no, s.output.as_deref(), s.error.as_deref())).collect();
        assert_eq!(seen, [("transform", 1, Some("[1,2]"), None), ("load", 2, Some("null"), None)]);
        let took = steps[0].finished_at.get() - steps[0].started_at.get();
        assert_eq!(took, 1_500_000, "as long as the handler says");
    }

    async fn a_failed_step_shows_its_error(db) {
        let id = db.enqueue(job()).await;
        let claim = db.take_one(db.node("a").await).await;
        record(db, &claim, step("load", 1, Err("no route"))).await;
        let steps = db.store.job(id).await.unwrap().unwrap().steps;
        assert_eq!((steps[0].output.as_deref(), steps[0].error.as_deref()), (None, Some("no route")));
    }

    async fn a_claim_that_was_lost_records_nothing(db) {
        let id = db.enqueue(job()).await;
        let (a, b) = (db.node("a").await, db.node("b").await);
        let lost = db.take_one(a).await;
        db.let_leases_end().await;
        db.store.reclaim(10, 3).await.unwrap();
        assert_eq!(record(db, &lost, step("one", 1, Ok("1"))).await, FencedWrite::Stale, "it waits");
        db.store.dispatch(Dispatch::new(lineclear::store::main_route(), 10)).await.unwrap();
        assert_eq!(record(db, &lost, step("one", 1, Ok("1"))).await, FencedWrite::Stale, "dispatched, with the old number still");
        let claim = db.store.claim(lineclear::store::main_route(), 10, crate::kit::lease(b)).await.unwrap().remove(0);
        assert_eq!(record(db, &lost, step("one", 1, Ok("1"))).await, FencedWrite::Stale, "another worker has it");
        assert_eq!(record(db, &claim, step("one", 1, Ok("2"))).await, FencedWrite::Recorded);
        assert_eq!(record(db, &lost, step("one", 1, Ok("1"))).await, FencedWrite::Stale, "and what that one wrote stays");
        db.settle(b, &claim, completed()).await;
        assert_eq!(record(db, &claim, step("late", 2, Ok("1"))).await, FencedWrite::Stale, "it is over");
        let steps = db.store.job(id).await.unwrap().unwrap().steps;
        assert_eq!(steps.iter().map(|s| (s.name.as_str(), s.output.as_deref())).collect::<Vec<_>>(), [("one", Some("2"))]);
    }

    async fn a_revival_with_another_input_forgets_the_steps_and_one_without_keeps_them(db) {
        let letter = dead_after_a_step(db).await;
        db.store.revive(vec![letter], Revival::default()).await.unwrap();
        assert_eq!(db.count("job_step").await, 1);
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
        let letter = db.store.dead_letters(Some("awaiting"), None, 10).await.unwrap().items[0].id;
        db.store.revive(vec![letter], Revival { input: Some(payload("2")), ..Revival::default() }).await.unwrap();
        assert_eq!(db.count("job_step").await, 0);
    }

    async fn steps_go_with_the_history_of_their_job(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 2]).await.unwrap();
        let claims = db.take(node, 2).await;
        for claim in &claims {
            record(db, claim, step("one", 1, Ok("1"))).await;
        }
        db.settle(node, &claims[0], completed()).await;
        db.age("execution", "finished_at", DAYS_31).await;
        db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(db.count("job_step").await, 1, "the other job still runs");
        db.settle(node, &claims[1], Outcome::DeadLetter(Failure::new("x", "y"))).await;
        let letter = db.store.dead_letters(None, None, 10).await.unwrap().items[0].id;
        db.store.acknowledge(vec![letter], "ann", None).await.unwrap();
        db.age("dead_letter", "resolved_at", DAYS_31).await;
        db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(db.count("job_step").await, 0);
    }

    async fn a_step_without_a_proper_name_is_refused(db) {
        db.enqueue(job()).await;
        let claim = db.take_one(db.node("a").await).await;
        for name in ["", "a\0b", &"x".repeat(256)] {
            let refused = db.store.record_step(claim.reference(), step(name, 1, Ok("1"))).await;
            assert!(matches!(refused, Err(StoreError::Refused { .. })), "{name:?}: {refused:?}");
        }
    }

    pgbouncer async fn progress_shows_while_a_job_runs_and_only_its_own_claim_can_say_it(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let half = ProgressView::new(0.5, "half \"done\"");
        let written = db.store.write_progress(vec![(claim.reference(), half.clone())]).await.unwrap();
        assert_eq!(written, [claim.reference()]);
        assert_eq!(db.store.job(id).await.unwrap().unwrap().job.progress, Some(half.clone()));
        let listed = db.store.jobs(&Default::default(), None, 10).await.unwrap().items;
        assert_eq!(listed[0].progress, Some(half));

        let stale = lineclear::store::ClaimRef { no: claim.no + 1, ..claim.reference() };
        assert_eq!(db.store.write_progress(vec![(stale, ProgressView::new(1.0, "no"))]).await.unwrap(), []);
        db.settle(node, &claim, failed("x")).await;
        assert_eq!(db.store.write_progress(vec![(claim.reference(), ProgressView::new(1.0, "no"))]).await.unwrap(), []);
        assert_eq!(db.store.job(id).await.unwrap().unwrap().job.progress, None, "the next try begins from nothing");
    }

    pgbouncer async fn log_lines_of_a_remote_worker_are_numbered_and_fenced_by_its_node(db) {
        let id = db.enqueue(job()).await;
        let (node, other) = (db.node("a").await, db.node("b").await);
        let claim = db.take_one(node).await;
        let line = |message: &str| NewLogLine { logged_at: None, level: "INFO".to_owned(), message: message.to_owned() };
        let append = async |node, lines: &[&str]| {
            let lines = lines.iter().map(|text| line(text)).collect();
            db.store.append_log(node, vec![(claim.reference(), lines)]).await.unwrap()
        };
        assert_eq!(append(node, &["one", "t\0wo"]).await, [true]);
        assert_eq!(append(other, &["not its job"]).await, [false]);
        assert_eq!(append(node, &[]).await, [true], "it still has the job");
        // Two calls at the same time: each line has a number of its own.
        let (first, second) = tokio::join!(append(node, &["three"]), append(node, &["three"]));
        assert_eq!((first, second), (vec![true], vec![true]));
        let twice = vec![(claim.reference(), vec![line("five")]), (claim.reference(), vec![line("six")])];
        assert_eq!(db.store.append_log(node, twice).await.unwrap(), [true, true]);
        let lines = async || -> Vec<(u32, String)> {
            let log = db.store.log(id, None, 1_000).await.unwrap().items;
            log.into_iter().map(|(_, line)| (line.line_no, line.message)).collect()
        };
        let expected = ["one", "t wo", "three", "three", "five", "six"];
        let expected: Vec<_> = (1..).zip(expected.map(str::to_owned)).collect();
        assert_eq!(lines().await, expected);
        for _ in 0..3 {
            append(node, &vec!["x"; 400]).await;
        }
        let full = lines().await;
        assert_eq!(full.len(), 1_000, "a page");
        let rest = db.store.log(id, Some((claim.no, 1_000)), 10).await.unwrap().items;
        assert_eq!(rest.len(), 1, "one line says that the log is full");
        assert!(rest[0].1.message.contains("full"), "{rest:?}");
        db.settle(node, &claim, completed()).await;
        assert_eq!(append(node, &["too late"]).await, [false]);
    }

    pgbouncer async fn log_lines_are_kept_by_claim_page_by_page_and_go_with_the_history(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let line = |line_no: u32, message: &str| {
            let logged_at = lineclear::model::Micros::new(1_700_000_000_000_000 + i64::from(line_no)).unwrap();
            let line = LogLine { line_no, logged_at, level: "INFO".to_owned(), target: "app".to_owned(), message: message.to_owned() };
            (claim.reference(), line)
        };
        db.store.write_log(vec![line(1, "one"), line(2, "t\0wo"), line(3, "2 dropped")]).await.unwrap();
        db.store.write_log(vec![line(3, "7 dropped")]).await.unwrap();
        db.settle(node, &claim, failed("x")).await;
        db.store.write_log(vec![line(4, "too late")]).await.unwrap();
        db.let_later_come().await;
        let again = db.take_one(node).await;
        db.store.write_log(vec![(again.reference(), line(1, "again").1)]).await.unwrap();

        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = db.store.log(id, after, 2).await.unwrap();
            seen.extend(page.items.into_iter().map(|(claim_no, line)| (claim_no, line.line_no, line.message)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected = [(1, 1, "one"), (1, 2, "t wo"), (1, 3, "7 dropped"), (2, 1, "again")];
        assert_eq!(seen, expected.map(|(claim_no, line_no, message)| (claim_no, line_no, message.to_owned())));

        db.settle(node, &again, completed()).await;
        db.age("execution", "finished_at", DAYS_31).await;
        db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(db.count("execution_log").await, 0);
    }

    // The page of a job showed the first lines: none of the claim that ran, if an earlier one had logged much.
    pgbouncer async fn the_last_lines_of_a_log_are_those_of_the_newest_claim(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let lines = |claim: &Claim, count: u32| {
            let line = |line_no| LogLine {
                line_no,
                logged_at: lineclear::model::Micros::EPOCH,
                level: "INFO".to_owned(),
                target: "app".to_owned(),
                message: format!("{}.{line_no}", claim.no),
            };
            (1..=count).map(|line_no| (claim.reference(), line(line_no))).collect::<Vec<_>>()
        };
        let last = async |most: u32| {
            let last = db.store.last_log(id, most).await.unwrap();
            (last.items.into_iter().map(|(_, line)| line.message).collect::<Vec<_>>(), last.is_all)
        };
        assert_eq!(last(5).await, (Vec::new(), true));
        let first = db.take_one(node).await;
        db.store.write_log(lines(&first, 12)).await.unwrap();
        db.settle(node, &first, failed("no")).await;
        db.let_later_come().await;
        let second = db.take_one(node).await;
        db.store.write_log(lines(&second, 3)).await.unwrap();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(last(5).await, (words(&["1.11", "1.12", "2.1", "2.2", "2.3"]), false));
        assert_eq!(last(2).await, (words(&["2.2", "2.3"]), false));
        assert_eq!((last(14).await.1, last(15).await.1), (false, true));
        assert_eq!(last(15).await.0.len(), 15);
    }

    async fn log_lines_of_a_dead_letter_go_with_it(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let line = LogLine {
            line_no: 1,
            logged_at: lineclear::model::Micros::EPOCH,
            level: "INFO".to_owned(),
            target: "app".to_owned(),
            message: "x".repeat(10_000),
        };
        db.store.write_log(vec![(claim.reference(), line)]).await.unwrap();
        let kept = db.store.log(claim.job, None, 10).await.unwrap().items;
        assert_eq!(kept[0].1.message.len(), lineclear::store::LOG_LINE_BYTES_MAX, "an overlong line is cut");
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "y"))).await;
        let letter = db.store.dead_letters(None, None, 10).await.unwrap().items[0].id;
        db.store.acknowledge(vec![letter], "ann", None).await.unwrap();
        db.age("dead_letter", "resolved_at", DAYS_31).await;
        db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(db.count("execution_log").await, 0);
    }
}
