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

/// As a newer release does in a rolling upgrade. PostgreSQL refuses statements that were prepared before, if their columns change.
#[tokio::test]
async fn a_statement_that_was_prepared_before_its_table_got_a_column_is_prepared_anew() {
    let pg = Pg::open().await;
    let audit = async || pg.store.audit(&AuditFilter::default(), None, 10).await.expect("the audit is read");
    audit().await;
    pg.sql("alter table lineclear.audit add column later_note text").await;
    audit().await;
}
