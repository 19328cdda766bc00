//! What the runner cannot see from outside: a result that is recorded again because the answer of the first time was lost.

use std::time::Duration;

use lineclear_lock::Locks;

use super::{BatchRequest, Failed, Settlement};
use crate::{Message, Outbox};

async fn a_result_that_is_recorded_twice_is_charged_once(outbox: &Outbox, ids: [i64; 2]) {
    let locks = Locks::open(&outbox.url).await.unwrap();
    let held = locks.try_lock("outbox-main").await.unwrap().unwrap();
    let error = Some("busy".to_owned());
    let retry_in = Some(Duration::from_secs(60));
    let failed = vec![
        Failed { id: ids[0], attempts: Some(3), error, retry_in },
        Failed { id: ids[1], attempts: None, error: None, retry_in },
    ];
    let request = BatchRequest {
        outbox: "main".to_owned(),
        settlement: Settlement { failed, ..Settlement::default() },
        ..BatchRequest::default()
    };
    for _ in 0..2 {
        assert!(outbox.store.settle_and_fetch(held.lease().fence(), &request).await.unwrap().is_some());
    }
    let seen = outbox.store.show(ids[0]).await.unwrap().unwrap();
    assert_eq!((seen.attempts, seen.last_error.as_deref()), (3, Some("busy")));
    let behind = outbox.store.show(ids[1]).await.unwrap().unwrap();
    assert_eq!((behind.attempts, behind.last_error), (0, None), "it waits behind the first one");
    held.release().await.unwrap();
}

fn two() -> [Message; 2] {
    [1, 2].map(|number| Message::new("n", &number).unwrap().key("a"))
}

fn both(ids: Vec<Option<i64>>) -> [i64; 2] {
    [ids[0].unwrap(), ids[1].unwrap()]
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_recorded_twice_is_charged_once_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let outbox = Outbox::open(file.to_str().unwrap()).await.unwrap();
    let mut connection = rusqlite::Connection::open(&file).unwrap();
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let ids = both(outbox.write_sqlite(&transaction, &two()).unwrap());
    transaction.commit().unwrap();
    a_result_that_is_recorded_twice_is_charged_once(&outbox, ids).await;
}

#[cfg(feature = "postgres")]
mod postgres {
    use lineclear_testkit::fresh_postgres;

    use super::*;
    use crate::error::OutboxError;
    use crate::postgres::{PostgresStore, classify};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_result_that_is_recorded_twice_is_charged_once_on_postgres() {
        let database = fresh_postgres().await;
        let outbox = Outbox::open(database.url()).await.unwrap();
        let target = lineclear_lock::postgres::PostgresTarget::new(database.url()).unwrap();
        let client = target.connect("shop").await.unwrap();
        let ids = both(outbox.write_postgres(&client, &two()).await.unwrap());
        a_result_that_is_recorded_twice_is_charged_once(&outbox, ids).await;
    }

    #[tokio::test]
    async fn a_statement_after_one_that_was_cancelled_may_succeed_in_another_try() {
        let database = fresh_postgres().await;
        let store = PostgresStore::new(database.url()).unwrap();
        let failed = store
            .on(async |client| {
                client.batch_execute("begin; set local statement_timeout = 1").await.map_err(classify)?;
                let cancelled = client.batch_execute("select pg_sleep(10)").await.map_err(classify);
                assert!(matches!(cancelled, Err(OutboxError::Unavailable(_))), "{cancelled:?}");
                client.batch_execute("select 1").await.map_err(classify)
            })
            .await;
        assert!(matches!(failed, Err(OutboxError::Unavailable(_))), "{failed:?}");
    }

    /// Whoever could write an id of a gap is waited for, and nothing else is.
    #[tokio::test]
    async fn gaps_close_when_the_transactions_that_may_have_drawn_them_have_ended() {
        let database = fresh_postgres().await;
        let outbox = Outbox::open(database.url()).await.unwrap();
        let target = lineclear_lock::postgres::PostgresTarget::new(database.url()).unwrap();
        let (late, other) = (target.connect("shop").await.unwrap(), target.connect("shop").await.unwrap());
        other.batch_execute("create table other (); begin; insert into other default values").await.unwrap();
        let mut mark = crate::events::Mark::default();
        let request = BatchRequest::default();
        late.batch_execute("begin").await.unwrap();
        outbox.write_postgres(&late, &two()).await.unwrap();
        let mut look = async |drawn| outbox.store.complete(&request, [drawn, 0], &mut mark).await.unwrap();
        assert_eq!([look(5).await, look(6).await], [0, 0]);
        late.batch_execute("rollback").await.unwrap();
        assert_eq!(look(7).await, 7);
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    use mysql_async::prelude::Queryable;
    use mysql_async::{Conn, TxOpts};

    use super::*;

    async fn connect(url: &str) -> Conn {
        Conn::new(lineclear_lock::mysql::connect_options(url).unwrap()).await.unwrap()
    }

    async fn fresh() -> (Outbox, Conn) {
        let server = lineclear_testkit::mysql_url();
        let name = format!("outbox_{}", uuid::Uuid::new_v4().simple());
        connect(&server).await.query_drop(format!("create database {name}")).await.unwrap();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        (Outbox::open(&url).await.unwrap(), connect(&url).await)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_result_that_is_recorded_twice_is_charged_once_on_mysql() {
        let (outbox, mut connection) = fresh().await;
        let mut transaction = connection.start_transaction(TxOpts::default()).await.unwrap();
        let ids = both(outbox.write_mysql(&mut transaction, &two()).await.unwrap());
        transaction.commit().await.unwrap();
        a_result_that_is_recorded_twice_is_charged_once(&outbox, ids).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_gap_closes_when_no_transaction_has_written_into_it() {
        let (outbox, mut connection) = fresh().await;
        let mut late = connection.start_transaction(TxOpts::default()).await.unwrap();
        let [first, second] = both(outbox.write_mysql(&mut late, &two()).await.unwrap());
        let request = BatchRequest {
            outbox: "main".to_owned(),
            gaps: vec![(0, first), (second, 90)],
            ..BatchRequest::default()
        };
        let mut mark = crate::events::Mark::default();
        let mut look = async |drawn| outbox.store.complete(&request, [100, drawn], &mut mark).await.unwrap();
        assert_eq!([look(first - 1).await, look(second).await], [first - 1, first - 1]);
        late.rollback().await.unwrap();
        assert_eq!(look(80).await, 80);
    }
}
