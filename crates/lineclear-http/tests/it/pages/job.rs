//! The page of a job with a long history shows the newest part.

use serde_json::json;

use crate::kit::{Answer, Served};

async fn page(served: &Served, path: &str) -> Answer {
    served.send("GET", path, &[("Accept", "text/html")], b"").await
}

/// A job that died, was revived, and died again.
async fn died_twice(served: &Served) -> String {
    let made = served.post("/api/v1/jobs", &json!({"kind": "broken", "input": "no"}).to_string()).await;
    let job = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{job}");
    served.until(&path, |job| job["state"] == "dead").await;
    assert_eq!(served.post(&format!("{path}/retry"), "").await.status, 200);
    served.until(&path, |job| job["state"] == "dead" && job["claim_no"] == 2).await;
    job
}

/// The part of a page that is about a claim.
fn claim(body: &str, number: u32) -> &str {
    let start =
        body.find(&format!("data-key=\"claim-{number}\"")).unwrap_or_else(|| panic!("{number}: {body}"));
    body[start..].split("</details>").next().unwrap()
}

async fn lines(served: &Served, job: &str, claim: u32, count: u32) {
    served
        .sql(&format!(
            "insert into {{t}}execution_log (job_id, claim_no, line_no, logged_at, level, target, message)
             with recursive s (n) as (select 1 union all select n + 1 from s where n < {count})
             select job_id, {claim}, n, finished_at, 'INFO', 'app', 'line {claim}.' || n || '.'
             from   s, {{t}}execution where job_id = {job} and claim_no = {claim}"
        ))
        .await;
}

async fn a_job_shows_the_newest_lines_of_its_log_in_their_order(served: &Served) {
    let job = died_twice(served).await;
    lines(served, &job, 1, 600).await;
    let all = page(served, &format!("/jobs/{job}")).await.body;
    assert!(
        all.contains("line 1.600.") && all.contains("line 1.101.") && !all.contains("line 1.100."),
        "{all}"
    );
    lines(served, &job, 2, 20).await;
    let shown = page(served, &format!("/jobs/{job}")).await.body;
    let newest = claim(&shown, 2);
    let places: Vec<_> = (1..=20).map(|n| newest.find(&format!("line 2.{n}."))).collect();
    assert!(places[0].is_some() && places.is_sorted(), "{newest}");
    let older = claim(&shown, 1);
    assert!(older.contains("line 1.121.") && !older.contains("line 1.120."), "{older}");
    assert!(older.find("line 1.121.") < older.find("line 1.600."), "{older}");
    assert!(shown.contains("The newest 500 lines. All lines: <code>lineclear job logs"), "{shown}");
    served.sql("delete from {t}execution_log where claim_no = 1").await;
    assert!(!page(served, &format!("/jobs/{job}")).await.body.contains("The newest"), "that is all");
}

async fn a_job_with_many_claims_shows_the_last_ones_and_their_nodes(served: &Served) {
    let job = died_twice(served).await;
    let node = served.get("/api/v1/nodes").await.json()["items"][0]["name"].as_str().unwrap().to_owned();
    let shown = page(served, &format!("/jobs/{job}")).await.body;
    for number in [1, 2] {
        assert!(claim(&shown, number).contains(&format!(" claim {number} on {node} ")), "{shown}");
    }
    served
        .sql(&format!(
            "insert into {{t}}execution (job_id, claim_no, final, outcome, origin, kind, node, created_at, due_at, finished_at)
             with recursive s (n) as (select 3 union all select n + 1 from s where n < 1200)
             select job_id, n, final, outcome, origin, kind, 987654, created_at, due_at, finished_at
             from   s, {{t}}execution where job_id = {job} and claim_no = 2"
        ))
        .await;
    let shown = page(served, &format!("/jobs/{job}")).await.body;
    assert!(!claim(&shown, 1_200).contains(" on "), "the node has no name any more: {shown}");
    assert!(shown.contains("data-key=\"claim-201\"") && !shown.contains("data-key=\"claim-200\""), "{shown}");
    assert!(
        shown.contains("The newest 1\u{202f}000 executions.") && shown.contains("earlier claims"),
        "{shown}"
    );
    let detail = served.get(&format!("/api/v1/jobs/{job}")).await.json();
    let executions = detail["executions"].as_array().unwrap();
    let ends = (executions.len(), &executions[0]["claim_no"], &executions[999]["claim_no"]);
    assert_eq!(ends, (1_000, &json!(201), &json!(1_200)));
    let first = served.get(&format!("/api/v1/jobs/{job}/executions?limit=1")).await.json();
    assert_eq!(first["items"][0]["claim_no"], 1, "the API returns all of them in pages");
}

on_each_store! {
    a_job_shows_the_newest_lines_of_its_log_in_their_order
    a_job_with_many_claims_shows_the_last_ones_and_their_nodes
}
