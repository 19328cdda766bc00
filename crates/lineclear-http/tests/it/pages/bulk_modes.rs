//! Modes of bulk operations in the dashboard.

use serde_json::json;

use crate::api::bulk_modes::dead;
use crate::kit::{Answer, Served};

const HTML: (&str, &str) = ("Accept", "text/html");
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

async fn page(served: &Served, path: &str) -> Answer {
    served.send("GET", path, &[HTML], b"").await
}

async fn submit(served: &Served, form: &str) -> Answer {
    served.send("POST", "/bulk-operations/new", &[HTML, SAME, FORM], form.as_bytes()).await
}

async fn a_family_of_dead_letters_offers_a_canary_and_shows_its_result(served: &Served) {
    dead(served, 3).await;
    let shown = page(served, "/dead-letters").await.body;
    let link = shown.split("href=\"").find(|part| part.contains("mode=canary")).expect("a canary");
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let asked = page(served, &link).await;
    assert!(
        asked.body.contains("Revive 3 jobs?") && asked.body.contains("value=\"canary\" checked"),
        "{asked:?}"
    );
    assert!(asked.body.contains(" --canary</code>"), "{asked:?}");
    let q = link.split("q=").nth(1).unwrap();
    let made = submit(served, &format!("action=revive&q={q}&mode=canary&over=10m")).await;
    assert_eq!(made.status, 303, "{made:?}");
    let path = made.header("location").unwrap().to_owned();
    assert!(
        page(served, &path)
            .await
            .body
            .contains("One job runs first; the others follow when it has completed.")
    );
    let ended = served.until(&format!("/api/v1{path}"), |batch| batch["status"] == "cancelled").await;
    let job = ended["canary_job_id"].as_str().unwrap();
    let said = page(served, &path).await.body;
    assert!(said.contains(&format!("href=\"/jobs/{job}\"")), "{said}");
    assert!(
        said.contains(&format!("It stopped: its canary, job {job}, died again. No other job was changed.")),
        "{said}"
    );
}

async fn a_bulk_operation_is_spread_over_the_given_time(served: &Served) {
    dead(served, 2).await;
    let made = submit(served, "action=revive&q=state:dead&mode=spread&over=2h").await;
    assert_eq!(made.status, 303, "{made:?}");
    let path = made.header("location").unwrap().to_owned();
    let batch = served.get(&format!("/api/v1{path}")).await.json();
    assert_eq!((&batch["mode"], &batch["over_ms"]), (&json!("spread"), &json!(7_200_000)));
    assert!(page(served, &path).await.body.contains("become due one after the other, over 2"));
}

async fn only_retry_and_revive_have_modes_and_invalid_ones_are_refused(served: &Served) {
    for action in ["retry", "revive"] {
        let asked = page(served, &format!("/bulk-operations/new?action={action}&q=id:1")).await.body;
        assert!(asked.contains("value=\"all\" checked") && asked.contains("name=\"over\""), "{asked}");
    }
    for action in ["cancel", "acknowledge"] {
        let asked = page(served, &format!("/bulk-operations/new?action={action}&q=id:1")).await.body;
        assert!(!asked.contains("name=\"mode\""), "{asked}");
        assert_eq!(
            page(served, &format!("/bulk-operations/new?action={action}&q=id:1&mode=canary")).await.status,
            400
        );
    }
    assert_eq!(page(served, "/bulk-operations/new?action=revive&q=id:1&mode=slowly").await.status, 400);
    for form in ["mode=spread&over=soon", "mode=spread", "mode=slowly", "mode=spread&over=900d"] {
        let refused = submit(served, &format!("action=revive&q=id:1&{form}")).await;
        assert!((400..500).contains(&refused.status), "{form}: {refused:?}");
    }
    assert_eq!(served.get("/api/v1/bulk-operations").await.json()["items"], json!([]));
}

on_each_store! {
    a_family_of_dead_letters_offers_a_canary_and_shows_its_result
    a_bulk_operation_is_spread_over_the_given_time
    only_retry_and_revive_have_modes_and_invalid_ones_are_refused
}
