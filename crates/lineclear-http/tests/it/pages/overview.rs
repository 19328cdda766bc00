//! The overview, and live pages.

use serde_json::json;

use crate::kit::{Answer, Served};
use crate::pages::{HTML, enqueue, page};

/// A section of a page, from its heading to its end.
fn section<'a>(page: &'a Answer, heading: &str) -> &'a str {
    let from =
        page.body.find(&format!("<h2>{heading}</h2>")).unwrap_or_else(|| panic!("no {heading}: {page:?}"));
    page.body[from..].split("</section>").next().unwrap()
}

async fn running_and_upcoming_jobs_are_shown(served: &Served) {
    let runs = enqueue(served, json!({"kind": "endless"})).await;
    served.until(&format!("/api/v1/jobs/{runs}"), |job| job["state"] == "running").await;
    for (key, every) in [("soon", "10m"), ("far-off", "9000h")] {
        let order = json!({"kind": "add", "input": [1, 1], "schedule": {"every": every}});
        assert!(served.put(&format!("/api/v1/manifests/{key}"), &order.to_string()).await.status < 300);
    }
    let shown = page(served, "/").await;
    let now = section(&shown, "Running now");
    assert!(now.contains(&format!("href=\"/jobs/{runs}\"")) && now.contains("endless"), "{now}");
    let next = section(&shown, "Next 60 minutes");
    assert!(next.contains("manifest:soon") && !next.contains("far-off"), "{next}");
    assert!(!shown.body.contains("First steps"), "{}", shown.body);
    served.post(&format!("/api/v1/jobs/{runs}/cancel"), "").await;
}

async fn ended_jobs_are_in_the_charts_and_in_their_table(served: &Served) {
    for _ in 0..3 {
        let job = enqueue(served, json!({"kind": "add", "input": [1, 1]})).await;
        served.until(&format!("/api/v1/jobs/{job}"), |job| job["state"] == "completed").await;
    }
    let dead = enqueue(served, json!({"kind": "broken", "input": "no printer"})).await;
    served.until(&format!("/api/v1/jobs/{dead}"), |job| job["state"] == "dead").await;
    let shown = page(served, "/").await;
    assert!(section(&shown, "Throughput").contains("4 ended"), "{shown:?}");
    assert!(section(&shown, "Failures").contains("<strong>25.0 %</strong>"), "{shown:?}");
    assert!(section(&shown, "Latency").contains("<strong>p95 "), "{shown:?}");
    let table = shown.body.split("Show as a table").nth(1).unwrap();
    let table = table.split("</table>").next().unwrap();
    // They may have ended in two minutes.
    let ended = table.split("<tr>").skip(2).map(|row| {
        let cell = row.split("<td class=\"number\">").nth(1).unwrap().split('<').next().unwrap();
        cell.parse::<u32>().unwrap()
    });
    assert_eq!(ended.sum::<u32>(), 4, "{table}");
    let attention = section(&shown, "Needs attention");
    assert!(attention.contains("1 dead") && attention.contains("no printer"), "{attention}");
    for range in ["6h", "24h", "7d"] {
        assert!(page(served, &format!("/?range={range}")).await.body.contains("4 ended"), "{range}");
    }
}

/// First steps are shown on an empty database only; later, the charts stay, even if they are empty.
async fn first_steps_disappear_after_the_first_job(served: &Served) {
    assert!(page(served, "/").await.body.contains("First steps"));
    let job = enqueue(served, json!({"kind": "add", "input": [1, 1]})).await;
    served.until(&format!("/api/v1/jobs/{job}"), |job| job["state"] == "completed").await;
    // Too long ago for the charts.
    let month = if served.url.starts_with("postgres") { "interval '30 days'" } else { "2592000000000" };
    served.sql(&format!("update {{t}}execution set finished_at = finished_at - {month}")).await;
    let shown = page(served, "/").await.body;
    assert!(!shown.contains("First steps") && shown.contains("Throughput"), "{shown}");
}

async fn only_pages_that_change_by_themselves_are_watched(served: &Served) {
    let job = enqueue(served, json!({"kind": "add", "in_ms": 600_000})).await;
    for asks in [
        "/samples".to_owned(),
        "/bulk-operations/new?action=cancel%26q=id:%3E0".to_owned(),
        "/enqueue".to_owned(),
        format!("/jobs/{job}/cancel"),
        "/nodes/1/drain".to_owned(),
        "/locks/x/break".to_owned(),
        "/api/v1/jobs".to_owned(),
        "/live".to_owned(),
    ] {
        let answer = served.send("GET", &format!("/live?page={asks}"), &[HTML], b"").await;
        assert_eq!(answer.status, 400, "{asks}: {answer:?}");
    }
}

on_each_store! {
    running_and_upcoming_jobs_are_shown
    ended_jobs_are_in_the_charts_and_in_their_table
    first_steps_disappear_after_the_first_job
    only_pages_that_change_by_themselves_are_watched
}
