//! What the guide shows.

use super::kit::{Projection, caught_up, log, quick};
use crate::kit::TestStore;

pub(crate) async fn the_guide_works(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let guide: Vec<&str> =
        include_str!("../../../../../docs/subscriptions.md").split("```sql\n").skip(1).collect();
    let block = |number: usize| guide[number].split("```").next().unwrap();
    let at = usize::from(db.url.starts_with("sqlite"));
    db.sql(block(at)).await;
    let events = log.read_stream("order-42", 0, 10).await.unwrap();
    assert_eq!((events.len(), &*events[0].kind), (1, "order.placed"));
    assert_eq!(events[0].payload::<serde_json::Value>().unwrap()["item"], "tea");
    let note = projection.external();
    let running = log
        .subscribe_with("mailer", quick(), move |mut event: lineclear_outbox::Event| {
            event.payload = r#"{"n": 1}"#.to_owned();
            note(event)
        })
        .await
        .unwrap();
    caught_up(&log, "mailer").await;
    assert_eq!(projection.got()[0].version, 1);
    running.stop().await.unwrap();
}
