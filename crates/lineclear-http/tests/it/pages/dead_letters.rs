//! The dead-letter page: an action applies to exactly the jobs that its card counts.

use serde_json::{Value, json};

use crate::api::bulk_modes::dead;
use crate::kit::{Answer, Served};

async fn page(served: &Served, path: &str) -> Answer {
    served.send("GET", path, &[("Accept", "text/html")], b"").await
}

/// The cards of a page.
fn cards(page: &Answer) -> Vec<&str> {
    page.body.split("<article").skip(1).map(|card| card.split("</article>").next().unwrap()).collect()
}

/// The target of the link of a card whose address or text contains this.
fn link(card: &str, part: &str) -> String {
    let found = card.split("href=\"").skip(1).map(|rest| rest.split("</a>").next().unwrap());
    let found = found.filter(|link| link.contains(part)).last().unwrap_or_else(|| panic!("{part}: {card}"));
    found.split('"').next().unwrap().replace("&amp;", "&")
}

/// The search of an address, in the form of the API.
fn query(link: &str) -> String {
    let q = link.split("q=").nth(1).unwrap();
    q.replace("%20", " ").replace("%3A", ":").replace("%2A", "*")
}

/// Runs the bulk operation of an address at once.
async fn done(served: &Served, action: &str, q: &str) -> (Value, Value, Value) {
    let body = json!({"action": action, "q": q, "starts_in_ms": 0}).to_string();
    let made = served.post("/api/v1/bulk-operations", &body).await;
    let place = made.header("location").unwrap_or_else(|| panic!("{q}: {made:?}")).to_owned();
    let batch = served.until(&place, |batch| batch["status"] == "done").await;
    (batch["total"].clone(), batch["done"].clone(), batch["skipped"].clone())
}

async fn acknowledged_dead_letters_are_not_counted(served: &Served) {
    dead(served, 6).await;
    let letters = served.store().dead_letters(Some("awaiting"), None, 4).await.unwrap().items;
    let rest = letters.iter().map(|letter| letter.id).collect();
    assert_eq!(served.store().acknowledge(rest, "ann", None).await.unwrap().len(), 4);
    for (action, asks) in [("revive", "Revive 2 jobs?"), ("acknowledge", "Acknowledge 2 jobs?")] {
        let asked = page(served, &format!("/bulk-operations/new?action={action}&q=state:dead")).await.body;
        assert!(asked.contains(asks) && asked.contains("Only awaiting dead letters"), "{asked}");
        let dry = json!({"action": action, "q": "state:dead", "dry_run": true}).to_string();
        assert_eq!(served.post("/api/v1/bulk-operations", &dry).await.json()["count"], 2);
    }
    let asked = page(served, "/bulk-operations/new?action=retry&q=state:dead").await.body;
    assert!(asked.contains("Retry 6 jobs?") && asked.contains("acknowledged and finished jobs"), "{asked}");
    assert_eq!(done(served, "revive", "state:dead").await, (json!(2), json!(2), json!(0)));
    assert_eq!(
        served.get("/api/v1/dead-letters?status=acknowledged").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

async fn families_that_differ_only_in_their_reason_are_separate(served: &Served) {
    dead(served, 6).await;
    let oldest = "(select min(id) from {t}dead_letter)";
    served
        .sql(&format!("update {{t}}dead_letter set reason = 'retries_used_up' where id < {oldest} + 2"))
        .await;
    served
        .sql(&format!(
            "update {{t}}dead_letter set reason = 'worker_lost', fingerprint = null where id = {oldest} + 2"
        ))
        .await;
    let shown = page(served, "/dead-letters").await;
    let cards = cards(&shown);
    assert_eq!(cards.len(), 3, "{shown:?}");
    for (card, reason, count) in
        [(cards[0], "permanent", 3), (cards[1], "retries_used_up", 2), (cards[2], "worker_lost", 1)]
    {
        let jobs = if count == 1 { "job" } else { "jobs" };
        for (part, asks) in [
            ("action=revive&amp;q", "Revive"),
            ("mode=canary", "Revive"),
            ("action=acknowledge", "Acknowledge"),
        ] {
            let address = link(card, part);
            let asked = page(served, &address).await.body;
            assert!(asked.contains(&format!("{asks} {count} {jobs}?")), "{address}: {asked}");
        }
        let only = link(card, "only these");
        assert!(only.contains(&format!("reason={reason}")), "{only}");
        let these = page(served, &only).await.body;
        assert_eq!(these.matches("<tr data-key=").count(), count, "{only}: {these}");
        assert_eq!(these.matches("<article").count(), 1, "{only}: {these}");
        assert!(these.contains(&format!("<option value=\"{reason}\" selected>")), "{only}: {these}");
    }
    let revive = query(&link(cards[1], "action=revive&amp;q"));
    assert_eq!(done(served, "acknowledge", &revive).await, (json!(2), json!(2), json!(0)), "{revive}");
    let left = served.get("/api/v1/dead-letters/families").await.json();
    let left: Vec<_> = left["items"].as_array().unwrap().iter().map(|one| one["reason"].clone()).collect();
    assert_eq!(left, [json!("permanent"), json!("worker_lost")]);
    assert_eq!(page(served, "/dead-letters?reason=broken").await.status, 400);
}

async fn links_of_cards_keep_the_filter_of_the_page(served: &Served) {
    served.put("/api/v1/groups/etl", "{}").await;
    for (key, group) in [("one", json!("etl")), ("two", json!("etl")), ("three", Value::Null)] {
        let order = json!({"kind": "broken", "input": "no", "schedule": {"on_demand": true}, "group": group});
        let made = served.put(&format!("/api/v1/manifests/{key}"), &order.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert!(served.post(&format!("/api/v1/manifests/{key}/run"), "").await.status < 300);
    }
    served.until("/api/v1/dead-letters/families", |families| families["total"] == 3).await;
    for (asked, field, count) in [
        ("/dead-letters", "kind:broken", "3 jobs"),
        ("/dead-letters?manifest=one", "manifest:one", "1 job"),
        ("/dead-letters?group=etl&manifest=", "group:etl", "2 jobs"),
        ("/dead-letters?manifest=two&group=etl", "manifest:two group:etl", "1 job"),
    ] {
        let shown = page(served, asked).await;
        let card = cards(&shown)[0];
        let revive = link(card, "action=revive&amp;q");
        assert!(query(&revive).contains(field), "{asked}: {revive}");
        let confirm = page(served, &revive).await.body;
        assert!(confirm.contains(&format!("Revive {count}?")), "{asked}: {confirm}");
        let these = page(served, &link(card, "only these")).await.body;
        assert_eq!(format!("{}", these.matches("<tr data-key=").count()), count[..1], "{asked}: {these}");
    }
    let shown = page(served, "/dead-letters?manifest=one").await;
    let q = query(&link(cards(&shown)[0], "action=acknowledge"));
    assert_eq!(done(served, "acknowledge", &q).await, (json!(1), json!(1), json!(0)), "{q}");
    let left = served.get("/api/v1/dead-letters?status=awaiting").await.json();
    let left: Vec<_> = left["items"].as_array().unwrap().iter().map(|one| one["manifest"].clone()).collect();
    assert_eq!(left, [json!("three"), json!("two")], "the other manifests were not touched");
}

on_each_store! {
    acknowledged_dead_letters_are_not_counted
    families_that_differ_only_in_their_reason_are_separate
    links_of_cards_keep_the_filter_of_the_page
}
