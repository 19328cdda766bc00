//! doctor: it names everything that is removed from the schema, and the SQL that it prints restores it, on both databases; and it
//! notices a wrong clock.

use std::collections::BTreeSet;
use std::time::Duration;

use lineclear_model::doctor::schema::Schema;
use lineclear_model::doctor::{Check, CheckName, Finding};

use crate::db::clock::{Clock, parse};
use crate::tests::*;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/operate/doctor/postgres.json");

async fn check(store: &Store, name: CheckName) -> Check {
    store.doctor().await.into_iter().find(|check| check.check == name).expect("it is among them")
}

/// The schema that the migrations make, with a placeholder for its name.
async fn made(pg: &Pg) -> Schema {
    let mut schema = pg.store.schema_found().await.expect("it can be read");
    schema.columns.retain(|column| column.table != "migration");
    schema.rules.retain(|rule| rule.table != "migration");
    schema
}

#[tokio::test]
async fn the_kept_schema_is_what_the_migrations_make() {
    let pg = Pg::open().await;
    let made = serde_json::to_string_pretty(&made(&pg).await).expect("JSON") + "\n";
    let mut kept = std::fs::read_to_string(KEPT).expect("it is kept");
    if kept != made && std::env::var_os("LINECLEAR_UPDATE").is_some() {
        std::fs::write(KEPT, &made).expect("it can be written");
        kept.clone_from(&made);
    }
    assert!(
        kept == made,
        "{KEPT} is not what the migrations make: run this test with LINECLEAR_UPDATE=1, and look at what changes"
    );
}

/// Splits SQL into statements: none of those that fix a table or an index has a semicolon inside.
fn statements(sql: &str) -> Vec<String> {
    sql.split(";\n").map(str::to_owned).collect()
}

/// A database that can be changed behind the store's back.
enum Behind<'a> {
    Postgres(&'a Pg),
    Sqlite(&'a Store),
}

/// SQL as it is.
struct Run(String);

impl Verb for Run {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        session.batch(&self.0).await
    }
}

impl Behind<'_> {
    fn store(&self) -> &Store {
        match self {
            Behind::Postgres(pg) => &pg.store,
            Behind::Sqlite(store) => store,
        }
    }

    async fn run(&self, sql: &str) {
        match self {
            Behind::Postgres(pg) => pg.sql(sql).await,
            Behind::Sqlite(store) => {
                store.run(Run(sql.to_owned())).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
            }
        }
    }

    /// Both checks of the schema.
    async fn checks(&self) -> (Check, Check) {
        let checks = self.store().schema_checks().await;
        let of = |name| checks.iter().find(|check| check.check == name).expect("it is among them").clone();
        (of(CheckName::Tables), of(CheckName::Indexes))
    }

    async fn mend(&self, check: &Check) {
        for statement in statements(check.sql.as_deref().unwrap_or_default()) {
            self.run(&statement).await;
        }
    }

    /// Checks that no SQL is printed for a missing table or sequence: a new one would use ids twice.
    async fn has_gone(&self, named: &str) {
        let (tables, _) = self.checks().await;
        assert!(tables.finding == Finding::Failure && tables.message.contains(named), "{tables:#?}");
        assert!(
            tables.remedy.as_deref().is_some_and(|remedy| remedy.contains("restore a backup")),
            "{tables:#?}"
        );
        assert!(!tables.sql.as_deref().unwrap_or_default().contains("CREATE TABLE"), "{tables:#?}");
        assert!(!tables.sql.as_deref().unwrap_or_default().contains("CREATE SEQUENCE"), "{tables:#?}");
    }

    /// Drops something, checks that the doctor names it, and restores it with the SQL that the doctor prints.
    async fn without(&self, drop: &str, named: &str, name: CheckName) {
        self.run(drop).await;
        let (tables, indexes) = self.checks().await;
        let check = if name == CheckName::Tables { &tables } else { &indexes };
        assert!(check.finding == Finding::Failure && check.message.contains(named), "{drop}: {check:#?}");
        self.mend(&tables).await;
        self.mend(&indexes).await;
        let (tables, indexes) = self.checks().await;
        assert_eq!(
            (tables.finding, indexes.finding),
            (Finding::Ok, Finding::Ok),
            "{drop}: {tables:#?} {indexes:#?}"
        );
    }
}

#[tokio::test]
async fn whatever_is_dropped_on_postgres_is_named_and_comes_back_with_the_sql() {
    let pg = Pg::open().await;
    let (behind, made) = (Behind::Postgres(&pg), made(&pg).await);
    for index in &made.indexes {
        behind
            .without(&format!("drop index lineclear.{}", index.name), &index.name, CheckName::Indexes)
            .await;
    }
    for rule in &made.rules {
        let drop = format!("alter table lineclear.{} drop constraint {}", rule.table, rule.name);
        behind.without(&drop, &rule.name, CheckName::Tables).await;
    }
    let tables: BTreeSet<&str> = made.columns.iter().map(|column| column.table.as_str()).collect();
    let sequences =
        made.others.iter().filter(|other| other.what == "sequence").map(|other| other.name.as_str());
    let gone = tables.iter().map(|name| ("table", *name)).chain(sequences.map(|name| ("sequence", name)));
    for (what, name) in gone {
        pg.sql(&format!("alter {what} lineclear.{name} rename to away")).await;
        behind.has_gone(name).await;
        pg.sql(&format!("alter {what} lineclear.away rename to {name}")).await;
    }
    let whole = behind.checks().await;
    assert_eq!((whole.0.finding, whole.1.finding), (Finding::Ok, Finding::Ok), "{whole:#?}");
    assert!(made.indexes.len() > 30 && made.rules.len() > 30 && tables.len() > 20, "all of it was tried");
    pg.sql("update pg_index set indisvalid = false where indexrelid = 'lineclear.work_queue_open'::regclass")
        .await;
    let (_, indexes) = behind.checks().await;
    assert!(indexes.message.contains("work_queue_open of work_queue is invalid"), "{indexes:#?}");
    behind.mend(&indexes).await;
    assert_eq!(behind.checks().await.1.finding, Finding::Ok);
}

#[tokio::test]
async fn whatever_is_dropped_on_sqlite_is_named_and_comes_back_with_the_sql() {
    let store = Store::open(StoreOptions::new(":memory:").expect("a URL")).await.expect("the store opens");
    let (behind, made) = (Behind::Sqlite(&store), store.schema_found().await.expect("it can be read"));
    for index in &made.indexes {
        behind.without(&format!("drop index {}", index.name), &index.name, CheckName::Indexes).await;
    }
    let tables: BTreeSet<&str> = made.columns.iter().map(|column| column.table.as_str()).collect();
    for table in tables.iter().filter(|table| **table != "migration") {
        let store =
            Store::open(StoreOptions::new(":memory:").expect("a URL")).await.expect("the store opens");
        let behind = Behind::Sqlite(&store);
        behind.run(&format!("drop table {table}")).await;
        behind.has_gone(table).await;
    }
    assert!(made.indexes.len() > 30 && tables.len() > 20, "all of it was tried");
}

#[tokio::test]
async fn a_clock_that_is_off_is_seen() {
    let an_hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let clock = Clock::new(parse(&an_hour_ago.to_string()));
    let store = Store::open(StoreOptions::in_memory(clock.clone())).await.expect("the store opens");
    let skewed = check(&store, CheckName::Clock).await;
    assert!(
        skewed.finding == Finding::Failure && skewed.message.contains("ahead of the database's"),
        "{skewed:#?}"
    );
    clock.advance(Duration::from_secs(3598));
    let skewed = check(&store, CheckName::Clock).await;
    assert_eq!(skewed.finding, Finding::Warning, "{skewed:#?}");
}

#[tokio::test]
async fn what_cannot_be_looked_at_does_not_hide_the_rest() {
    let pg = Pg::open().await;
    pg.sql("drop table lineclear.node cascade").await;
    let checks = pg.store.doctor().await;
    let finding = |name| checks.iter().find(|check| check.check == name).map(|check| check.finding);
    assert_eq!(finding(CheckName::Tables), Some(Finding::Failure));
    assert_eq!(finding(CheckName::Alive), Some(Finding::Failure), "{checks:#?}");
    assert_eq!(finding(CheckName::Overdue), Some(Finding::Skipped));
    assert_eq!(finding(CheckName::Latency), Some(Finding::Ok));
}

#[tokio::test]
async fn the_doctor_does_not_read_whole_lanes_after_a_burst_without_analyze() {
    let pg = Pg::open().await;
    pg.sql("alter table lineclear.work_queue set (autovacuum_enabled = false)").await;
    pg.sql(
        "insert into lineclear.work_queue (id, origin, fresh, kind, route, input, priority, due_at, phase, rank, gated)
         select n, 'adhoc', false, 'work', 'main', '{}', 0, now() - interval '1 hour', 'ready', n, n % 3 = 0 from generate_series(1, 200000) n",
    )
    .await;
    let mut session = Session::Postgres(pg.db().session(true).await.expect("a connection"));
    let params = || vec![db::Value::Int(Some(60_000_000)), db::Value::Int(Some(20))];
    let plan = session.explain(Statement::HealthOverdue, params()).await.expect("a plan");
    assert!(plan.contains("Bitmap"), "otherwise this shows nothing:\n{plan}");
    crate::operate::health_facts::set_statement_timeout(&mut session, true).await.expect("it is set");
    let plan = session.explain(Statement::HealthOverdue, params()).await.expect("a plan");
    for index in ["work_queue_open", "work_queue_gated"] {
        assert!(plan.contains(&format!("Index Scan using {index}")) && !plan.contains("Bitmap"), "{plan}");
    }
}

#[tokio::test]
async fn what_was_changed_on_postgres_and_kept_its_name_is_seen_and_mended() {
    let pg = Pg::open().await;
    let behind = Behind::Postgres(&pg);
    let definition = made(&pg).await.others.into_iter().find(|other| other.what == "view").expect("a view");
    behind
        .without(
            "drop view lineclear.nagare_leases; create view lineclear.nagare_leases as select 1 as lock_name",
            &definition.name,
            CheckName::Tables,
        )
        .await;
    behind
        .without(
            "alter table lineclear.access_token alter column id set generated by default",
            "column access_token.id generates numbers in another way",
            CheckName::Tables,
        )
        .await;
    pg.sql(
        "create or replace function lineclear.enqueue(kind text, input text default '{}', due_at timestamptz default now(),
             priority integer default 0, group_name text default null, unique_key text default null)
         returns bigint language sql as 'select 1::bigint'",
    )
    .await;
    let (tables, _) = behind.checks().await;
    assert!(tables.message.contains("function enqueue differs"), "{tables:#?}");
    pg.sql(tables.sql.as_deref().expect("its SQL")).await;
    assert_eq!(behind.checks().await.0.finding, Finding::Ok);
    pg.sql("alter table lineclear.access_token alter column id drop identity").await;
    behind.has_gone("access_token.id does not generate numbers any more").await;
}

#[tokio::test]
async fn an_index_that_is_being_built_is_no_failure() {
    let pg = Pg::open().await;
    let behind = Behind::Postgres(&pg);
    let made = made(&pg).await;
    let index = made
        .indexes
        .iter()
        .find(|index| index.name == "work_queue_open")
        .expect("it is made")
        .definition
        .clone();
    let build = index.replace("{schema}", "lineclear").replacen(" INDEX ", " INDEX CONCURRENTLY ", 1);
    pg.sql("drop index lineclear.work_queue_open").await;
    // The build waits for transactions that may still see the old table.
    let mut old = Session::Postgres(pg.db().session(true).await.expect("a connection"));
    old.batch("lock table lineclear.work_queue in row exclusive mode").await.expect("locked");
    let other = pg.store.clone();
    let building = tokio::spawn(async move {
        let Db::Postgres(db) = &other.db else { unreachable!("it is one") };
        let mut session = Session::Postgres(db.session(false).await.expect("a connection"));
        session.batch(&build).await
    });
    let mut seen = behind.checks().await.1;
    for _ in 0..200 {
        if seen.message.contains("being built right now: index work_queue_open") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen = behind.checks().await.1;
    }
    assert_eq!(seen.finding, Finding::Warning, "{seen:#?}");
    if let Session::Postgres(old) = &mut old {
        old.roll_back().await;
    }
    building.await.expect("it ran").expect("it is built");
    assert_eq!(behind.checks().await.1.finding, Finding::Ok);
}

#[tokio::test]
async fn what_was_changed_on_sqlite_and_kept_its_name_is_seen() {
    for (table, from, to, named) in [
        ("tick", "constraint tick_once primary key (manifest_id, tick_at),", "", "tick has no primary key"),
        (
            "manifest_group",
            "name text not null constraint manifest_group_name unique",
            "name text not null",
            "manifest_group has no unique (name)",
        ),
        (
            "node",
            "seen_at     integer not null",
            "seen_at integer",
            "column node.seen_at is seen_at INTEGER and should be",
        ),
        ("node", "slots       integer not null", "slots text not null", "column node.slots is slots TEXT"),
    ] {
        let store =
            Store::open(StoreOptions::new(":memory:").expect("a URL")).await.expect("the store opens");
        let behind = Behind::Sqlite(&store);
        let made = store.schema_found().await.expect("it can be read");
        let is =
            |other: &&lineclear_model::doctor::schema::Other| other.what == "table" && other.name == table;
        let definition = made.others.iter().find(is).expect("it is made").definition.clone();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let changed = words(
            &definition
                .lines()
                .map(|line| line.split("--").next().unwrap_or(""))
                .collect::<Vec<_>>()
                .join("\n"),
        )
        .replace(&words(from), to);
        assert!(changed != words(&definition), "{from} in {definition}");
        let indexes = made
            .indexes
            .iter()
            .filter(|index| index.table == table)
            .map(|index| format!("; {}", index.definition));
        behind.run(&format!("drop table {table}; {changed}{}", indexes.collect::<String>())).await;
        let (tables, _) = behind.checks().await;
        assert!(tables.finding == Finding::Failure && tables.message.contains(named), "{named}: {tables:#?}");
        assert!(
            tables.remedy.as_deref().is_some_and(|remedy| remedy.contains("SQLite cannot change this")),
            "{tables:#?}"
        );
    }
}

#[tokio::test]
async fn a_part_that_is_locked_does_not_hide_the_others() {
    let pg = Pg::open().await;
    let mut lock = Session::Postgres(pg.db().session(true).await.expect("a connection"));
    lock.batch("lock table lineclear.manifest in access exclusive mode").await.expect("locked");
    let facts = pg.store.health_facts(5).await.expect("the rest is seen");
    assert!(
        facts.not_checked.trouble.is_some() && facts.not_checked.overdue.is_none(),
        "{:?}",
        facts.not_checked
    );
    let late = lineclear_model::doctor::late(&facts);
    assert!(
        late.finding == Finding::Warning && late.message.starts_with("could not be checked in time"),
        "{late:#?}"
    );
}

#[tokio::test]
async fn doctors_at_the_same_time_do_not_wait_for_each_other() {
    let pg = Pg::open().await;
    for (connections, finding) in [(2, Finding::Ok), (1, Finding::Skipped)] {
        let options = StoreOptions::new(pg.database.url()).expect("a URL").connections(connections);
        let store = Store::open(options).await.expect("the store opens");
        let asked = (0..4).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { check(&store, CheckName::Pooler).await })
        });
        for asked in asked.collect::<Vec<_>>() {
            let found = asked.await.expect("it ends");
            assert_eq!(found.finding, finding, "{found:#?}");
        }
    }
}

#[tokio::test]
async fn a_role_without_rights_is_told_from_a_database_that_does_not_answer() {
    let pg = Pg::open().await;
    let role = format!("blind_{}", std::process::id());
    pg.sql(&format!("create role {role} login")).await;
    let url = pg.database.url().replacen("postgres://postgres@", &format!("postgres://{role}@"), 1);
    assert!(url.contains(&role), "{url}");
    let options = StoreOptions::new(&url).expect("a URL").read_only();
    let store = Store::open(options).await.expect("the store opens");
    let checks = store.doctor().await;
    drop(store);
    pg.sql(&format!("drop role {role}")).await;
    let found = |name| checks.iter().find(|check| check.check == name).expect("it is among them");
    assert_eq!(found(CheckName::Reachable).finding, Finding::Ok, "{checks:#?}");
    let migrations = found(CheckName::Migrations);
    assert_eq!(migrations.finding, Finding::Failure, "{migrations:#?}");
    assert!(
        migrations.remedy.as_deref().is_some_and(|remedy| remedy.contains("grant it")),
        "{migrations:#?}"
    );
}

#[tokio::test]
async fn a_sequence_that_is_behind_is_named_and_the_sql_sets_it() {
    let pg = Pg::open().await;
    let store = Store::open(StoreOptions::new(":memory:").unwrap()).await.unwrap();
    for (store, back) in [
        (&pg.store, "select setval('lineclear.job_id', 2); select setval('lineclear.manifest_id_seq', 1)"),
        (&store, "update job_id set last = 2"),
    ] {
        store.upsert_manifests([daily("a"), daily("b")], ChangeSource::Declaration).await.unwrap();
        store.enqueue_many(vec![job(); 5]).await.unwrap();
        assert_eq!(check(store, CheckName::Sequences).await.finding, Finding::Ok);
        store.run(Run(back.to_owned())).await.unwrap();
        let found = check(store, CheckName::Sequences).await;
        assert_eq!(found.finding, Finding::Failure, "{found:?}");
        assert!(found.message.contains("gave 2 last, and 5 is in use"), "{found:?}");
        store.run(Run(found.sql.unwrap())).await.unwrap();
        assert_eq!(check(store, CheckName::Sequences).await.finding, Finding::Ok);
        assert_eq!(store.enqueue(job()).await.unwrap().id, JobId(6));
    }
}
