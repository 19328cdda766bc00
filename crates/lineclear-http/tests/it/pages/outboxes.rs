//! The pages of outboxes.

use lineclear_outbox::Message;
use serde_json::json;

use super::{HOSTILE, is_clean, page, submit};
use crate::api::outboxes::{die, die_in_partitions, message, reject, write};
use crate::kit::Served;

async fn the_page_says_what_an_outbox_is_until_there_is_one(served: &Served) {
    let empty = page(served, "/outbox").await;
    assert!(empty.status == 200 && empty.body.contains("No outbox in this database yet"), "{empty:?}");
    assert!(
        empty.body.contains("[outbox.main]") && empty.body.contains("aria-current=\"page\" data-key=\"x\"")
    );
    assert_eq!(page(served, "/outbox/main").await.status, 404);
    let runner = reject(served).await;
    served.until("/api/v1/outboxes", |page| page["items"][0]["runner"]["state"] == "running").await;
    let shown = page(served, "/outbox").await.body;
    assert!(shown.contains("href=\"/outbox/main\"") && shown.contains("running"), "{shown}");
    let cluster = page(served, "/cluster").await.body;
    assert!(
        cluster.contains("<strong>outbox-main</strong>") && cluster.contains("loops of all nodes"),
        "{cluster}"
    );
    runner.stop().await.unwrap();
}

async fn an_outbox_that_no_node_runs_needs_attention(served: &Served) {
    assert!(page(served, "/").await.body.contains("First steps"));
    write(served, &[message(1)]).await;
    let shown = page(served, "/").await.body;
    assert!(shown.contains("outbox main: no node runs it") && shown.contains("Needs attention"), "{shown}");
    assert!(!shown.contains("Nothing. There are no dead letters"), "{shown}");
}

async fn dead_messages_are_replayed_and_discarded_after_a_confirmation(served: &Served) {
    let hostile = Message::new(HOSTILE, &json!({HOSTILE: HOSTILE})).unwrap().key(HOSTILE);
    let ids = die(served, &[hostile, message(2), message(3)]).await;
    let shown = page(served, "/outbox/main").await;
    is_clean("/outbox/main", &shown);
    assert!(shown.body.contains("aria-current=\"true\">dead 3</a>"), "dead ones come first: {shown:?}");
    assert!(shown.body.contains("lineclear outbox show main --state dead"), "{shown:?}");
    let one = page(served, &format!("/outbox/main/messages/{}", ids[0])).await;
    is_clean("message", &one);
    assert!(
        one.body.contains("unknown customer")
            && one.body.contains(&format!("/outbox/main/replay?id={}", ids[0]))
    );

    let asked = page(served, &format!("/outbox/main/replay?id={}&id={}", ids[0], ids[1])).await;
    assert!(asked.body.contains("Replay 2 messages of main?"), "{asked:?}");
    assert!(asked.body.contains(&format!("lineclear outbox replay main {} {}", ids[0], ids[1])), "{asked:?}");
    let done = submit(served, "/outbox/main/replay", &format!("ids={}%2C{}", ids[0], ids[1])).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/outbox/main")), "{done:?}");
    let asked = page(served, "/outbox/main/discard").await.body;
    assert!(
        asked.contains("Discard all 1 dead messages of main?")
            && asked.contains("lineclear outbox discard main --all"),
        "{asked}"
    );
    assert_eq!(submit(served, "/outbox/main/discard", "ids=").await.status, 303);
    let counts = served.get("/api/v1/outboxes").await.json();
    assert_eq!(
        (&counts["items"][0]["ready"], &counts["items"][0]["dead"]),
        (&json!(2), &json!(0)),
        "{counts}"
    );
    for (bad, status) in [
        ("/outbox/main?state=x", 400),
        ("/outbox/main/replay?x=1", 400),
        ("/outbox/main/messages/x", 404),
        ("/outbox/man", 404),
    ] {
        assert_eq!(page(served, bad).await.status, status, "{bad}");
    }
    assert_eq!(submit(served, "/outbox/main/replay", "ids=x").await.status, 422);
}

on_each_store! {
    the_page_says_what_an_outbox_is_until_there_is_one
    an_outbox_that_no_node_runs_needs_attention
    dead_messages_are_replayed_and_discarded_after_a_confirmation
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_has_pages_of_its_own() {
    let served = Served::postgres().await;
    let ids = die_in_partitions(&served).await;
    let all = page(&served, "/outbox").await.body;
    assert!(all.contains("href=\"/outbox/orders%2F0\"") && all.contains("orders/1"), "{all}");
    let shown = page(&served, "/outbox/orders%2F0").await;
    assert!(
        shown.status == 200 && shown.body.contains("lineclear outbox show orders/0 --state dead"),
        "{shown:?}"
    );
    assert!(shown.body.contains(&format!("/outbox/orders%2F0/messages/{}", ids[0])), "{shown:?}");
    let one = page(&served, &format!("/outbox/orders%2F0/messages/{}", ids[0])).await;
    assert!(one.status == 200 && one.body.contains("unknown customer"), "{one:?}");
    let asked = page(&served, &format!("/outbox/orders%2F0/replay?id={}", ids[0])).await;
    assert!(asked.body.contains(&format!("Replay message {} of orders/0?", ids[0])), "{asked:?}");
    let done = submit(&served, "/outbox/orders%2F0/replay", &format!("ids={}", ids[0])).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/outbox/orders%2F0")), "{done:?}");
    assert_eq!(page(&served, "/outbox/orders%2F64").await.status, 404);
    served.end().await;
}
