//! Runs `docs/migrate.md`: with a real crontab, and with tables in the layout of other schedulers.

use std::time::Duration;

use lineclear_testkit::fresh_postgres;
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use crate::documents::guide::{Reader, blocks};
use crate::run::lineclear;

const PAGE: &str = include_str!("../../../../../docs/migrate.md");

/// A part of the page.
fn part(head: &str) -> Vec<(String, String)> {
    let text = PAGE.split(&format!("\n## {head}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    blocks(text)
}

#[tokio::test]
async fn a_crontab_is_migrated_as_the_page_says() {
    let blocks = part("From cron");
    let of = |language: &str| -> Vec<&String> {
        blocks.iter().filter(|block| block.0 == language).map(|block| &block.1).collect()
    };
    let [crontab, shown] = of("text")[..] else { panic!("a crontab, and the output of the import") };
    let [import, move_in] = of("sh")[..] else { panic!("import and apply") };
    let mut reader = Reader::new();
    std::fs::write(reader.dir.path().join("my.cron"), crontab).unwrap();
    reader.sees(import, shown);
    // The printed settings are what the server needs.
    let settings =
        shown[shown.find("commands = [").unwrap()..].split("\n]").next().unwrap().to_owned() + "\n]\n";
    std::fs::write(reader.dir.path().join("lineclear.toml"), settings).unwrap();
    reader.serve(&["--allow-open-commands"]).await;
    reader.sees(move_in, "  2026-03-29T01:00:00Z  echo\n+ manifest echo\n");
    reader.sees("lineclear job list -q manifest:echo\n", "…completed…command…echo…");
}

#[test]
fn friday_the_13th_is_written_as_the_page_says() {
    let (_, file) = part("From Hangfire").into_iter().find(|block| block.1.contains("friday-13")).unwrap();
    let manifest = lineclear_model::ManifestFile::from_toml(&file).unwrap().manifest.pop().unwrap();
    let moment = |text: &str| lineclear_model::text::parse_moment(text).unwrap();
    let (from, to) = (moment("2026-01-01T00:00:00Z"), moment("2027-01-01T00:00:00Z"));
    let ticks = lineclear_model::ticks_between(&manifest.rules(), &manifest.key, from, to, 100);
    let days: Vec<String> = ticks.iter().map(|tick| tick.tick_at.to_string()[..10].to_owned()).collect();
    assert_eq!(days, ["2026-02-13", "2026-03-13", "2026-11-13"]);
}

async fn postgres(url: &str) -> Client {
    assert_eq!(lineclear(&["db", "migrate", "--db", url]).code, Some(0));
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waiting jobs by kind: their input and state.
fn jobs(url: &str) -> Vec<(String, Value, String)> {
    let listed = lineclear(&["job", "list", "--all", "--json", "--db", url]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap_or_else(|_| panic!("{}", listed.err));
    let text = |job: &Value, name: &str| job[name].as_str().unwrap().to_owned();
    let mut jobs: Vec<(String, Value, String)> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            let one = lineclear(&["job", "get", &text(job, "id"), "--json", "--db", url]);
            let one: Value = serde_json::from_str(&one.out).unwrap();
            (text(job, "kind"), one["input"].clone(), text(job, "state"))
        })
        .collect();
    jobs.sort_by_key(|job| (job.0.clone(), job.1.to_string()));
    jobs
}

/// The columns that Hangfire.PostgreSql's scripts make, and a few jobs as it writes them.
const HANGFIRE: &str = r#"
create schema hangfire;
create table hangfire.job (id bigserial primary key, stateid bigint, statename text, invocationdata jsonb not null, arguments jsonb not null,
    createdat timestamptz not null default now(), expireat timestamptz);
create table hangfire.jobqueue (id bigserial primary key, jobid bigint not null, queue text not null, fetchedat timestamptz);
create table hangfire.set (id bigserial primary key, key text not null, score double precision not null, value text not null, unique (key, value));
create table hangfire.hash (id bigserial primary key, key text not null, field text not null, value text, unique (key, field));
insert into hangfire.job (id, statename, invocationdata, arguments) values
    (1, 'Enqueued', '{"Type": "Shop.Mailer, Shop", "Method": "Welcome", "ParameterTypes": "[]"}', '["\"ann@example.com\"", "42"]'),
    (2, 'Scheduled', '{"Type": "Shop.Invoices, Shop", "Method": "Send", "ParameterTypes": "[]"}', '["{\"order\":7}"]'),
    (3, 'Enqueued', '{"Type": "Shop.Stock, Shop", "Method": "Count", "ParameterTypes": "[]"}', '[]'),
    (4, 'Processing', '{"Type": "Shop.Mailer, Shop", "Method": "Welcome", "ParameterTypes": "[]"}', '["\"bob@example.com\"", "43"]'),
    (5, 'Enqueued', '{"Type": "Shop.Mailer, Shop", "Method": "Welcome", "ParameterTypes": "[]"}', '[]'),
    (6, 'Succeeded', '{"Type": "Shop.Mailer, Shop", "Method": "Welcome", "ParameterTypes": "[]"}', '[]'),
    (7, 'Enqueued', '{"Type": "Shop.Invoices, Shop", "Method": "Send", "ParameterTypes": "[]"}', '["2026-11-16T12:00:00.0000000Z", null, "1.10", "\"2026\""]');
insert into hangfire.jobqueue (jobid, queue, fetchedat) values (1, 'default', null), (3, 'default', null), (4, 'default', now()), (5, 'default', null), (7, 'default', null);
insert into hangfire.set (key, score, value) values ('schedule', 4102444800, '2'), ('recurring-jobs', 1767225600, 'nightly');
insert into hangfire.hash (key, field, value) values ('recurring-job:nightly', 'Cron', '30 2 * * *'), ('recurring-job:nightly', 'TimeZoneId', 'Europe/Berlin'),
    ('recurring-job:nightly', 'Queue', 'default'), ('recurring-job:nightly', 'Job', '{"t":"Shop.Reports, Shop","m":"Nightly"}'), ('other', 'x', 'y');
"#;

#[tokio::test]
async fn waiting_jobs_of_hangfire_are_moved_once_and_its_schema_is_dropped() {
    let database = fresh_postgres().await;
    let client = postgres(database.url()).await;
    client.batch_execute(HANGFIRE).await.unwrap();
    let statements: Vec<String> =
        part("From Hangfire").into_iter().filter(|block| block.0 == "sql").map(|block| block.1).collect();
    let [recurring, waiting, moving, states, drop] = &statements[..] else {
        panic!("{} blocks", statements.len())
    };

    let rows = client.query(recurring.trim_end().trim_end_matches(';'), &[]).await.unwrap();
    let row: Vec<String> = (0..4).map(|column| rows[0].get(column)).collect();
    assert_eq!(
        (rows.len(), row),
        (1, ["nightly", "30 2 * * *", "Europe/Berlin", "default"].map(str::to_owned).to_vec())
    );
    let rows = client.query(waiting.trim_end().trim_end_matches(';'), &[]).await.unwrap();
    let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 5, 7]);

    for _ in 0..2 {
        client.batch_execute(moving).await.unwrap();
        let expected = [
            ("invoice.send", r#"{"arguments":["2026-11-16T12:00:00.0000000Z",null,1.10,"2026"]}"#, "queued"),
            ("invoice.send", r#"{"arguments":[{"order":7}]}"#, "scheduled"),
            ("mail.welcome", r#"{"arguments":["ann@example.com",42]}"#, "queued"),
            ("mail.welcome", r#"{"arguments":[]}"#, "queued"),
        ];
        let expected: Vec<(String, Value, String)> = expected
            .into_iter()
            .map(|(kind, input, state)| {
                (kind.to_owned(), serde_json::from_str(input).unwrap(), state.to_owned())
            })
            .collect();
        assert_eq!(jobs(database.url()), expected);
    }
    let left = client.query("select id from hangfire.job order by id", &[]).await.unwrap();
    assert_eq!(
        left.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(),
        [3, 4, 6],
        "unknown, running and finished jobs"
    );
    let rows = client.query(states.trim_end().trim_end_matches(';'), &[]).await.unwrap();
    let rows: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(
        rows,
        [("Enqueued".to_owned(), 1), ("Processing".to_owned(), 1)],
        "finished jobs are not shown"
    );
    client.batch_execute(drop).await.unwrap();
    assert_eq!(jobs(database.url()).len(), 4);
}

/// The columns of Trax that the page names, and a few rows.
const TRAX: &str = r#"
create schema trax;
create type trax.work_queue_status as enum ('queued', 'dispatched', 'cancelled');
create table trax.manifest_group (id bigserial primary key, name text unique not null);
create table trax.manifest (id bigserial primary key, external_id text unique not null, name text not null, manifest_group_id bigint not null,
    schedule_type text not null, cron_expression text, interval_seconds integer, max_retries integer not null default 3, timeout_seconds integer,
    is_enabled boolean not null default true, depends_on_manifest_id bigint, properties jsonb);
create table trax.work_queue (id bigserial primary key, train_name text not null, input jsonb, status trax.work_queue_status not null,
    manifest_id bigint, scheduled_at timestamp);
insert into trax.manifest_group (name) values ('etl');
insert into trax.manifest (external_id, name, manifest_group_id, schedule_type, cron_expression, depends_on_manifest_id, properties) values
    ('load', 'Shop.Trains.ILoadTrain', 1, 'cron', '0 2 * * *', null, '{"table": "orders"}'),
    ('report', 'Shop.Trains.IReportTrain', 1, 'dependent', null, 1, null);
insert into trax.work_queue (train_name, input, status, manifest_id, scheduled_at) values
    ('Shop.Trains.ISendInvoiceTrain', '{"order": 7}', 'queued', null, null),
    ('Shop.Trains.ISendInvoiceTrain', '{"order": 8}', 'queued', null, '2100-01-01 00:00:00'),
    ('Shop.Trains.ISendInvoiceTrain', '{"order": 9}', 'dispatched', null, null),
    ('Shop.Trains.ILoadTrain', '{}', 'queued', 1, null);
"#;

#[tokio::test]
async fn a_database_of_trax_is_shared_and_its_queue_is_moved_once() {
    let database = fresh_postgres().await;
    let client = postgres(database.url()).await;
    client.batch_execute(TRAX).await.unwrap();
    let statements: Vec<String> = part("From ChainSharp or Trax")
        .into_iter()
        .filter(|block| block.0 == "sql")
        .map(|block| block.1)
        .collect();
    let [locks, there, off, moving] = &statements[..] else { panic!("{} blocks", statements.len()) };

    let rows = client.query(there.trim_end().trim_end_matches(';'), &[]).await.unwrap();
    let parents: Vec<(String, Option<String>)> =
        rows.iter().map(|row| (row.get("key"), row.get("after"))).collect();
    assert_eq!(parents, [("load".to_owned(), None), ("report".to_owned(), Some("load".to_owned()))]);
    assert_eq!(client.execute(off.trim_end().trim_end_matches(';'), &[]).await.unwrap(), 2);
    for _ in 0..2 {
        client.batch_execute(moving).await.unwrap();
        let moved: Vec<(Value, String)> =
            jobs(database.url()).into_iter().map(|job| (job.1["order"].clone(), job.2)).collect();
        assert_eq!(moved, [(7.into(), "queued".to_owned()), (8.into(), "scheduled".to_owned())]);
    }

    // A session holds the locks of Trax's planners; Lineclear plans anyway.
    client.batch_execute(locks).await.unwrap();
    let mut reader = Reader::new();
    let file = "[[manifest]]\nkey = \"clock\"\nkind = \"command\"\ninput = { argv = [\"/bin/date\"] }\nschedule = { every = \"1s\" }\n";
    std::fs::write(reader.dir.path().join("jobs.toml"), file).unwrap();
    let commands = ["--commands", "/bin/date", "--allow-open-commands"];
    reader.serve(&[&["--db", database.url(), "--manifests", "jobs.toml"][..], &commands].concat()).await;
    reader.sees("lineclear job list -q manifest:clock\n", "…completed…command…clock…");
    let held = client.query_one(
        "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
        &[],
    );
    assert_eq!(held.await.unwrap().get::<_, i64>(0), 2);
    reader.server.take().unwrap().terminate().unwrap();
    tokio::time::timeout(Duration::from_secs(30), async {
        client.batch_execute("drop schema trax cascade").await
    })
    .await
    .unwrap()
    .unwrap();
}
