//! Tests that need internals: every statement prepares, plans use their indexes, and races run statement by statement.

mod doctor;
mod costs;
mod cursor;
mod marks;
mod lanes;
mod query_plans;
mod races;
mod rerank;
mod statements;
mod take;
mod waits;

use std::collections::BTreeMap;

use lineclear_model::{GroupSpec, Manifest, Name, Payload, Schedule};
use lineclear_testkit::{PostgresDatabase, Template};

use crate::db::statements::Statement;
use crate::db::{self, Db, Postgres, Session, Verb};
use crate::journey::claim::{Claim, Lease};

use crate::store::*;

/// A store on a new PostgreSQL database.
struct Pg {
    // First, so that its connections end before the database does.
    store: Store,
    database: PostgresDatabase,
}

impl Pg {
    async fn open() -> Pg {
        let migrations = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let build = async |url: String| drop(Pg::store(&url).await);
        let database = Template::of_folder("lineclear", migrations).postgres(build).await;
        Pg { store: Pg::store(database.url()).await, database }
    }

    async fn store(url: &str) -> Store {
        let options = StoreOptions::new(url).expect("a URL").connections(12);
        Store::open(options).await.expect("the store opens")
    }

    fn db(&self) -> &Postgres {
        match &self.store.db {
            Db::Postgres(db) => db,
            Db::Sqlite(_) => unreachable!("opened above"),
        }
    }

    /// Runs a verb and leaves its transaction open.
    async fn begin<V: Verb>(&self, verb: &V) -> (V::Answer, Open) {
        let mut session = Session::Postgres(self.db().session(true).await.expect("a connection"));
        let answer = verb.run(&mut session).await.expect("the verb runs");
        (answer, Open(session))
    }

    /// Waits until a session of this database waits for a lock.
    async fn until_a_session_waits(&self) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let waiting = "select count(*) from pg_stat_activity where datname = current_database() \
                           and wait_event_type = 'Lock'";
            if self.number(waiting).await > 0 {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "no session waits for a lock");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Lets a task that never waits for a lock meet the transaction that is open, a few times. If it comes later, nothing is lost but
    /// the meeting.
    async fn let_it_try(&self) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(self.database.url(), tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    async fn sql(&self, sql: &str) {
        self.client().await.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client().await.query_one(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
    }

    /// Deadlocks so far. Connections report their counts when they end, so they are ended first.
    async fn deadlocks(&self) -> i64 {
        self.sql(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity \
                  where datname = current_database() and pid <> pg_backend_pid()",
        )
        .await;
        self.number("select deadlocks from pg_stat_database where datname = current_database()").await
    }

    /// Transactions so far, a statement for itself among them. Ends all connections, as for deadlocks.
    async fn commits(&self) -> i64 {
        self.deadlocks().await;
        self.number("select xact_commit from pg_stat_database where datname = current_database()").await
    }

    async fn take(&self, node: i64, most: u32) -> Vec<Claim> {
        self.store
            .dispatch_into_lease(Dispatch::new(main_route(), most), lease(node))
            .await
            .expect("dispatch")
    }

    async fn group(&self, name: &str, max: u32) {
        let spec = GroupSpec { limit: Some(max), ..GroupSpec::default() };
        self.store
            .upsert_groups(BTreeMap::from([(name.to_owned(), spec)]), ChangeSource::Edit)
            .await
            .expect("group");
    }
}

/// A transaction that has done its work and not yet ended.
struct Open(Session);

impl Open {
    async fn commit(mut self) {
        let Session::Postgres(session) = &mut self.0 else { unreachable!("opened on PostgreSQL") };
        session.commit().await.expect("commit");
    }

    async fn roll_back(mut self) {
        let Session::Postgres(session) = &mut self.0 else { unreachable!("opened on PostgreSQL") };
        session.roll_back().await;
    }
}

fn lease(node: i64) -> Lease {
    Lease { node: NodeId(node), length: std::time::Duration::from_secs(30) }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn job() -> NewJob {
    NewJob::new(name("work"), Payload::parse("{}").expect("a payload"))
}

fn daily(key: &str) -> Manifest {
    let day = std::time::Duration::from_secs(86_400);
    Manifest::new(name(key), name("work"), Schedule::every(day).expect("a schedule"))
}
