//! Corrupt data in the database: readable objects are still shown, and nothing panics.

use crate::kit::Served;

impl Served {
    /// Runs SQL directly in the database; `{t}` is the prefix of tables.
    pub(crate) async fn sql(&self, text: &str) {
        if self.url.starts_with("postgres") {
            let (client, connection) =
                tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(&text.replace("{t}", "lineclear.")).await.unwrap();
        } else {
            let file = rusqlite::Connection::open(&self.url).unwrap();
            file.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
            file.execute_batch(&text.replace("{t}", "")).unwrap();
        }
    }
}

/// All lists, and the intact job and manifest, are still available.
async fn is_well_otherwise(served: &Served, well: &str, what: &str) {
    for path in [
        "/api/v1/jobs",
        "/api/v1/manifests",
        "/api/v1/dead-letters",
        "/api/v1/nodes",
        "/api/v1/groups",
        "/api/v1/locks",
        "/metrics",
        "/readyz",
    ] {
        let answer = served.get(path).await;
        assert!(answer.status == 200 || path == "/metrics", "{what}: {path}: {answer:?}");
    }
    assert_eq!(served.get(&format!("/api/v1/jobs/{well}")).await.status, 200, "{what}");
    assert_eq!(served.get("/api/v1/manifests/well").await.status, 200, "{what}");
}

async fn corrupt_data_does_not_affect_other_objects(served: &Served) {
    let order = r#"{"kind": "add", "schedule": {"cron": "0 2 1 1 *"}}"#;
    for key in ["well", "bad"] {
        assert!(served.put(&format!("/api/v1/manifests/{key}"), order).await.status < 300);
    }
    // Due in a day, so that no node takes them during the test.
    let mut made = Vec::new();
    for _ in 0..2 {
        let answer =
            served.post("/api/v1/jobs", r#"{"kind": "add", "input": [1, 2], "in_ms": 86400000}"#).await;
        made.push(answer.json()["id"].as_str().unwrap().to_owned());
    }
    let (well, bad) = (&made[0], &made[1]);
    let cases = [
        (
            "an input that is not JSON",
            format!("update {{t}}work_queue set input = '{{not json' where id = {bad}"),
        ),
        ("an unknown kind", format!("update {{t}}work_queue set kind = 'never.heard.of' where id = {bad}")),
        (
            "a claim number that went back",
            format!("update {{t}}work_queue set claim_no = 0 where id = {bad}"),
        ),
        (
            "a group that does not exist",
            format!("update {{t}}work_queue set group_id = 424242 where id = {bad}"),
        ),
        (
            "a manifest that does not exist",
            format!("update {{t}}work_queue set manifest_id = 424242 where id = {bad}"),
        ),
        ("an invalid schedule", "update {t}manifest set spec = '{not json' where key = 'bad'".to_owned()),
        (
            "a schedule of a later version",
            r#"update {t}manifest set spec = '{"schedule": {"moon": "full"}}' where key = 'bad'"#.to_owned(),
        ),
        ("an invalid declaration", "update {t}manifest set declared = 'x' where key = 'bad'".to_owned()),
    ];
    for (what, sql) in &cases {
        served.sql(sql).await;
        is_well_otherwise(served, well, what).await;
        for path in [
            format!("/api/v1/jobs/{bad}"),
            format!("/api/v1/jobs/{bad}/explain"),
            "/api/v1/manifests/bad".to_owned(),
            "/api/v1/manifests/bad/explain".to_owned(),
            "/api/v1/manifests/bad/next".to_owned(),
        ] {
            let answer = served.get(&path).await;
            assert!(answer.status < 500 || answer.code() == "stored_data", "{what}: {path}: {answer:?}");
        }
    }
    let cancelled = served.post(&format!("/api/v1/jobs/{bad}/cancel"), "").await;
    assert!(cancelled.status < 500, "{cancelled:?}");
}

/// Each statement corrupts the manifest `bad` in a different way.
const BROKEN: [&str; 5] = [
    "update {t}manifest set spec = '{not json' where key = 'bad'",
    r#"update {t}manifest set spec = '{"schedule": {"moon": "full"}}' where key = 'bad'"#,
    "update {t}manifest set input = '{\"pin\":hunter2' where key = 'bad'",
    "update {t}manifest set kind = 'hunter2 ' where key = 'bad'",
    "update {t}manifest set declared = '\"hunter2\"' where key = 'bad'",
];

async fn an_unreadable_manifest_can_be_paused_and_is_repaired_by_writing_it(served: &Served) {
    let order = r#"{"kind": "add", "schedule": {"cron": "0 2 1 1 *"}, "input": {"pin": "hunter2"}, "secret": ["/pin"]}"#;
    let path = "/api/v1/manifests/bad";
    let file = r#"{"manifest": [{"key": "bad", "kind": "add", "schedule": {"every": "1h"}}]}"#;
    assert_eq!(served.put(path, order).await.status, 201);
    for sql in BROKEN {
        served.sql(sql).await;
        let is_bad = !sql.contains("declared");
        assert_eq!(!served.get(path).await.json()["unreadable"].is_null(), is_bad, "{sql}");
        let paused = served.post(&format!("{path}/pause"), "").await;
        assert_eq!(paused.status, 204, "{sql}: {paused:?}");
        let resumed = served.post(&format!("{path}/resume"), "").await;
        if is_bad {
            // Its due time cannot be computed.
            assert_eq!(
                (resumed.status, resumed.code()),
                (409, "unreadable".to_owned()),
                "{sql}: {resumed:?}"
            );
        }
        let applied = served.post("/api/v1/manifests:apply", file).await;
        assert_eq!((applied.status, applied.code()), (409, "unreadable".to_owned()), "{sql}: {applied:?}");
        for answer in [served.get(path).await, resumed, applied, served.get("/api/v1/manifests").await] {
            assert!(!answer.body.contains("hunter2"), "{sql}: {answer:?}");
        }
        let mended = served.put(path, order).await;
        let became = if is_bad { "updated" } else { "unchanged" };
        assert_eq!(
            (mended.status, mended.json()["became"].as_str()),
            (200, Some(became)),
            "{sql}: {mended:?}"
        );
        let whole = served.get(path).await.json();
        assert!(whole["unreadable"].is_null() && !whole["next_due_at"].is_null(), "{sql}: {whole}");
        assert_eq!(whole["manifest"]["enabled"], true, "{sql}");
        let declared = served.post("/api/v1/manifests:apply", file).await;
        assert_eq!(declared.status, 200, "{sql}: it can be declared again: {declared:?}");
        assert!(served.put(path, order).await.status < 300);
    }
    served.sql(BROKEN[0]).await;
    assert_eq!(served.send("DELETE", path, &[], b"").await.status, 204, "it can be removed, too");
    assert_eq!(served.get(path).await.status, 404);
}

/// In a rolling upgrade old servers run beside new ones.
async fn a_server_stays_ready_after_a_newer_one_has_migrated_the_schema(served: &Served) {
    served.sql("insert into {t}migration (number, name, checksum, compatible_from) values (9999, 'later', 'x', 0)").await;
    assert_eq!(served.get("/readyz").await.status, 200);
    let problems = served.get("/api/v1/status").await.json()["problems"].to_string();
    assert!(problems.contains("1 migration newer than this program, and compatible: later"), "{problems}");
    served.sql("update {t}migration set compatible_from = 9999 where number = 9999").await;
    assert_eq!(served.get("/readyz").await.status, 503, "it cannot work with this one");
    let status = served.get("/api/v1/status").await.json();
    assert!(
        status["healthy"] == false && status["problems"].to_string().contains("run the newer version"),
        "{status}"
    );
    served.sql("delete from {t}migration where number = 9999 or number = (select max(number) from {t}migration where number < 9999)").await;
    assert_eq!(served.get("/readyz").await.status, 503, "with an older schema the server is not ready");
}

on_each_store! {
    corrupt_data_does_not_affect_other_objects
    an_unreadable_manifest_can_be_paused_and_is_repaired_by_writing_it
    a_server_stays_ready_after_a_newer_one_has_migrated_the_schema
}
