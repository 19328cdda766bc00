//! What nodes do for each other: poll, reclaim the jobs of vanished workers, park kinds that they do not know.

use std::time::Duration;

use lineclear::model::{GroupSpec, JobState, Outcome, Verdict};
use lineclear::store::{
    Charge, Dispatch, Fate, FencedWrite, Limits, NewJob, PlanRules, Planned, RouteWork, Settlement,
    main_route,
};

use crate::kit::{completed, daily, job, lease, name};

conformance! {
    async fn a_look_says_what_there_is_to_do_and_changes_nothing(db) {
        let routes = || vec![main_route(), name("other")];
        let look = db.store.poll_work(routes(), 10).await.unwrap();
        assert!(!look.due && !look.lease_over, "{look:?}");
        let nothing = |route| RouteWork { route, waits: false, handed: 0 };
        assert_eq!(look.routes, [nothing(main_route()), nothing(name("other"))]);

        db.store.enqueue_many(vec![job(); 3]).await.unwrap();
        let node = db.node("a").await;
        db.take(node, 1).await;
        db.store.dispatch(Dispatch::new(main_route(), 1)).await.unwrap();
        let look = db.store.poll_work(routes(), 10).await.unwrap();
        assert_eq!(look.routes[0], RouteWork { route: main_route(), waits: true, handed: 1 });
        assert!(!look.due && !look.lease_over, "{look:?}");

        db.let_leases_end().await;
        let soon = db.store.next_plan().await.unwrap().now.offset(3_600_000_000);
        db.enqueue(NewJob { due_at: Some(soon), ..job() }).await;
        db.age("work_queue", "due_at", 7200).await;
        let look = db.store.poll_work(routes(), 10).await.unwrap();
        assert!(look.due && look.lease_over, "{look:?}");
        assert!(db.store.next_plan().await.unwrap().lease_over);
    }

    pgbouncer async fn a_gated_job_is_seen_too(db) {
        db.group("etl", GroupSpec { limit: Some(1), ..GroupSpec::default() }).await;
        db.enqueue(NewJob { group: Some(name("etl")), ..job() }).await;
        let look = db.store.poll_work(vec![main_route()], 10).await.unwrap();
        assert!(look.routes[0].waits);
    }

    pgbouncer async fn a_claim_that_cannot_be_taken_back_does_not_hold_up_the_others(db) {
        let jobs: Vec<_> = db.store.enqueue_many(vec![job(); 5]).await.unwrap().iter().map(|e| e.id).collect();
        let node = db.node("a").await;
        assert_eq!(db.take(node, 5).await.len(), 5);
        // A job in two places, as after a restore that went wrong: it cannot go back to the queue.
        let twice = format!("where id = {}", jobs[2]);
        db.sql(&format!(
            "insert into {{t}}work_queue (id, origin, fresh, kind, route, priority, due_at, phase, rank, gated, created_at)
             select id, origin, {}, kind, 'elsewhere', priority, due_at, 'ready', rank, gated, created_at
             from {{t}}background_job {twice}", db.falsehood())).await;
        db.let_leases_end().await;
        // PostgreSQL reports a refusal before it releases row locks: a row may still be locked, and the next call reclaims it.
        let mut back = Vec::new();
        for _ in 0..3 {
            back.extend(db.store.reclaim(10, 3).await.unwrap().iter().map(|lost| lost.claim.job));
        }
        back.sort_unstable();
        assert_eq!(back, [jobs[0], jobs[1], jobs[3], jobs[4]]);
        assert_eq!(db.store.reclaim(10, 3).await.unwrap(), [], "it is left alone for an hour");
        let why = db.sql(&format!("select last_error from {{t}}background_job {twice}")).await;
        assert!(why[0][0].as_deref().is_some_and(|why| why.contains("work_queue")), "{why:?}");
        db.sql(&format!("delete from {{t}}work_queue {twice}")).await;
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 3).await.unwrap().len(), 1, "then it is tried again");
    }

    pgbouncer async fn a_job_that_cannot_be_dispatched_does_not_hold_up_the_others(db) {
        db.group("etl", GroupSpec { limit: Some(2), ..GroupSpec::default() }).await;
        let gated = NewJob { group: Some(name("etl")), ..job() };
        let mut jobs = db.store.enqueue_many(vec![job(); 5]).await.unwrap();
        jobs.extend(db.store.enqueue_many(vec![gated; 2]).await.unwrap());
        // Their next claim number does not fit.
        for bad in [jobs[0].id, jobs[3].id, jobs[5].id] {
            db.sql(&format!("update {{t}}work_queue set claim_no = {} where id = {bad}", db.largest_claim_no())).await;
        }
        let node = db.node("a").await;
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.extend(db.take(node, 10).await.iter().map(|claim| claim.job));
        }
        taken.sort_unstable();
        assert_eq!(taken, [jobs[1].id, jobs[2].id, jobs[4].id, jobs[6].id]);
        assert_eq!(db.take(node, 10).await.len(), 0, "they are set aside");
        assert_eq!(db.count("work_queue where phase = 'later' and last_error is not null").await, 3);
        let ranks = match !db.is_sqlite() {
            true => "select distinct (extract(epoch from due_at) * 1000000)::bigint - rank from {t}work_queue",
            false => "select distinct due_at - rank from work_queue",
        };
        assert_eq!(db.sql(ranks).await, [[Some("0".to_owned())]], "promotion reads them with all jobs of their priority");
        db.sql("update {t}work_queue set claim_no = 0").await;
        db.let_later_come().await;
        assert_eq!(db.take(node, 10).await.len(), 3, "then they are tried again");
    }

    pgbouncer async fn a_worker_that_was_taken_for_dead_and_lives_takes_back_its_charge_once(db) {
        let jobs: Vec<_> = db.store.enqueue_many(vec![job(); 2]).await.unwrap().iter().map(|e| e.id).collect();
        let (paused, other) = (db.node("paused").await, db.node("other").await);
        let claims: Vec<_> = db.take(paused, 2).await.iter().map(|claim| claim.reference()).collect();
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 3).await.unwrap().len(), 2);
        assert_eq!(db.count("work_queue where crashes = 1").await, 2, "no node can tell that it is not dead");
        // One of them runs elsewhere, the other one waits.
        let again = db.take(other, 1).await.remove(0);
        assert_eq!(again.crashes, 1);

        let none = db.store.take_back(other, claims.clone()).await.unwrap();
        assert!(none.iter().all(|(_, charge)| *charge == Charge::None), "another node's: {none:?}");
        let back = db.store.take_back(paused, claims.clone()).await.unwrap();
        assert_eq!(back, claims.iter().map(|claim| (*claim, Charge::TakenBack)).collect::<Vec<_>>());
        assert_eq!(db.count("work_queue where crashes = 0").await, 1);
        assert_eq!(db.count("background_job where crashes = 0").await, 1);
        assert_eq!(db.count("execution where error_type = 'worker_lost'").await, 0);
        assert_eq!(db.count("execution where outcome = 'lost' and error_type = 'worker_late'").await, 2);

        // A crash of another worker is not taken back by repeating it.
        db.sql("update {t}background_job set started_at = claimed_at").await;
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 3).await.unwrap().len(), 1);
        let back = db.store.take_back(paused, claims).await.unwrap();
        assert!(back.iter().all(|(_, charge)| *charge == Charge::None), "{back:?}");
        assert_eq!(db.count(&format!("work_queue where crashes = 1 and id = {}", again.job)).await, 1);
        assert!(jobs.contains(&again.job));
    }

    async fn a_worker_that_comes_back_when_its_job_is_over_changes_nothing(db) {
        db.enqueue(job()).await;
        let (paused, other) = (db.node("paused").await, db.node("other").await);
        let claim = db.take_one(paused).await.reference();
        db.let_leases_end().await;
        db.store.reclaim(10, 3).await.unwrap();
        let again = db.take_one(other).await;
        db.settle(other, &again, completed()).await;
        assert_eq!(db.store.take_back(paused, vec![claim]).await.unwrap(), [(claim, Charge::None)]);
        assert_eq!(db.count("execution where error_type = 'worker_lost'").await, 1);
    }

    async fn a_manifests_last_worker_vanishes_while_its_tick_is_due_and_it_is_not_planned(db) {
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        for crash in 0..3 {
            assert_eq!(db.take_one(node).await.crashes, crash);
            db.sql("update {t}background_job set started_at = claimed_at").await;
            db.let_leases_end().await;
            if crash == 2 {
                db.let_a_tick_come().await;
            }
            let lost = db.store.reclaim(10, 3).await.unwrap();
            assert_eq!(lost[0].fate, if crash < 2 { Fate::Requeued } else { Fate::Buried });
            let Planned::Led { due, .. } = db.store.plan(PlanRules::default()).await.unwrap() else { panic!() };
            assert_eq!(due, 0, "held by its dead letter before its tick was read");
        }
    }

    async fn a_job_far_past_its_time_is_taken_from_a_worker_that_renews(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.sql("update {t}background_job set deadline_at = due_at").await;
        assert_eq!(db.store.reclaim(10, 3).await.unwrap(), []);
        db.age("background_job", "deadline_at", 3600).await;
        assert!(db.store.poll_work(vec![main_route()], 10).await.unwrap().lease_over);
        let lost = db.store.reclaim_except(10, 3, vec![id]).await.unwrap();
        assert_eq!(lost[0].claim, claim.reference(), "also by the node itself: it cannot end it");
        let detail = db.store.job(id).await.unwrap().unwrap();
        assert_eq!(detail.executions[0].error_type.as_deref(), Some("overdue"));
        assert_eq!(db.settle(node, &claim, completed()).await, FencedWrite::Stale);
    }

    pgbouncer async fn a_claim_that_had_not_started_is_not_charged(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        db.take_one(node).await;
        db.let_leases_end().await;
        db.store.reclaim(10, 2).await.unwrap();
        for _ in 0..3 {
            let claim = db.take_one(node).await;
            assert_eq!(claim.crashes, 1);
            db.let_leases_end().await;
            assert_eq!(db.store.reclaim(10, 2).await.unwrap()[0].fate, Fate::Requeued, "it only waited to run alone");
        }
        let claim = db.take_one(node).await;
        assert!(db.store.mark_started(claim.reference()).await.unwrap());
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 2).await.unwrap()[0].fate, Fate::Buried);
        assert!(!db.store.mark_started(claim.reference()).await.unwrap(), "a lost claim does not start");
        assert_eq!(db.state(id).await, Some(JobState::Dead));
    }

    pgbouncer async fn a_claim_that_was_leased_ahead_is_not_charged_until_its_start_is_recorded(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let ahead = Dispatch { ahead: 1, ..Dispatch::new(main_route(), 2) };
        db.store.dispatch_into_lease(ahead.clone(), lease(node)).await.unwrap();
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 1).await.unwrap()[0].fate, Fate::Requeued, "its handler may not have begun");
        let detail = db.store.job(id).await.unwrap().unwrap();
        assert_eq!(detail.executions[0].error_type.as_deref(), Some("not_started"));
        assert_eq!(db.count("execution where started_at is null").await, 1);

        let claim = db.store.dispatch_into_lease(ahead, lease(node)).await.unwrap().remove(0);
        assert_eq!((claim.no, claim.crashes), (2, 0));
        assert!(db.store.mark_started(claim.reference()).await.unwrap());
        db.let_leases_end().await;
        assert_eq!(db.store.reclaim(10, 1).await.unwrap()[0].fate, Fate::Buried);
    }

    pgbouncer async fn a_job_of_an_unknown_kind_is_parked_until_a_node_knows_it(db) {
        let id = db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        let parked = Settlement::new(&claim, Outcome::Released, Verdict::Park);
        db.store.settle(node, vec![parked]).await.unwrap();
        assert_eq!(db.state(id).await, Some(JobState::Parked));
        assert_eq!(db.take(node, 10).await, []);
        assert_eq!(db.store.unpark_kinds(vec![name("play")], 10).await.unwrap(), 0);
        assert_eq!(db.store.unpark_kinds(vec![name("play"), name("work")], 10).await.unwrap(), 1);
        let again = db.take_one(node).await;
        assert_eq!((again.job, again.failures, again.crashes), (id, 0, 0));
    }

    async fn neither_resume_nor_cleaning_wakes_a_job_of_an_unknown_kind(db) {
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        db.store.settle(node, vec![Settlement::new(&claim, Outcome::Released, Verdict::Park)]).await.unwrap();
        db.store.clean(&lineclear::store::Retention::default(), 10).await.unwrap();
        db.store.pause(vec![name("m")]).await.unwrap();
        db.store.resume(vec![name("m")]).await.unwrap();
        assert_eq!(db.state(claim.job).await, Some(JobState::Parked));

        db.store.pause(vec![name("m")]).await.unwrap();
        assert_eq!(db.store.unpark_kinds(vec![name("work")], 10).await.unwrap(), 1);
        assert_eq!(db.state(claim.job).await, Some(JobState::Parked), "for the pause now");
        db.store.resume(vec![name("m")]).await.unwrap();
        assert_eq!(db.take_one(node).await.job, claim.job);
    }

    async fn a_node_with_free_slots_claims_what_a_dispatcher_handed_over(db) {
        let id = db.enqueue(job()).await;
        assert_eq!(db.store.dispatch(Dispatch::new(main_route(), 10)).await.unwrap(), [id]);
        let node = db.node("a").await;
        assert_eq!(db.take_one(node).await.job, id);
    }

    pgbouncer async fn soft_limits_hold_for_one_dispatcher_at_a_time(db) {
        db.group("etl", GroupSpec { limit: Some(2), ..GroupSpec::default() }).await;
        db.group("*", GroupSpec { limit: Some(3), ..GroupSpec::default() }).await;
        db.store.enqueue_many(vec![NewJob { group: Some(name("etl")), ..job() }; 5]).await.unwrap();
        db.store.enqueue_many(vec![job(); 5]).await.unwrap();
        let node = db.node("a").await;
        let mut taken = 0;
        let soft = Dispatch { limits: Limits::Soft, ..Dispatch::new(main_route(), 10) };
        for _ in 0..4 {
            let claims =
                db.store.dispatch_into_lease(soft.clone(), lease(node)).await.unwrap();
            taken += claims.len();
        }
        assert_eq!(taken, 3);
        assert_eq!(db.count("background_job b join {t}manifest_group g on g.id = b.group_id").await, 2);
    }

    pgbouncer async fn when_more_is_due_than_a_pass_takes_every_group_gets_its_share(db) {
        for group in ["big", "small"] {
            db.group(group, GroupSpec::default()).await;
        }
        let of = |group: &str, key: String| lineclear::model::Manifest { group: Some(name(group)), ..daily(&key) };
        for n in 0..40 {
            db.declare(of("big", format!("big{n}"))).await;
        }
        db.declare(of("small", "small".to_owned())).await;
        db.declare(daily("loose")).await;
        db.let_a_tick_come().await;
        // Those of the big group are older.
        db.sql("update {t}manifest set next_due_at = planned_through where key like 'big%'").await;
        let rules = PlanRules { manifests_max: 5, group_share: 5, ..PlanRules::default() };
        let Planned::Led { due, queued, .. } = db.store.plan(rules).await.unwrap() else { panic!() };
        assert!(due < 42 && queued == due, "bounded: {due} due, {queued} queued");
        for key in ["small", "loose"] {
            assert_eq!(db.count(&format!("work_queue w join {{t}}manifest m on m.id = w.manifest_id where m.key = '{key}'")).await, 1, "{key}");
        }
    }

    async fn a_deadline_comes_with_the_first_renewal_of_a_running_node_only(db) {
        db.enqueue(job()).await;
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!(claim.timeout, None::<Duration>);
        db.store.renew(lease(node), vec![claim.reference()]).await.unwrap();
        assert_eq!(db.count("background_job where deadline_at is not null").await, 0);
    }
}
