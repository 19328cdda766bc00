//! stats: they equal a count of history, however often and by however many nodes they are rolled up.

use lineclear::model::{Failure, Micros, Outcome};
use lineclear::store::{Dispatch, NewJob, Retention, Stats, StatsBy, main_route};

use crate::kit::{TestDb, completed, daily, failed, job, name};

const EVER: Micros = Micros::EPOCH;

fn far() -> Micros {
    EVER.offset(4_000_000_000_000_000)
}

async fn figures(db: &TestDb, by: StatsBy) -> Stats {
    db.store.stats(EVER, far(), 86_400, by).await.unwrap()
}

async fn total(db: &TestDb) -> u64 {
    figures(db, StatsBy::None).await.items.iter().map(|stat| stat.claims).sum()
}

/// Makes a history: `count` jobs completed, one failed and one died.
async fn history(db: &TestDb, count: usize) {
    let node = db.node("a").await;
    db.store.enqueue_many(vec![job(); count + 2]).await.unwrap();
    let claims = db.take(node, u32::try_from(count + 2).unwrap()).await;
    for claim in &claims[2..] {
        db.settle(node, claim, completed()).await;
    }
    db.settle(node, &claims[0], failed("x")).await;
    db.settle(node, &claims[1], Outcome::DeadLetter(Failure::new("x", "y"))).await;
}

conformance! {
    async fn a_roll_up_says_what_a_count_of_history_says(db) {
        history(db, 5).await;
        assert_eq!(total(db).await, 7, "the open minute is counted");
        db.age("execution", "finished_at", 600).await;
        db.age("execution", "claimed_at", 605).await;
        db.age("execution", "started_at", 603).await;
        db.age("execution", "due_at", 635).await;
        db.store.roll_up().await.unwrap();
        assert!(db.count("stat_minute").await >= 2);
        let stats = figures(db, StatsBy::Outcome).await;
        let count = |word: &str| -> u64 {
            stats.items.iter().filter(|stat| stat.word.as_deref() == Some(word)).map(|stat| stat.claims).sum()
        };
        assert_eq!((count("completed"), count("failed")), (5, 2));
        for _ in 0..3 {
            db.store.roll_up().await.unwrap();
        }
        assert_eq!(total(db).await, 7, "again changes nothing");
        let direct: u64 = db.sql("select count(*) from {t}execution").await[0][0].clone().unwrap().parse().unwrap();
        assert_eq!(total(db).await, direct);
        let sum = |of: fn(&lineclear::store::Stat) -> u64| -> u64 { stats.items.iter().map(of).sum() };
        assert!(sum(|stat| stat.wait_ms) >= 7 * 29_000, "each waited for half a minute: {stats:?}");
        assert!(sum(|stat| stat.run_ms) >= 7 * 3_000 && stats.items.iter().all(|stat| stat.run_ms_max < 60_000), "{stats:?}");
    }

    async fn totals_are_the_same_figures_and_tell_how_long_claims_ran(db) {
        history(db, 5).await;
        // In whole days longer steps are read, and minutes otherwise: they say the same.
        let totals = async || {
            let end = EVER.offset(40_000 * 86_400_000_000);
            let long = db.store.totals(EVER, end, 86_400).await.unwrap();
            for minutes in [1, 20] {
                let others = db.store.totals(EVER.offset(minutes * 60_000_000), end, 86_400).await.unwrap();
                assert_eq!(long, others, "from minute {minutes} on");
            }
            long
        };
        let count = |all: &[lineclear::store::Total]| -> u64 { all.iter().map(|total| total.claims).sum() };
        assert_eq!(count(&totals().await), 7, "the open minute is counted");
        db.age("execution", "finished_at", 600).await;
        db.age("execution", "claimed_at", 605).await;
        db.age("execution", "started_at", 603).await;
        db.age("execution", "due_at", 635).await;
        let live = totals().await;
        assert!(live.iter().all(|total| total.run_from_ms == Some(2_000) && total.run_ms_max >= 2_900), "they ran three seconds: {live:?}");
        for _ in 0..3 {
            db.store.roll_up().await.unwrap();
        }
        let long = db.sql("select sum(claims) from {t}stat_total group by step_s").await;
        assert_eq!(long, vec![vec![Some("7".to_owned())]; 3]);
        db.sql("delete from {t}execution").await;
        let rolled = totals().await;
        assert_eq!(count(&rolled), 7, "again changes nothing, and history is not needed any more");
        assert!(rolled.iter().all(|total| total.run_from_ms == Some(2_000)), "{rolled:?}");
        let stats = figures(db, StatsBy::None).await;
        let sum = |all: &mut dyn Iterator<Item = u64>| -> u64 { all.sum() };
        assert_eq!(sum(&mut rolled.iter().map(|total| total.run_ms)), sum(&mut stats.items.iter().map(|stat| stat.run_ms)));
        db.age("stat_total", "at", 91 * 86_400).await;
        db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!(db.count("stat_total").await, 0);
        assert!(db.store.totals(EVER, far(), 61).await.is_err());
    }

    pgbouncer async fn what_was_cancelled_while_it_waited_did_not_run_for_no_time(db) {
        let waits = db.enqueue(job()).await;
        db.store.cancel(waits).await.unwrap();
        let steps = async || -> Vec<Option<u64>> {
            db.store.totals(EVER, far(), 86_400).await.unwrap().iter().map(|total| total.run_from_ms).collect()
        };
        assert_eq!(steps().await, [None]);
        db.age("execution", "finished_at", 600).await;
        db.store.roll_up().await.unwrap();
        db.sql("delete from {t}execution").await;
        assert_eq!(steps().await, [None], "nor when it is rolled up");
    }

    pgbouncer async fn two_that_roll_up_at_once_count_once(db) {
        history(db, 20).await;
        db.age("execution", "finished_at", 300).await;
        let other = db.another_store().await;
        let (one, two) = tokio::join!(db.store.roll_up(), other.roll_up());
        one.unwrap();
        two.unwrap();
        assert_eq!((total(db).await, db.count("execution").await), (22, 22));
        let rolled: u64 = db.sql("select sum(claims) from {t}stat_minute").await[0][0].clone().unwrap().parse().unwrap();
        assert_eq!(rolled, 22);
    }

    async fn what_is_committed_after_its_minute_was_rolled_up_is_not_lost(db) {
        history(db, 3).await;
        // A minute and a half ago: closed, and rolled up.
        db.age("execution", "finished_at", 90).await;
        db.store.roll_up().await.unwrap();
        assert_eq!(total(db).await, 5);
        history(db, 2).await;
        let late = "update {t}execution set finished_at = (select min(finished_at) from {t}execution)";
        db.sql(late).await;
        db.store.roll_up().await.unwrap();
        assert_eq!(total(db).await, 9);
        let rolled: u64 = db.sql("select sum(claims) from {t}stat_minute").await[0][0].clone().unwrap().parse().unwrap();
        assert_eq!(rolled, 9);
    }

    async fn figures_outlive_the_history_they_were_made_of(db) {
        history(db, 3).await;
        db.age("execution", "finished_at", 90).await;
        db.store.roll_up().await.unwrap();
        db.sql("delete from {t}execution where final").await;
        db.store.roll_up().await.unwrap();
        assert_eq!(total(db).await, 5);
        db.age("stat_minute", "minute", 91 * 86_400).await;
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().stats >= 2);
        assert_eq!(db.count("stat_minute").await, 0);
    }

    async fn figures_are_told_apart_by_kind_group_and_manifest(db) {
        db.group("etl", Default::default()).await;
        db.declare(daily("m")).await;
        db.store.trigger(name("m"), Default::default()).await.unwrap();
        db.enqueue(NewJob { group: Some(name("etl")), ..job() }).await;
        let node = db.node("a").await;
        for claim in db.take(node, 2).await {
            db.settle(node, &claim, completed()).await;
        }
        for rolled in [false, true] {
            if rolled {
                db.age("execution", "finished_at", 300).await;
                db.store.roll_up().await.unwrap();
            }
            for (by, words) in [
                (StatsBy::None, vec![(None, 2)]),
                (StatsBy::Kind, vec![(Some("work"), 2)]),
                (StatsBy::Group, vec![(None, 1), (Some("etl"), 1)]),
                (StatsBy::Manifest, vec![(None, 1), (Some("m"), 1)]),
            ] {
                let stats = figures(db, by).await;
                let told: Vec<_> = stats.items.iter().map(|stat| (stat.word.as_deref(), stat.claims)).collect();
                assert_eq!(told, words, "{by:?}");
            }
        }
    }

    async fn how_things_stand_is_counted(db) {
        let node = db.node("a").await;
        let later = NewJob { due_at: Some(far()), ..job() };
        db.store.enqueue_many(vec![job(), job(), job(), job(), later]).await.unwrap();
        let claims = db.take(node, 2).await;
        db.settle(node, &claims[0], Outcome::DeadLetter(Failure::new("x", "y"))).await;
        db.age("work_queue", "due_at", 60).await;
        let now = db.store.stat_now().await.unwrap();
        assert_eq!((now.waiting, now.due, now.running, now.dead_letters, now.nodes), (3, 2, 1, 1, 1));
        let oldest = now.now.get() - now.oldest_due_at.unwrap().get();
        assert!((60_000_000..3_600_000_000).contains(&oldest), "{oldest}");
    }

    async fn what_is_handed_over_and_not_claimed_waits(db) {
        db.node("a").await;
        db.store.enqueue_many(vec![job(), job()]).await.unwrap();
        db.store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap();
        db.age("background_job", "was_due_at", 3600).await;
        let now = db.store.stat_now().await.unwrap();
        assert_eq!((now.waiting, now.due, now.running), (2, 2, 0));
        assert!(now.now.get() - now.oldest_due_at.unwrap().get() >= 3_600_000_000);
    }

    async fn the_oldest_is_found_on_a_route_behind_a_long_line(db) {
        db.store.enqueue_many((0..1_100).map(|_| job()).collect()).await.unwrap();
        db.enqueue(NewJob { route: name("zoo"), due_at: Some(EVER), ..job() }).await;
        let now = db.store.stat_now().await.unwrap();
        assert_eq!(now.oldest_due_at, Some(EVER));
    }
}
