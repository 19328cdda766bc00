//! Nodes that are killed between their effects and the commit.

use std::time::Duration;

use lineclear_outbox::NewEvent;
use lineclear_testkit::{Child, Program};

use super::kit::{ANY, append_or, log};
use crate::kills::example;
use crate::kit::{TestStore, until_within};

const EVENTS: i64 = 400;
const KILLS: usize = 5;
const LIMIT: Duration = Duration::from_secs(120);

fn start(db: &TestStore, pause_ms: &str) -> Child {
    Program::at(example("subscription_node")).args([db.url.as_str(), "3000", pause_ms]).start().unwrap()
}

async fn killed_nodes(db: &TestStore) {
    let log = log(db).await;
    let auto = if db.url.starts_with("sqlite") {
        "id integer primary key autoincrement"
    } else {
        "id bigint generated always as identity primary key"
    };
    db.sql(&format!("create table effect ({auto}, n bigint not null)")).await;
    let events: Vec<NewEvent> = (0..EVENTS).map(|number| NewEvent::new("n", &number).unwrap()).collect();
    append_or(db, &log, ("a", ANY), &events, true).await.unwrap();

    // In one statement: what a killed transaction did is in both, or in neither.
    let torn = "select abs((select count(*) from effect) - (select coalesce(max(handled), 0) from {t}subscription_checkpoint))";
    for kill in 0..KILLS {
        // The first ones are killed in their first page, the others after some that were committed.
        let mut node = start(db, if kill < 3 { "1000" } else { "20" });
        let pages = if kill < 3 { 1 } else { 4 };
        until_within(LIMIT, "it has effects", async || node.stdout().len() >= pages).await;
        node.kill().unwrap();
        assert_eq!(db.number(torn).await, 0, "kill {kill}");
    }
    let begun = db.number("select count(*) from effect").await;
    assert!(begun > 0 && begun < EVENTS, "{begun}");
    let node = start(db, "0");
    until_within(LIMIT, "all is handled", async || {
        log.wait_until_caught_up("notes", Duration::ZERO).await.unwrap()
    })
    .await;
    drop(node);
    assert_eq!(db.number(torn).await, 0);
    assert_eq!(db.number("select count(*) from effect").await, EVENTS, "each has its effect, once");
    let order =
        "select count(*) from (select n - lag(n) over (order by id) as step from effect) s where step <> 1";
    assert_eq!(db.number(order).await, 0, "in order");
    let seen = log.show("notes").await.unwrap().unwrap();
    assert_eq!((seen.failures, seen.last_error), (0, None), "no kill was charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_leave_neither_effects_nor_a_checkpoint_on_postgres() {
    killed_nodes(&TestStore::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nodes_leave_neither_effects_nor_a_checkpoint_on_sqlite() {
    killed_nodes(&TestStore::sqlite()).await;
}
