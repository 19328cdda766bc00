//! A database for one test, on any of the three ways to have one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lineclear::model::{
    Failure, GroupSpec, JobState, Manifest, Name, Outcome, Payload, RetryPolicy, Schedule, judge,
};
use lineclear::store::{
    ChangeSource, Claim, Dispatch, FencedWrite, JobId, Lease, ManifestId, NewJob, NodeId, NodeInfo,
    PlanRules, Planned, Settlement, Store, StoreOptions, main_route,
};
use lineclear_testkit::{PostgresDatabase, Template};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::Client;

/// Defines tests that run on SQLite and on PostgreSQL, and end with an audit.
///
/// Tests marked `pgbouncer` run a third time, on PostgreSQL behind pgbouncer in transaction mode. Two things differ there:
/// statements are sent unnamed, with typed parameters, over any connection; and nothing lasts longer than a transaction,
/// neither a setting nor a lock nor a prepared statement. The marked tests are all races, the limits, the locks, and
/// enough others to send every statement that the whole suite sends (as a log of PostgreSQL showed). What remains is the
/// same SQL on the same server. A test of a new statement gets the mark.
#[macro_export]
macro_rules! conformance {
    () => {};
    ($(#[$meta:meta])* pgbouncer async fn $name:ident($db:ident) $body:block $($rest:tt)*) => {
        $(#[$meta])*
        mod $name {
            conformance!(@scenario $db $body);

            #[tokio::test]
            async fn pgbouncer() {
                run($crate::kit::TestDb::pgbouncer().await).await;
            }
        }
        conformance! { $($rest)* }
    };
    ($(#[$meta:meta])* async fn $name:ident($db:ident) $body:block $($rest:tt)*) => {
        $(#[$meta])*
        mod $name {
            conformance!(@scenario $db $body);
        }
        conformance! { $($rest)* }
    };
    (@scenario $db:ident $body:block) => {
        #[allow(unused_imports)]
        use super::*;

        async fn scenario($db: &$crate::kit::TestDb) $body

        async fn run(db: $crate::kit::TestDb) {
            scenario(&db).await;
            db.audit().await;
        }

        #[tokio::test]
        async fn sqlite() {
            run($crate::kit::TestDb::sqlite().await).await;
        }

        #[tokio::test]
        async fn postgres() {
            run($crate::kit::TestDb::postgres().await).await;
        }
    };
}

enum Place {
    Sqlite(TempDir),
    Postgres(PostgresDatabase),
}

/// A store for one test, and a connection past it.
pub(crate) struct TestDb {
    // First, so that its connections end before the database does.
    pub(crate) store: Store,
    url: String,
    /// The test's own connection to PostgreSQL, kept between statements: a connection costs more than a statement.
    connection: OnceCell<Client>,
    place: Place,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

pub(crate) fn payload(json: &str) -> Payload {
    Payload::parse(json).expect("a payload")
}

/// A job of kind `work`, due now.
pub(crate) fn job() -> NewJob {
    NewJob::new(name("work"), payload(r#"{"n":1}"#))
}

/// A manifest of kind `work` that is due every day, at midnight UTC. A day, because no tick may come during a test: with a
/// minute, one test in a hundred would see one.
pub(crate) fn daily(key: &str) -> Manifest {
    Manifest::new(name(key), name("work"), Schedule::every(Duration::from_secs(86_400)).expect("a schedule"))
}

pub(crate) fn lease(node: NodeId) -> Lease {
    Lease { node, length: Duration::from_secs(30) }
}

pub(crate) fn completed() -> Outcome {
    Outcome::Completed { output: None }
}

pub(crate) fn failed(message: &str) -> Outcome {
    Outcome::Failed(Failure::new("test_error", message))
}

/// Three retries, five minutes apart.
pub(crate) fn policy() -> RetryPolicy {
    RetryPolicy { retries: 3, delay: Duration::from_secs(300), factor: 2.0, max: Duration::from_secs(3600) }
}

impl TestDb {
    pub(crate) async fn sqlite() -> TestDb {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("test.db");
        let build = async |path: PathBuf| drop(open(path.to_str().expect("a path")).await);
        template().sqlite(&file, build).await;
        TestDb::open(file.to_str().expect("a path").to_owned(), Place::Sqlite(dir)).await
    }

    pub(crate) async fn postgres() -> TestDb {
        let database = migrated().await;
        TestDb::open(database.url().to_owned(), Place::Postgres(database)).await
    }

    pub(crate) async fn pgbouncer() -> TestDb {
        let database = migrated().await;
        let url = database.pgbouncer_url();
        let join = if url.contains('?') { '&' } else { '?' };
        TestDb::open(format!("{url}{join}pooler=transaction"), Place::Postgres(database)).await
    }

    async fn open(url: String, place: Place) -> TestDb {
        let store = open(&url).await;
        TestDb { store, url, connection: OnceCell::new(), place }
    }

    /// The same database, as another node sees it.
    pub(crate) async fn another_store(&self) -> Store {
        open(&self.url).await
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs SQL behind the store's back. `{t}` is replaced by what stands before a table's name.
    pub(crate) async fn sql(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        match &self.place {
            Place::Sqlite(dir) => sqlite_rows(&dir.path().join("test.db"), &sql.replace("{t}", "")),
            Place::Postgres(database) => {
                let client = self.connection.get_or_init(|| connect(database.url())).await;
                postgres_rows(client, &sql.replace("{t}", "lineclear.")).await
            }
        }
    }

    /// Rows that a `from` clause finds.
    pub(crate) async fn count(&self, from: &str) -> u64 {
        let rows = self.sql(&format!("select count(*) from {{t}}{from}")).await;
        rows[0][0].as_deref().expect("a count").parse().expect("a number")
    }

    /// Moves a time column into the past: instead of waiting.
    pub(crate) async fn age(&self, table: &str, column: &str, seconds: i64) {
        let by = match self.place {
            Place::Sqlite(_) => format!("{seconds} * 1000000"),
            Place::Postgres(_) => format!("interval '{seconds} seconds'"),
        };
        self.sql(&format!("update {{t}}{table} set {column} = {column} - {by} where {column} is not null"))
            .await;
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.place, Place::Sqlite(_))
    }

    /// `false`, as this database writes it.
    pub(crate) fn falsehood(&self) -> &'static str {
        if matches!(self.place, Place::Sqlite(_)) { "0" } else { "false" }
    }

    /// A claim number after which there is none.
    pub(crate) fn largest_claim_no(&self) -> i64 {
        if matches!(self.place, Place::Sqlite(_)) { i64::MAX } else { i64::from(i32::MAX) }
    }

    /// Every worker dies: its lease ends now, and its node is not heard of again.
    pub(crate) async fn let_leases_end(&self) {
        self.age("background_job", "due_at", 3600).await;
        self.age("node", "seen_at", 7200).await;
    }

    /// Every job that waits for later becomes due.
    pub(crate) async fn let_later_come(&self) {
        self.age("work_queue", "due_at", 1_000_000).await;
        self.store.promote(1000).await.expect("promote");
    }

    /// Daily manifests have one more tick to be planned.
    pub(crate) async fn let_a_tick_come(&self) {
        self.let_ticks_come(86_400).await;
    }

    /// Every manifest, and all that was ever planned, lies `seconds` further back.
    pub(crate) async fn let_ticks_come(&self, seconds: i64) {
        // In two strides, the first one long: no row may meet another on the way.
        const FAR: i64 = 1_000_000_000;
        for column in ["tick_at", "until_tick_at"] {
            self.age("tick", column, FAR).await;
            self.age("tick", column, seconds - FAR).await;
        }
        self.age("manifest", "planned_through", seconds).await;
        self.age("manifest", "next_due_at", seconds).await;
    }

    pub(crate) async fn node(&self, label: &str) -> NodeId {
        let node = NodeInfo {
            name: label.to_owned(),
            host: "test".to_owned(),
            pid: 1,
            incarnation: label.to_owned(),
            version: "0".to_owned(),
            roles: r#"["workers"]"#.to_owned(),
            routes: r#"["main"]"#.to_owned(),
            kinds: r#"["work"]"#.to_owned(),
            slots: 4,
            runners: "{}".to_owned(),
        };
        self.store.heartbeat(node).await.expect("beat").id
    }

    pub(crate) async fn enqueue(&self, job: NewJob) -> JobId {
        self.store.enqueue(job).await.expect("enqueue").id
    }

    /// Takes up to `most` jobs straight into leases of `node`.
    pub(crate) async fn take(&self, node: NodeId, most: u32) -> Vec<Claim> {
        self.store
            .dispatch_into_lease(Dispatch::new(main_route(), most), lease(node))
            .await
            .expect("dispatch")
    }

    /// Takes the one job that is there.
    pub(crate) async fn take_one(&self, node: NodeId) -> Claim {
        let mut claims = self.take(node, 10).await;
        assert_eq!(claims.len(), 1, "exactly one job is ready");
        claims.remove(0)
    }

    /// Settles as the rules say.
    pub(crate) async fn settle(&self, node: NodeId, claim: &Claim, outcome: Outcome) -> FencedWrite {
        let verdict = judge(&outcome, claim.failures, &policy());
        let settlement = Settlement::new(claim, outcome, verdict);
        self.store.settle(node, vec![settlement]).await.expect("settle")[0]
    }

    pub(crate) async fn state(&self, job: JobId) -> Option<JobState> {
        self.store.job(job).await.expect("job").map(|detail| detail.job.state)
    }

    pub(crate) async fn declare(&self, manifest: Manifest) -> ManifestId {
        let key = manifest.key.clone();
        self.store.upsert_manifests([manifest], ChangeSource::Declaration).await.expect("declare");
        let page = self.store.manifests(None, 1000).await.expect("manifests");
        page.items.into_iter().find(|view| view.key == key).expect("it is listed").id
    }

    pub(crate) async fn group(&self, name: &str, spec: GroupSpec) {
        let groups = BTreeMap::from([(name.to_owned(), spec)]);
        self.store.upsert_groups(groups, ChangeSource::Edit).await.expect("group");
    }

    /// One planning pass; returns queued and skipped.
    pub(crate) async fn plan(&self) -> (u64, u64) {
        match self.store.plan(PlanRules::default()).await.expect("plan") {
            Planned::Led { queued, skipped, unplannable, .. } => {
                assert_eq!(unplannable, Vec::new(), "every manifest can be planned");
                (queued, skipped)
            }
            Planned::Followed => panic!("no other node plans"),
        }
    }

    /// Checks the invariants of the tables.
    pub(crate) async fn audit(&self) {
        let violations = self
            .sql(
                "select 'a job is in one place', count(*) from (
                     select id from (
                         select id from {t}work_queue
                         union all select id from {t}background_job
                         union all select job_id from {t}dead_letter where status in ('awaiting', 'acknowledged')
                         union all select job_id from {t}execution where final) places
                     group by id having count(*) > 1) twice
                 union all
                 select 'a tick that fired has its job', count(*) from {t}tick t where job_id is not null
                     and not exists (select 1 from {t}work_queue w where w.id = t.job_id)
                     and not exists (select 1 from {t}background_job b where b.id = t.job_id)
                     and not exists (select 1 from {t}dead_letter d where d.job_id = t.job_id)
                     and not exists (select 1 from {t}execution e where e.job_id = t.job_id)
                 union all
                 select 'nothing is parked whose manifest runs', count(*) from {t}work_queue w
                     join {t}manifest m on m.id = w.manifest_id and m.enabled
                     where w.phase = 'parked' and not w.unknown_kind
                 union all
                 select 'nothing is held whose key has a free place that no job is about to take', count(*) from {t}work_queue w
                     left join {t}limit_key k on k.key = w.limit_key where w.phase = 'held'
                     and coalesce(k.max, 1) > (select count(*) from {t}background_job b where b.limit_key = w.limit_key)
                     and not exists (select 1 from {t}work_queue r where r.limit_key = w.limit_key and r.phase = 'ready')
                 union all
                 select 'a claim number never goes back', count(*) from {t}execution e
                     join {t}work_queue w on w.id = e.job_id where e.claim_no > w.claim_no",
            )
            .await;
        let found =
            violations.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(": "));
        let found: Vec<String> = found.collect();
        assert_eq!(found.len(), 5, "every rule is looked at: {found:?}");
        assert!(found.iter().all(|rule| rule.ends_with(": 0")), "{found:?}");
    }
}

async fn open(url: &str) -> Store {
    let options = StoreOptions::new(url).expect("a URL").connections(4);
    Store::open(options).await.expect("the store opens")
}

/// A copy of a database that was migrated once for all tests.
pub(crate) async fn migrated() -> PostgresDatabase {
    template().postgres(async |url: String| drop(open(&url).await)).await
}

fn template() -> Template {
    Template::of_folder("lineclear", concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"))
}

fn sqlite_rows(path: &std::path::Path, sql: &str) -> Vec<Vec<Option<String>>> {
    let connection = rusqlite::Connection::open(path).expect("the file opens");
    connection.busy_timeout(Duration::from_secs(5)).expect("a timeout");
    let mut statement = connection.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = statement.column_count();
    let mut rows = statement.query([]).expect("the statement runs");
    let mut answer = Vec::new();
    while let Some(row) = rows.next().expect("a row") {
        let cell = |at| match row.get::<_, rusqlite::types::Value>(at).expect("a cell") {
            rusqlite::types::Value::Null => None,
            rusqlite::types::Value::Integer(v) => Some(v.to_string()),
            rusqlite::types::Value::Text(v) => Some(v),
            other => panic!("{other:?} in {sql}"),
        };
        answer.push((0..columns).map(cell).collect());
    }
    answer
}

async fn connect(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

async fn postgres_rows(client: &Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let mut answer = Vec::new();
    for message in messages {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            answer.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    answer
}
