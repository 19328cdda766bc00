//! Pull workers whose network, server or process fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear::model::{ExecutionOutcome, JobState};
use lineclear_testkit::{HttpCall, HttpEndpoint, HttpReply, Program, Proxy};
use lineclear_worker::{Cancel, Ctx, Done, HandlerError, Input, State, Worker};
use serde_json::json;

use crate::kit::{Calls, LONG, Pulling, Served, example, outcomes, until};

/// Passes calls on to a server, and loses the first two responses of each path.
async fn forgetful(server: String) -> HttpEndpoint {
    let http = reqwest::Client::new();
    let counts: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    HttpEndpoint::start(move |call: HttpCall| {
        let (http, url, counts) = (http.clone(), format!("{server}{}", call.path), counts.clone());
        async move {
            let is_delete = call.path.starts_with("/api/v1/workers/");
            let request = if is_delete { http.delete(url) } else { http.post(url) };
            let request = request.header("content-type", "application/json").body(call.body);
            let response = request.send().await.expect("the server answers");
            let (status, body) = (response.status().as_u16(), response.text().await.unwrap_or_default());
            let before = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(call.path).or_default();
                *count += 1;
                *count
            };
            if before <= 2 { HttpReply::HangUp } else { HttpReply::new(status, body) }
        }
    })
    .await
    .unwrap()
}

on_each_store! {
    async fn answers_that_are_lost_in_every_phase_lose_no_job_and_double_none(place) {
        async fn work(ctx: Ctx, Input(n): Input<u32>, charged: State<Calls>) -> Result<Done<u32>, HandlerError> {
            ctx.progress(0.5, "half");
            ctx.step("charge", async { Ok(charged.add()) }).await?;
            // Long enough for a renewal.
            tokio::time::sleep(Duration::from_millis(if n == 0 { 4_000 } else { 10 })).await;
            Ok(Done(n))
        }
        let served = Served::start(place, Duration::from_secs(9)).await;
        let endpoint = forgetful(served.url()).await;
        let charged = Calls::default();
        let worker = Worker::builder().kind("work", work).state(charged.clone()).build().unwrap();
        let mut jobs = Vec::new();
        for n in 0..20 {
            jobs.push((n, served.enqueue("work", n).await));
        }
        let worker = Pulling::start(worker.pull(format!("http://{}", endpoint.address()), None).slots(5));
        for (n, job) in jobs {
            let detail = served.until(job, JobState::Completed).await;
            assert_eq!(outcomes(&detail), [ExecutionOutcome::Completed], "{detail:?}");
            assert_eq!(detail.executions[0].output, Some(n.to_string()));
        }
        assert_eq!(charged.count(), 20);
        worker.stop().await.unwrap();
        served.stop().await;
    }

    async fn a_worker_whose_server_is_gone_stops_its_handler_before_another_worker_begins(place) {
        type Events = Arc<Mutex<Vec<&'static str>>>;
        async fn first(cancel: Cancel, events: State<Events>) -> Result<(), HandlerError> {
            events.lock().unwrap().push("first began");
            cancel.requested().await;
            events.lock().unwrap().push("first was told to stop");
            Err("told to stop".into())
        }
        async fn second(events: State<Events>) -> Done<&'static str> {
            events.lock().unwrap().push("second began");
            Done("second")
        }
        let served = Served::start(place, Duration::from_secs(8)).await;
        let proxy = Proxy::to(&served.address.to_string()).await.unwrap();
        let events = Events::default();
        let worker = Worker::builder().kind("work", first).state(events.clone()).build().unwrap();
        let lost = Pulling::start(worker.pull(format!("http://{}", proxy.address()), None));
        let job = served.enqueue("work", ()).await;
        until("it runs", async || !events.lock().unwrap().is_empty()).await;
        proxy.cut().await;
        let worker = Worker::builder().kind("work", second).state(events.clone()).build().unwrap();
        let other = Pulling::start(worker.pull(served.url(), None));
        let detail = served.until(job, JobState::Completed).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
        assert_eq!(detail.executions[1].output.as_deref(), Some(r#""second""#));
        assert_eq!(*events.lock().unwrap(), ["first began", "first was told to stop", "second began"]);
        proxy.heal();
        other.stop().await.unwrap();
        // The first worker is back, and works.
        let next = served.enqueue("work", ()).await;
        until("it runs", async || events.lock().unwrap().len() == 4).await;
        served.node.store().cancel(next).await.unwrap();
        served.until(next, JobState::Cancelled).await;
        assert_eq!(outcomes(&served.job(job).await).len(), 2, "nothing came late");
        lost.stop().await.unwrap();
        served.stop().await;
    }

    async fn a_server_that_restarts_costs_no_job(place) {
        async fn work(Input(n): Input<u32>) -> Done<u32> {
            tokio::time::sleep(Duration::from_millis(2_000)).await;
            Done(n)
        }
        let served = Served::start(place, Duration::from_secs(20)).await;
        let (address, url) = (served.address, served.url());
        let worker = Worker::builder().kind("work", work).build().unwrap();
        let worker = Pulling::start(worker.pull(url, None).slots(3));
        let mut jobs = Vec::new();
        for n in 0..6 {
            jobs.push(served.enqueue("work", n).await);
        }
        served.until(jobs[0], JobState::Running).await;
        served.stop().await;
        let served = Served::start_at(place, Duration::from_secs(20), address, |builder| {
            builder.submit_to("pull", ["work"])
        }).await;
        for job in jobs {
            let detail = served.until(job, JobState::Completed).await;
            let ran = outcomes(&detail);
            assert!(ran.iter().all(|word| [ExecutionOutcome::Completed, ExecutionOutcome::Released].contains(word)), "{ran:?}");
            assert_eq!(ran.iter().filter(|word| **word == ExecutionOutcome::Completed).count(), 1);
        }
        worker.stop().await.unwrap();
        served.stop().await;
    }

    async fn a_worker_that_is_killed_in_mid_job_is_replaced(place) {
        let served = Served::start(place, Duration::from_secs(3)).await;
        let start = || Program::at(example("pull")).env("LINECLEAR_URL", served.url()).start().unwrap();
        let mut victim = start();
        let job = served.enqueue("thumbnail", json!({"name": "cat", "millis": 2_000})).await;
        victim.wait_for_line(&format!("job {job} claim 1 started"), LONG).await.unwrap();
        victim.kill().unwrap();
        let mut other = start();
        let detail = served.until(job, JobState::Completed).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
        assert_eq!(detail.executions[1].output.as_deref(), Some(r#""cat.small""#));
        other.terminate().unwrap();
        assert!(other.wait_for_exit(LONG).await.unwrap().success());
        assert!(other.stdout().iter().any(|line| line == "the worker has stopped"));
        served.stop().await;
    }

    async fn a_worker_that_is_paused_past_its_lease_changes_nothing_when_it_goes_on(place) {
        let served = Served::start(place, Duration::from_secs(3)).await;
        let start = || Program::at(example("pull")).env("LINECLEAR_URL", served.url()).start().unwrap();
        let mut paused = start();
        let job = served.enqueue("thumbnail", json!({"name": "cat", "millis": 1_000})).await;
        paused.wait_for_line(&format!("job {job} claim 1 started"), LONG).await.unwrap();
        paused.pause().await.unwrap();
        let mut other = start();
        served.until(job, JobState::Completed).await;
        assert!(other.stdout().iter().any(|line| line.contains("claim 2 ended")));
        other.terminate().unwrap();
        other.wait_for_exit(LONG).await.unwrap();
        paused.resume().unwrap();
        // It goes on with other jobs.
        let next = served.enqueue("thumbnail", json!({"name": "dog"})).await;
        let detail = served.until(next, JobState::Completed).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::Completed]);
        let detail = served.job(job).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::Lost, ExecutionOutcome::Completed]);
        assert_eq!(detail.executions[1].claim_no, 2);
        paused.terminate().unwrap();
        assert!(paused.wait_for_exit(LONG).await.unwrap().success());
        served.stop().await;
    }
}
