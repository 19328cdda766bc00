//! The pages of subscriptions.

use lineclear_outbox::{NewEvent, OnPoison};
use serde_json::json;

use super::{HOSTILE, is_clean, page, submit};
use crate::api::subscriptions::{append, event, park, project, reject};
use crate::kit::Served;

async fn the_page_says_what_a_subscription_is_until_there_is_one(served: &Served) {
    let empty = page(served, "/subscriptions").await;
    assert!(empty.status == 200 && empty.body.contains("No event log in this database yet"), "{empty:?}");
    assert!(
        empty.body.contains("href=\"/outbox\"")
            && empty.body.contains("aria-current=\"page\" data-key=\"x\"")
    );
    assert!(page(served, "/outbox").await.body.contains("href=\"/subscriptions\""));
    assert_eq!(page(served, "/subscriptions/mailer").await.status, 404);
    let running = project(served, "totals").await;
    served.until("/api/v1/subscriptions/totals", |one| one["runner"]["state"] == "running").await;
    let node = served.get("/api/v1/subscriptions/totals").await.json()["runner"]["node"].clone();
    let shown = page(served, "/subscriptions").await.body;
    assert!(
        shown.contains("href=\"/subscriptions/totals\"") && shown.contains(node.as_str().unwrap()),
        "{shown}"
    );
    running.stop().await.unwrap();
}

async fn a_stopped_subscription_needs_attention_and_is_operated(served: &Served) {
    let positions = append(served, "order-1", &[event(1), event(2)]).await;
    let running = reject(served, "mailer", OnPoison::Stop).await;
    served.until("/api/v1/subscriptions/mailer", |one| one["state"] == "stopped").await;
    running.stop().await.unwrap();
    let overview = page(served, "/").await.body;
    assert!(
        overview.contains("subscription mailer stopped: unknown customer")
            && overview.contains("Needs attention"),
        "{overview}"
    );
    let path = "/subscriptions/mailer";
    let shown = page(served, path).await.body;
    assert!(shown.contains("lineclear subscription show mailer") && shown.contains("data-live"), "{shown}");
    for verb in ["skip", "resume", "pause", "reset"] {
        assert!(shown.contains(&format!("href=\"{path}/{verb}\"")), "{verb}: {shown}");
    }
    assert!(!shown.contains("/rebuild\""), "its effects are elsewhere: {shown}");

    let asked = page(served, &format!("{path}/skip")).await.body;
    let cli = format!("lineclear subscription skip mailer --position {}", positions[0]);
    assert!(asked.contains("unknown customer") && asked.contains(&cli), "{asked}");
    let done = submit(served, &format!("{path}/skip"), &format!("position={}", positions[0])).await;
    assert_eq!((done.status, done.header("location")), (303, Some(path)), "{done:?}");
    assert_eq!(submit(served, &format!("{path}/skip"), "").await.status, 409);
    assert!(
        page(served, &format!("{path}/pause")).await.body.contains("lineclear subscription pause mailer")
    );
    assert_eq!(submit(served, &format!("{path}/pause"), "reason=the+schema+changes").await.status, 303);
    assert!(page(served, path).await.body.contains("the schema changes"));
    assert_eq!(submit(served, &format!("{path}/resume"), "").await.status, 303);
    let asked = page(served, &format!("{path}/reset")).await.body;
    assert!(asked.contains("lineclear subscription reset mailer --to POSITION"), "{asked}");
    assert_eq!(submit(served, &format!("{path}/reset"), "to=start").await.status, 422);
    assert_eq!(submit(served, &format!("{path}/reset"), "to=beginning").await.status, 303);
    let one = served.get("/api/v1/subscriptions/mailer").await.json();
    assert_eq!((&one["position"], &one["state"]), (&json!("0"), &json!("running")), "{one}");
    assert_eq!(submit(served, &format!("{path}/rebuild"), "").await.status, 409);
}

async fn a_rebuild_is_begun_swapped_and_cancelled_after_a_confirmation(served: &Served) {
    append(served, "order-1", &[event(1)]).await;
    project(served, "totals").await.stop().await.unwrap();
    let path = "/subscriptions/totals";
    let asked = page(served, &format!("{path}/rebuild")).await.body;
    assert!(
        asked.contains("No node runs this subscription now")
            && asked.contains("lineclear subscription rebuild totals"),
        "{asked}"
    );
    assert_eq!(submit(served, &format!("{path}/rebuild"), "on_request=true").await.status, 303);
    let shown = page(served, path).await.body;
    assert!(
        shown.contains("It waits for a swap.") && shown.contains(&format!("{path}/cancel-rebuild")),
        "{shown}"
    );
    assert_eq!(submit(served, &format!("{path}/swap"), "").await.status, 303);
    assert!(page(served, path).await.body.contains("as soon as it has caught up"));
    assert_eq!(submit(served, &format!("{path}/cancel-rebuild"), "").await.status, 303);
    assert_eq!(submit(served, &format!("{path}/cancel-rebuild"), "").await.status, 409);
}

async fn parked_events_are_replayed_and_discarded_after_a_confirmation(served: &Served) {
    let hostile = NewEvent::new(HOSTILE, &json!({HOSTILE: HOSTILE})).unwrap();
    park(served, "mailer", &[hostile, event(2), event(3)]).await;
    let path = "/subscriptions/mailer";
    let shown = page(served, path).await;
    is_clean(path, &shown);
    assert!(shown.body.contains("unknown customer") && shown.body.contains("Replay all parked"), "{shown:?}");
    let page_of = served.get("/api/v1/subscriptions/mailer/parked").await.json();
    let id = page_of["items"][0]["id"].as_str().unwrap();
    let one = page(served, &format!("{path}/parked/{id}")).await;
    is_clean("parked", &one);
    assert!(one.body.contains(&format!("href=\"{path}/replay?id={id}\"")), "{one:?}");
    assert!(!one.body.contains("hunter2"), "{one:?}");
    let asked = page(served, &format!("{path}/replay?id={id}")).await.body;
    assert!(asked.contains(&format!("lineclear subscription replay mailer {id}")), "{asked}");
    let done = submit(served, &format!("{path}/replay"), &format!("ids={id}")).await;
    assert_eq!((done.status, done.header("location")), (303, Some(path)), "{done:?}");
    assert!(page(served, path).await.body.contains("is replayed"));
    let asked = page(served, &format!("{path}/discard")).await.body;
    assert!(asked.contains("lineclear subscription discard mailer --all"), "{asked}");
    assert_eq!(submit(served, &format!("{path}/discard"), "ids=").await.status, 303);
    assert_eq!(served.get("/api/v1/subscriptions/mailer").await.json()["parked"], 0);
    for (bad, status) in
        [("?x=1", 400), ("/replay?x=1", 400), ("/replay?id=x", 404), ("/parked/x", 404), ("/parked/999", 404)]
    {
        assert_eq!(page(served, &format!("{path}{bad}")).await.status, status, "{bad}");
    }
    assert_eq!(submit(served, &format!("{path}/replay"), "ids=x").await.status, 422);
}

on_each_store! {
    the_page_says_what_a_subscription_is_until_there_is_one
    a_stopped_subscription_needs_attention_and_is_operated
    a_rebuild_is_begun_swapped_and_cancelled_after_a_confirmation
    parked_events_are_replayed_and_discarded_after_a_confirmation
}
