//! What `docs/enqueue.md` shows is compiled and runs.

use lineclear::model::{GroupSpec, JobState};
use lineclear::store::ChangeSource;
use lineclear::{Lineclear, Node, Role, rusqlite, tokio_postgres};

use crate::documents::enqueue_guide::{in_postgres, in_sqlite, keys_and_rules, one_and_many};
use crate::kit::{TestStore, quick};

const GUIDE: &str = include_str!("../../../../../docs/enqueue.md");

#[test]
fn the_page_shows_the_code_as_it_is() {
    let code = include_str!("enqueue_guide.rs");
    assert!(GUIDE.contains(&format!("```rust\n{code}```")), "docs/enqueue.md shows other code");
}

/// A node that runs no jobs, so that the enqueued ones stay.
async fn node(db: &TestStore) -> Node {
    let options = lineclear::NodeOptions { roles: vec![Role::Cleaner], ..quick() };
    let node = Lineclear::builder().store(&db.url).options(options).start().await.unwrap();
    let billing = [("billing".to_owned(), GroupSpec::default())].into();
    node.store().upsert_groups(billing, ChangeSource::Declaration).await.unwrap();
    node
}

async fn waiting(node: &Node) -> usize {
    let waits = vec![JobState::Queued, JobState::Scheduled];
    let filter = lineclear::read::JobFilter { states: waits, ..Default::default() };
    node.store().jobs(&filter, None, 1000).await.unwrap().items.len()
}

#[tokio::test]
async fn every_way_works_on_sqlite() {
    let db = TestStore::sqlite().await;
    let node = node(&db).await;
    one_and_many(&node).await.unwrap();
    keys_and_rules(node.store()).await.unwrap();
    let mut connection = rusqlite::Connection::open(&db.url).unwrap();
    connection.execute_batch("create table orders (id integer)").unwrap();
    in_sqlite(node.store(), &mut connection).unwrap();
    assert_eq!(waiting(&node).await, 102 + 3 + 1);
}

#[tokio::test]
async fn every_way_works_on_postgres_and_the_sql_of_the_page_too() {
    let db = TestStore::postgres().await;
    let node = node(&db).await;
    one_and_many(&node).await.unwrap();
    keys_and_rules(node.store()).await.unwrap();
    let (mut client, connection) = tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("create table orders (id bigint)").await.unwrap();
    in_postgres(node.store(), &mut client).await.unwrap();
    #[cfg(feature = "sqlx")]
    {
        use lineclear::sqlx::Connection;
        let mut connection = lineclear::sqlx::PgConnection::connect(&db.url).await.unwrap();
        crate::documents::enqueue_guide::in_sqlx(node.store(), &mut connection).await.unwrap();
    }
    let before = waiting(&node).await;
    assert!(before >= 106, "{before}");
    let mut ran = 0;
    for page in [GUIDE, include_str!("../../../../../docs/database.md")] {
        for block in page.split("```sql\n").skip(1) {
            client.batch_execute(block.split("```").next().unwrap()).await.unwrap();
            ran += 1;
        }
    }
    assert!(ran >= 2, "{ran} blocks of SQL were found");
    assert!(waiting(&node).await >= before + 3);
}
