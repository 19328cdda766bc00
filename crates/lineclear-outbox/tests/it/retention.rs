//! What is removed, and when.

use std::sync::Arc;

use lineclear_outbox::{Counts, Delivery};
use tokio::sync::Semaphore;

use crate::kit::{TestStore, message, quick, until};

/// Many more than one statement removes, beside a message that is on its way all the time.
pub(crate) async fn a_busy_runner_removes_all_that_is_kept_no_longer(db: &TestStore) {
    let outbox = db.outbox().await;
    let old = if db.url.starts_with("sqlite") { "0" } else { "'2020-01-01'" };
    let digits = (0..10).map(|n| format!("select {n} as n")).collect::<Vec<_>>().join(" union all ");
    let keys = "cast(a.n * 1000 + b.n * 100 + c.n * 10 + d.n as char(10))";
    let tables = ["a", "b", "c", "d"].map(|name| format!("({digits}) {name}")).join(", ");
    let fill = format!(
        "insert into {{t}}outbox_dedup (outbox, dedup_key, created_at) select 'main', {keys}, {old} from {tables}"
    );
    db.sql(&fill).await;
    let count = "select count(*) from {t}outbox_dedup";
    assert_eq!(db.number(count).await, 10_000);
    db.write(&outbox, &[message(1)], true).await.unwrap();
    let arrive = Arc::new(Semaphore::new(0));
    let arrives = arrive.clone();
    let sink = move |_: Delivery| {
        let arrives = arrives.clone();
        async move {
            arrives.acquire().await.unwrap().forget();
            Ok(())
        }
    };
    let runner = outbox.start_with(quick(), sink).await.unwrap();
    until("all are removed", async || db.number(count).await == 0).await;
    assert_eq!(outbox.counts().await.unwrap().ready, 1, "it is still on its way");
    arrive.add_permits(1);
    until("it is recorded", async || outbox.counts().await.unwrap() == Counts::default()).await;
    runner.stop().await.unwrap();
}
