//! Every statement prepares on both databases.

use crate::db::statements;
use crate::tests::*;

#[tokio::test]
async fn every_statement_prepares_on_postgres() {
    let pg = Pg::open().await;
    let client = pg.client().await;
    for (statement, text) in Statement::ALL.iter().zip(statements::for_postgres("\"lineclear\"")) {
        client.prepare(&text).await.unwrap_or_else(|e| panic!("{}: {e:?}", statement.name()));
    }
}

/// Prepares every part of every file.
struct PrepareAll;

impl Verb for PrepareAll {
    type Answer = Vec<(&'static str, String)>;

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        let mut plans = Vec::new();
        for statement in Statement::ALL {
            let plan = session.explain(*statement, Vec::<db::Value>::new()).await?;
            plans.push((statement.name(), plan));
        }
        Ok(plans)
    }
}

#[tokio::test]
async fn every_statement_prepares_on_sqlite() {
    let store = Store::open(StoreOptions::new(":memory:").expect("a URL")).await.expect("the store opens");
    let plans = store.run(PrepareAll).await.expect("all prepare");
    assert_eq!(plans.len(), Statement::ALL.len());
}

/// PostgreSQL refuses to run a prepared statement whose columns have changed since. A newer release adds columns while nodes of the
/// release before run; so no statement may return, or insert, whatever columns a table has.
#[tokio::test]
async fn a_column_more_in_any_table_changes_no_statement() {
    let pg = Pg::open().await;
    let client = pg.client().await;
    let mut before: Vec<Vec<String>> = Vec::new();
    for is_changed in [false, true] {
        if is_changed {
            let tables = "select tablename from pg_tables where schemaname = 'lineclear'";
            for row in client.query(tables, &[]).await.expect("the tables") {
                let table: String = row.get(0);
                pg.sql(&format!("alter table lineclear.{table} add column later_note text")).await;
            }
        }
        for (at, text) in statements::for_postgres("\"lineclear\"").iter().enumerate() {
            let name = Statement::ALL[at].name();
            let statement = client.prepare(text).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
            let columns = statement.columns().iter().map(|column| column.name().to_owned()).collect();
            match is_changed {
                false => before.push(columns),
                true => assert_eq!(columns, before[at], "{name}"),
            }
        }
    }
}
