//! Rules of `docs/security.md` that no other file tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use lineclear::tokio_postgres::{Client, NoTls, SimpleQueryMessage, connect};
use lineclear_testkit::fresh_postgres;
use serde_json::Value;

use crate::access::scopes::filled;
use crate::kit::Served;

async fn database(url: &str) -> Client {
    let (client, connection) = connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn texts(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// The contents of all tables, except those that nodes update by themselves and the last use of tokens.
async fn contents(client: &Client) -> BTreeMap<String, String> {
    let alive = ["node", "lock_lease", "lock_event", "lock_runner", "access_token"];
    let mut all = BTreeMap::new();
    for table in texts(client, "select tablename from pg_tables where schemaname = 'lineclear'").await {
        if !alive.contains(&table.as_str()) {
            let sql = format!(
                "select coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from lineclear.{table} t"
            );
            all.insert(table, texts(client, &sql).await.remove(0));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_changes_nothing() {
    let served = Served::postgres().await;
    let client = database(served.url()).await;
    served.put("/api/v1/manifests/999999", r#"{"kind": "other", "schedule": {"cron": "0 0 1 1 *"}}"#).await;
    served.post("/api/v1/jobs", r#"{"kind": "other", "in_ms": 600000}"#).await;
    // The row of an anonymous enqueue, and its outcome, follow the response.
    let ended = "select count(*) from lineclear.audit where status is not null";
    while client.query_one(ended, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = contents(&client).await;
    assert!(
        before.len() > 15 && before.contains_key("work_queue") && before.contains_key("audit"),
        "{before:?}"
    );
    let mut looked = 0;
    for (_, path, _) in lineclear_http::routes().into_iter().filter(|(method, ..)| method == "GET") {
        // Another test covers the endless stream.
        if !path.contains("/events") {
            for method in ["GET", "HEAD"] {
                let answer = served.send(method, &filled(&path), &[], b"").await;
                assert!(answer.status < 500, "{method} {path}: {answer:?}");
                looked += 1;
            }
        }
    }
    assert!(looked > 20, "{looked}");
    assert_eq!(contents(&client).await, before);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_takes_too_long_times_out() {
    let served = Served::postgres().await;
    let client = database(served.url()).await;
    client.batch_execute("begin; lock table lineclear.audit in access exclusive mode").await.unwrap();
    let began = Instant::now();
    let answer = served.get("/api/v1/audit").await;
    assert_eq!((answer.status, answer.code()), (503, "store_unavailable".to_owned()), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(served.get("/api/v1/groups").await.status, 200, "others are not in its way");
    served.end().await;
}

/// Counting uses the connections for reads: those of the engine would wait longer.
#[tokio::test(flavor = "multi_thread")]
async fn counting_for_a_bulk_operation_times_out() {
    let served = Served::postgres().await;
    let client = database(served.url()).await;
    client.batch_execute("begin; lock table lineclear.execution in access exclusive mode").await.unwrap();
    let began = Instant::now();
    let answer =
        served.post("/api/v1/bulk-operations", r#"{"action": "retry", "q": "state:completed"}"#).await;
    assert_eq!((answer.status, answer.code()), (503, "store_unavailable".to_owned()), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(served.get("/api/v1/bulk-operations").await.json()["items"], serde_json::json!([]));
    served.end().await;
}

#[test]
fn every_list_is_paginated() {
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lineclear/sql");
    let mut seen = 0;
    for folder in std::fs::read_dir(&sql).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
            if name.starts_with("list_") || name.ends_with("_list") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.contains("limit"), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 16, "{seen}");
}

/// Attacks in place of a name.
const INJECTIONS: [&str; 6] = [
    "' or 1=1 --",
    "1; drop table lineclear.audit",
    "\" or \"\"=\"",
    "x') union select 1--",
    "%27%20or%201%3D1",
    "$1",
];

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn sql_in_a_parameter_is_plain_text(served: &Served) {
    served.post("/api/v1/jobs", r#"{"kind": "other", "in_ms": 600000}"#).await;
    served.put("/api/v1/groups/etl", r#"{"limit": 1}"#).await;
    let document: Value = serde_json::from_str(&lineclear_http::openapi()).unwrap();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let Some(get) = operations.get("get").filter(|_| !path.contains("/events")) else { continue };
        for parameter in get["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            for injection in INJECTIONS {
                let target = match parameter["in"].as_str().unwrap() {
                    "path" => path.replace(&format!("{{{name}}}"), &escaped(injection)),
                    "query" => format!("{}?{name}={}", filled(path), escaped(injection)),
                    _ => continue,
                };
                let answer = served.get(&target).await;
                assert!(answer.status < 500, "{target}: {answer:?}");
                let found = answer.json()["items"].as_array().map_or(0, Vec::len);
                // A cursor of a list by name may be any text, and the list continues after it.
                assert!(
                    answer.status != 200 || found == 0 || name == "cursor",
                    "{target} finds something: {answer:?}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert_eq!(
        served.get("/api/v1/audit").await.json()["items"].as_array().unwrap().len(),
        2,
        "all is still there"
    );
}

async fn existing_and_missing_objects_are_refused_alike(served: &Served) {
    let operate = served.token("operate").await;
    let read = served.token("read").await;
    let made = served.with(&operate, "POST", "/api/v1/jobs", r#"{"kind": "other", "in_ms": 600000}"#).await;
    let there = made.header("location").unwrap().to_owned();
    let mut answers = Vec::new();
    for path in [there.as_str(), "/api/v1/jobs/999999"] {
        for token in [&read, "x"] {
            let answer = served.with(token, "POST", &format!("{path}/cancel"), "").await;
            let mut body = answer.json();
            body.as_object_mut().unwrap().remove("request_id");
            answers.push((answer.status, body));
        }
    }
    assert_eq!(answers[0], answers[2], "with too little");
    assert_eq!(answers[1], answers[3], "with nothing");
    assert_eq!((answers[0].0, answers[1].0), (403, 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_reveals_no_internals() {
    let served = Served::postgres().await;
    let client = database(served.url()).await;
    client.batch_execute("alter table lineclear.manifest_group rename to gone").await.unwrap();
    let answer = served.send("GET", "/api/v1/groups", &[("X-Request-Id", "look-for-me")], b"").await;
    assert_eq!((answer.status, answer.code()), (500, "stored_data".to_owned()), "{answer:?}");
    for inside in ["manifest_group", "relation", "select", "42P01", "postgres", "lineclear."] {
        assert!(!answer.body.contains(inside), "{inside}: {answer:?}");
    }
    assert_eq!(answer.json()["request_id"], "look-for-me", "by which the log is searched");
    client.batch_execute("alter table lineclear.gone rename to manifest_group").await.unwrap();
    served.end().await;
}

/// The `sql` block of a document after this line.
fn block(page: &str, after: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let rest = text.split_once(after).unwrap_or_else(|| panic!("{page} has no {after:?}")).1;
    rest.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_have_a_role_that_cannot_change_the_schema() {
    let database_of_its_own = fresh_postgres().await;
    let owner = database_of_its_own.url().to_owned();
    lineclear::Store::open(lineclear::StoreOptions::new(&owner).unwrap()).await.unwrap();
    let client = database(&owner).await;
    // Roles belong to the whole server: these are unique to this test.
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let (app, view) = (format!("app_{mark}"), format!("view_{mark}"));
    let grants =
        block("database.md", "## Roles").replace("lineclear_app", &app).replace("lineclear_view", &view);
    client.batch_execute(&grants).await.unwrap();
    let as_role = |role: &str| owner.replacen("postgres@", &format!("{role}@"), 1);

    let served = Served::at(&as_role(&app)).await;
    served
        .put("/api/v1/manifests/often", r#"{"kind": "add", "input": [1, 2], "schedule": {"every": "1s"}}"#)
        .await;
    served
        .until("/api/v1/jobs?q=state:completed", |page| !page["items"].as_array().unwrap().is_empty())
        .await;
    assert_eq!(served.post("/api/v1/tokens", r#"{"name": "ci", "scopes": ["read"]}"#).await.status, 201);
    served.store().clean(&Default::default(), 100).await.unwrap();
    served.end().await;

    let refused = async |role: &str, sql: &str| {
        let error = database(&as_role(role)).await.batch_execute(sql).await.err();
        error.and_then(|error| error.code().map(|code| code.code().to_owned()))
    };
    let denied = Some("42501".to_owned());
    for sql in [
        "create table lineclear.mine (x int)",
        "drop table lineclear.audit",
        "alter table lineclear.audit add x int",
    ] {
        assert_eq!(refused(&app, sql).await, denied, "{sql}");
    }
    assert_eq!(refused(&view, "select count(*) from lineclear.work_queue").await, None);
    for sql in [
        "delete from lineclear.audit",
        "select hash from lineclear.access_token",
        "select * from lineclear.browser_session",
    ] {
        assert_eq!(refused(&view, sql).await, denied, "{sql}");
    }
    for role in [&app, &view] {
        client.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
    }
}

on_each_store! {
    sql_in_a_parameter_is_plain_text
}

with_tokens_on_each_store! {
    existing_and_missing_objects_are_refused_alike
}
