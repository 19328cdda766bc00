//! The audit: every change leaves a row, written before the change.

use std::collections::BTreeSet;

use lineclear::store::AuditFilter;
use serde_json::{Value, json};

use crate::access::scopes::filled;
use crate::kit::Served;

/// Writes its own row, for successful logins only.
const LOG_IN: &str = "/api/v1/session";

async fn rows(served: &Served) -> Vec<Value> {
    let rows = served.store().audit(&AuditFilter::default(), None, 1000).await.unwrap().items;
    let row = |row: lineclear::store::AuditView| {
        json!({"who": row.entry.who, "action": row.entry.action, "target": row.entry.target, "request": row.entry.request_id,
               "status": row.status, "token": row.entry.token.map(|id| id.0), "details": row.details})
    };
    rows.into_iter().map(row).collect()
}

/// The outcome of enqueued jobs is written a little later.
async fn ended(served: &Served) -> Vec<Value> {
    for _ in 0..200 {
        let rows = rows(served).await;
        if rows.iter().all(|row| !row["status"].is_null()) {
            return rows;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("rows stay without outcome: {:?}", rows(served).await)
}

async fn every_route_that_changes_something_leaves_a_row(served: &Served) {
    let admin = served.token("admin").await;
    let worker = served.token("worker").await;
    let mut actions = BTreeSet::new();
    for (method, path, need) in lineclear_http::routes() {
        if method == "GET" || [LOG_IN, "/login"].contains(&path.as_str()) && method == "POST" {
            continue;
        }
        // The executions of jobs are the record of what workers do.
        let is_workers = need.as_deref().is_some_and(|need| ["worker", "claim"].contains(&need));
        let token = if is_workers { &worker } else { &admin };
        let before = rows(served).await.len();
        // The body is invalid: failed attempts leave a row, too.
        let answer = served.with(token, &method, &filled(&path), "false").await;
        let rows = ended(served).await;
        if is_workers {
            assert_eq!(rows.len(), before, "{method} {path} left a row: {answer:?}");
            continue;
        }
        assert_eq!(rows.len(), before + 1, "{method} {path} left no row of its own: {answer:?}");
        assert_eq!(rows[0]["status"], json!(answer.status), "{method} {path}");
        let target = if path.contains('{') { "999999" } else { "" };
        assert_eq!(rows[0]["target"], target, "{method} {path}");
        assert_eq!(rows[0]["request"], json!(answer.header("x-request-id")), "{method} {path}");
        assert!(rows[0]["who"] == "token:admin" || rows[0]["who"] == "token:worker", "{method} {path}");
        actions.insert(rows[0]["action"].as_str().unwrap().to_owned());
    }
    assert!(
        actions.len() > 14 && actions.contains("create_job") && actions.contains("put_group"),
        "{actions:?}"
    );
    let before = rows(served).await.len();
    for (method, path, _) in lineclear_http::routes().into_iter().filter(|route| route.0 == "GET") {
        if !path.contains("/events") && path != "/live" {
            served.with(&admin, &method, &filled(&path), "").await;
        }
    }
    assert_eq!(rows(served).await.len(), before, "looking is not written down");
}

async fn a_request_without_the_scope_leaves_no_row(served: &Served) {
    let read = served.token("read").await;
    assert_eq!(served.with(&read, "PUT", "/api/v1/groups/etl", r#"{"limit": 1}"#).await.status, 403);
    assert_eq!(served.post("/api/v1/jobs", r#"{"kind": "add"}"#).await.status, 401);
    assert!(rows(served).await.is_empty());
}

async fn jobs_that_are_enqueued_together_have_one_audit_row_each(served: &Served) {
    let token = served.token("operate").await;
    let make = async || {
        served.with(&token, "POST", "/api/v1/jobs", r#"{"kind": "add", "in_ms": 600000}"#).await.status
    };
    for _ in 0..5 {
        let made = tokio::join!(make(), make(), make(), make(), make(), make());
        assert_eq!(made, (201, 201, 201, 201, 201, 201));
    }
    let rows = ended(served).await;
    assert_eq!(rows.len(), 30);
    assert!(rows.iter().all(|row| row["status"] == 201 && row["action"] == "create_job"), "{rows:?}");
}

async fn the_audit_can_be_read_by_admins_and_shows_before_and_after(served: &Served) {
    let admin = served.token("admin").await;
    for limit in [4, 7] {
        let body = format!(r#"{{"limit": {limit}}}"#);
        assert_eq!(served.with(&admin, "PUT", "/api/v1/groups/etl", &body).await.status, 204);
    }
    let manifest = r#"{"kind": "add", "input": {"password": "hush-canary"}, "schedule": {"every": "1h"}}"#;
    assert_eq!(served.with(&admin, "PUT", "/api/v1/manifests/often", manifest).await.status, 201);
    let read = async |query: &str| {
        let answer = served.with(&admin, "GET", &format!("/api/v1/audit{query}"), "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["items"].as_array().unwrap().clone()
    };
    let all = read("").await;
    assert_eq!(all.len(), 3);
    assert_eq!(
        (&all[1]["action"], &all[1]["who"], &all[1]["target"]),
        (&json!("put_group"), &json!("token:admin"), &json!("etl"))
    );
    assert_eq!(
        (&all[1]["details"]["before"]["limit"], &all[1]["details"]["after"]["limit"]),
        (&json!(4), &json!(7))
    );
    assert_eq!(
        all[0]["details"],
        json!({"version_before": null, "became": "created", "fields": null}),
        "the details of a manifest do not contain its input"
    );
    assert!(!Value::from(all.clone()).to_string().contains("hush-canary"));
    assert_eq!(read("?action=put_group&limit=1").await.len(), 1);
    assert_eq!(read("?who=token:unknown").await.len(), 0);
    assert_eq!(read(&format!("?since={}", all[0]["at"].as_str().unwrap())).await.len(), 1);
    for bad in ["?since=yesterday", "?who=%00", "?color=red", "?cursor=x", "?limit=0"] {
        assert_eq!(served.with(&admin, "GET", &format!("/api/v1/audit{bad}"), "").await.status, 400, "{bad}");
    }
    let changes = ["PUT", "POST", "DELETE", "PATCH"];
    for method in changes {
        assert_eq!(served.with(&admin, method, "/api/v1/audit", "").await.status, 405, "{method}");
    }
}

/// The details of audit rows.
async fn the_audit_contains_the_request_and_its_effect(served: &Served) {
    let admin = served.token("admin").await;
    let ask = async |method: &str, path: &str, body: Value| {
        let answer = served.with(&admin, method, &format!("/api/v1{path}"), &body.to_string()).await;
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        let row = ended(served).await[0].clone();
        let details: Value = serde_json::from_str(row["details"].as_str().unwrap_or("null")).unwrap();
        let answer = if answer.body.is_empty() { Value::Null } else { answer.json() };
        (row["action"].as_str().unwrap().to_owned(), details, answer)
    };
    let canary = "hush-canary";
    let token = json!({"name": "ci", "scopes": ["read", "worker"], "expires_in_ms": 3_600_000});
    let (action, said, made) = ask("POST", "/tokens", token).await;
    let expected =
        json!({"name": "ci", "scopes": "read,worker", "expires_in_ms": 3_600_000, "token": made["id"]});
    assert_eq!((action.as_str(), said), ("create_token", expected));
    let secret = made["token"].as_str().unwrap().to_owned();
    let (action, said, _) =
        ask("DELETE", &format!("/tokens/{}", made["id"].as_str().unwrap()), json!({})).await;
    assert_eq!((action.as_str(), said), ("revoke_token", json!({"name": "ci"})));

    let waits = json!({"kind": "add", "input": {"password": canary}, "in_ms": 600_000});
    let (action, said, made) = ask("POST", "/jobs", waits.clone()).await;
    assert_eq!((action.as_str(), said), ("create_job", json!({"job": made["id"]})));
    let job = made["id"].as_str().unwrap().to_owned();
    let (action, said, made) = ask("POST", "/jobs/batch", json!({"jobs": [waits, waits]})).await;
    let ids = json!({"count": 2, "first": [made["jobs"][0]["id"], made["jobs"][1]["id"]]});
    assert_eq!((action.as_str(), said), ("create_jobs", json!({"jobs": ids})));
    let (_, said, _) = ask("POST", &format!("/jobs/{job}/cancel"), json!({})).await;
    assert_eq!(said, json!({"became": "cancelled"}));
    let (action, said, again) = ask("POST", &format!("/jobs/{job}/retry"), json!({})).await;
    assert_eq!((action.as_str(), said), ("retry_job", json!({"became": "again", "job": again["id"]})));
    assert_ne!(again["id"], json!(job), "a new one");

    let meant = json!({"action": "cancel", "q": "kind:unregistered", "dry_run": true});
    let (_, said, _) = ask("POST", "/bulk-operations", meant).await;
    assert_eq!(said, json!({"dry_run": true, "action": "cancel", "q": "kind:unregistered", "count": 0}));
    let meant = json!({"action": "cancel", "q": "kind:unregistered", "starts_in_ms": 600_000});
    let (action, said, made) = ask("POST", "/bulk-operations", meant).await;
    let expected = json!({"bulk_operation": made["id"], "action": "cancel", "q": made["q"], "total": 0});
    assert_eq!((action.as_str(), said), ("create_bulk_operation", expected));

    for (before, after) in [(Value::Null, json!(86_400_000)), (json!(86_400_000), Value::Null)] {
        let (action, said, _) = ask("PATCH", "/settings", json!({"retention.completed_ms": after})).await;
        let key = "retention.completed_ms";
        assert_eq!(
            (action.as_str(), said),
            ("patch_settings", json!({"before": {key: before}, "after": {key: after}}))
        );
    }

    let manifest =
        |every: &str| json!({"kind": "add", "schedule": {"every": every}, "input": {"password": canary}});
    ask("PUT", "/manifests/often", manifest("1h")).await;
    let (_, said, _) = ask("PUT", "/manifests/often", manifest("2h")).await;
    assert_eq!((&said["became"], &said["fields"]), (&json!("updated"), &json!(["schedule"])), "{said}");
    let (action, said, made) = ask("POST", "/manifests/often/run", json!({"in_ms": 600_000})).await;
    assert_eq!((action.as_str(), said), ("run_manifest", json!({"job": made["id"]})));

    let wanted = |dry: bool| {
        let other =
            json!({"key": "other", "kind": "add", "schedule": {"every": "1h"}, "input": {"token": canary}});
        json!({"owner": "team", "prune": true, "dry_run": dry, "group": {"etl": {"limit": 4}}, "manifest": [other]})
    };
    for dry in [true, false] {
        let (action, said, _) = ask("POST", "/manifests:apply", wanted(dry)).await;
        assert_eq!(
            (action.as_str(), &said["dry_run"], &said["owner"]),
            ("apply_manifests", &json!(dry), &json!("team"))
        );
        assert_eq!(said["manifests"]["created"], json!({"count": 1, "first": ["other"]}), "{said}");
        assert_eq!(said["groups"]["created"], json!({"count": 1, "first": ["etl"]}), "{said}");
    }
    let empty = json!({"owner": "team", "prune": true});
    let (_, said, _) = ask("POST", "/manifests:apply", empty).await;
    assert_eq!(said["manifests"]["removed"], json!({"count": 1, "first": ["other"]}), "{said}");

    ask("POST", "/jobs", json!({"kind": "broken", "input": "x"})).await;
    for _ in 0..600 {
        let dead = served.with(&admin, "GET", "/api/v1/dead-letters?status=awaiting", "").await;
        if dead.json()["items"].as_array().unwrap().iter().any(|letter| letter["kind"] == "broken") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let which = json!({"kind": "unregistered", "note": "never mind"});
    let (action, said, _) = ask("POST", "/dead-letters/revive", which).await;
    assert_eq!(
        (action.as_str(), said),
        ("revive_dead_letters", json!({"which": {"kind": "unregistered"}, "count": 0}))
    );
    let (action, said, _) = ask("POST", "/dead-letters/acknowledge", json!({"kind": "broken"})).await;
    assert_eq!(
        (action.as_str(), said),
        ("acknowledge_dead_letters", json!({"which": {"kind": "broken"}, "count": 1}))
    );

    let all = Value::from(rows(served).await).to_string();
    assert!(!all.contains(canary), "the audit contains no input");
    assert!(!all.contains(secret.rsplit('_').next().unwrap()), "the audit contains no token");
}

async fn anonymous_changes_of_an_open_server_are_in_the_audit_with_their_address(served: &Served) {
    let made = served.post("/api/v1/jobs", r#"{"kind": "add", "in_ms": 600000}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    served.put("/api/v1/groups/etl", r#"{"limit": 1}"#).await;
    assert_eq!(served.post("/api/v1/jobs", r#"{"kind": 1}"#).await.status, 400);
    // Rows of enqueued jobs are written a moment later.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while rows(served).await.len() < 3 {
        assert!(std::time::Instant::now() < until, "{:?}", rows(served).await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let rows = ended(served).await;
    for row in &rows {
        assert_eq!((&row["who"], &row["token"]), (&json!("anonymous:127.0.0.1"), &Value::Null), "{rows:?}");
    }
    let jobs: Vec<&Value> = rows.iter().filter(|row| row["action"] == "create_job").collect();
    let created = jobs.iter().find(|row| row["status"] == 201).unwrap();
    let details: Value = serde_json::from_str(created["details"].as_str().unwrap()).unwrap();
    assert_eq!(details, json!({"job": made.json()["id"]}));
    assert!(jobs.iter().any(|row| row["status"] == 400), "a refused attempt is there, too: {rows:?}");
}

/// A lock on the table makes the first attempts fail.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_open_server_that_the_database_does_not_take_are_written_later() {
    let served = Served::postgres().await;
    let session = async || {
        let (client, connection) =
            tokio_postgres::connect(served.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    let (client, watching) = (session().await, session().await);
    client.batch_execute("begin; lock table lineclear.audit in access exclusive mode").await.unwrap();
    let made = served.post("/api/v1/jobs", r#"{"kind": "add", "in_ms": 600000}"#).await;
    assert_eq!(made.status, 201, "the job does not wait for its row: {made:?}");
    // Two attempts are begun: the first one has failed.
    let attempts = "select query_start::text from pg_stat_activity where query ilike '%audit%' and wait_event_type = 'Lock'
                    and datname = current_database()";
    let (mut seen, until) = (BTreeSet::new(), std::time::Instant::now() + std::time::Duration::from_secs(60));
    while seen.len() < 2 {
        for row in watching.query(attempts, &[]).await.unwrap() {
            seen.insert(row.get::<_, String>(0));
        }
        assert!(std::time::Instant::now() < until, "{seen:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    client.batch_execute("commit").await.unwrap();
    while rows(&served).await.is_empty() {
        assert!(std::time::Instant::now() < until, "the row was lost");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let rows = ended(&served).await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!(201)), "{rows:?}");
    served.end().await;
}

async fn every_response_has_a_request_id(served: &Served) {
    let ask = async |id: &str| served.send("GET", "/api/v1/jobs/0", &[("X-Request-Id", id)], b"").await;
    let echoed = ask("mine-1.2_3").await;
    assert_eq!(
        (echoed.header("x-request-id"), &echoed.json()["request_id"]),
        (Some("mine-1.2_3"), &json!("mine-1.2_3"))
    );
    for odd in ["a b", "<script>", &"x".repeat(65), ""] {
        let made = ask(odd).await;
        let id = made.header("x-request-id").unwrap();
        assert!(id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit()), "{odd}: {id}");
        assert_eq!(made.json()["request_id"], json!(id));
    }
    for path in ["/livez", "/nowhere", "/api/v1/jobs"] {
        assert!(served.get(path).await.header("x-request-id").is_some(), "{path}");
    }
}

on_each_store! {
    anonymous_changes_of_an_open_server_are_in_the_audit_with_their_address
    every_response_has_a_request_id
}

with_tokens_on_each_store! {
    every_route_that_changes_something_leaves_a_row
    a_request_without_the_scope_leaves_no_row
    jobs_that_are_enqueued_together_have_one_audit_row_each
    the_audit_can_be_read_by_admins_and_shows_before_and_after
    the_audit_contains_the_request_and_its_effect
}
