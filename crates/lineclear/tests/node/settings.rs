//! Settings that operators change while nodes run.

use std::collections::BTreeMap;
use std::time::Duration;

use lineclear::store::{JobId, Setting};
use lineclear::{Lineclear, NodeOptions};

use crate::kit::{Place, quick, until};

fn often() -> NodeOptions {
    let quickly = Duration::from_millis(50);
    NodeOptions { heartbeat: quickly, clean_interval: quickly, ..quick() }
}

on_each_store! {
    async fn other_nodes_obey_with_their_next_heartbeat(place) {
        let one = Lineclear::builder().store(place.url.as_str()).options(often()).kind("nothing", async || ()).start().await.unwrap();
        let two = Lineclear::builder().store(place.url.as_str()).options(often()).start().await.unwrap();
        let job = one.enqueue("nothing", &()).await.unwrap().id;
        one.client().wait(job, Duration::from_secs(30)).await.unwrap();
        let minute = Duration::from_secs(60);
        let change = |value| BTreeMap::from([(Setting::RetentionCompleted, value)]);
        one.client().change_settings(change(Some(minute)), None, "ann").await.unwrap();
        assert_eq!(one.client().retention().completed, minute, "this one at once");
        until("the other one, too", async || two.client().retention().completed == minute).await;

        // And cleaning obeys: the job is older than that now, and younger than what the nodes were started with.
        assert!(exists(&one, job).await);
        let hour = if place.url.starts_with("postgres") { "interval '1 hour'" } else { "3600000000" };
        place.sql(&format!("update {{t}}execution set finished_at = finished_at - {hour}")).await;
        until("it is cleaned", async || !exists(&one, job).await).await;

        two.client().change_settings(change(None), None, "ann").await.unwrap();
        until("it is as before", async || one.client().retention().completed == NodeOptions::default().retention.completed).await;
        let third = Lineclear::builder().store(place.url.as_str()).options(often()).start().await.unwrap();
        one.client().change_settings(change(Some(2 * minute)), None, "ann").await.unwrap();
        until("one that came later, too", async || third.client().retention().completed == 2 * minute).await;
        for node in [one, two, third] {
            node.stop().await;
        }
    }
}

async fn exists(node: &lineclear::Node, job: JobId) -> bool {
    node.store().job(job).await.unwrap().is_some()
}
