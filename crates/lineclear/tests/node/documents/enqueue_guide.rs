//! Every way to enqueue.

use std::time::Duration;

use lineclear::model::{Micros, Name, Payload};
#[cfg(feature = "sqlx")]
use lineclear::sqlx;
use lineclear::store::{NewJob, OnConflict, Store, UniqueKey};
use lineclear::{HandlerError, Node, rusqlite, tokio_postgres};

fn invoice(order: u64) -> Result<NewJob, HandlerError> {
    Ok(NewJob::new(Name::new("invoice")?, Payload::of(&order)?))
}

pub(crate) async fn one_and_many(node: &Node) -> Result<(), HandlerError> {
    // One, now.
    let job = node.enqueue("invoice", &7).await?.id;
    println!("job {job}");

    // One, with everything that can be said about it.
    #[rustfmt::skip]
    let full = NewJob {
        delay: Some(Duration::from_secs(3600)),         // in an hour, by the database's clock
        priority: 5,                                    // 0 to 31; each step is worth ten minutes of waiting
        group: Some(Name::new("billing")?),             // shares the group's limit, priority and switch
        limit_key: Some("customer:42".to_owned()),      // one at a time with this key, or what was set for it
        unique_key: Some(UniqueKey::new("invoice:8")),  // at most one living job has this key
        retries: Some(10),
        timeout: Some(Duration::from_secs(60)),
        ..invoice(8)?
    };
    node.client().enqueue_job(full).await?;

    // Many, all or none, in one statement.
    let jobs = (100..200).map(invoice).collect::<Result<Vec<_>, _>>()?;
    node.store().enqueue_many(jobs).await?;

    // Three at a time for this customer from now on.
    node.store().set_limit("customer:42", 3).await?;
    Ok(())
}

pub(crate) async fn keys_and_rules(store: &Store) -> Result<(), HandlerError> {
    let with = |key: UniqueKey| -> Result<NewJob, HandlerError> {
        Ok(NewJob { unique_key: Some(key), ..invoice(9)? })
    };
    // The second one is given the first one's id.
    let first = store.enqueue(with(UniqueKey::new("invoice:9"))?).await?;
    let second = store.enqueue(with(UniqueKey::new("invoice:9"))?).await?;
    assert!(second.existing() && second.id == first.id);

    // A caller that may ask twice: for a day, the same request is the same job, and another one is refused.
    store.enqueue(with(UniqueKey::idempotency("request:abc", Duration::from_secs(86_400)))?).await?;

    // The newest input counts, as long as the job still waits.
    let newest = UniqueKey::new("index:42").on_conflict(OnConflict::Replace);
    let due_at = Micros::new(4_102_444_800_000_000); // microseconds since 1970
    store.enqueue(NewJob { due_at, ..with(newest)? }).await?;
    Ok(())
}

// Inside a transaction of your own: the jobs exist if and only if it commits.

pub(crate) async fn in_postgres(
    store: &Store,
    client: &mut tokio_postgres::Client,
) -> Result<(), HandlerError> {
    let transaction = client.transaction().await?;
    transaction.execute("insert into orders values (7)", &[]).await?;
    store.enqueue_in(&transaction, vec![invoice(7)?]).await?;
    transaction.commit().await?;
    Ok(())
}

pub(crate) fn in_sqlite(store: &Store, connection: &mut rusqlite::Connection) -> Result<(), HandlerError> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute("insert into orders values (7)", [])?;
    store.enqueue_in_sqlite(&transaction, vec![invoice(7)?])?;
    transaction.commit()?;
    Ok(())
}

#[cfg(feature = "sqlx")]
pub(crate) async fn in_sqlx(store: &Store, connection: &mut sqlx::PgConnection) -> Result<(), HandlerError> {
    // With a `sqlx::Transaction`, pass `&mut *transaction`.
    store.enqueue_in_sqlx(connection, vec![invoice(7)?]).await?;
    Ok(())
}
