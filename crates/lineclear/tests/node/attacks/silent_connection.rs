//! Connections that fall silent, as behind a firewall that forgets them, cost a node one deadline. It goes on by itself.

use std::time::{Duration, Instant};

use lineclear::model::{Manifest, Payload, Schedule};
use lineclear::store::{ChangeSource, NewJob};
use lineclear::{Lineclear, NodeOptions};
use lineclear_testkit::Proxy;

use crate::children::store;
use crate::kit::{TestStore, name, quick, until};

/// The deadline of statements here; the client waits a second longer, and the loops of a node are no slower.
const DEADLINE: Duration = Duration::from_secs(3);

async fn nothing() {}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_cost_a_node_one_deadline_and_are_closed() {
    let db = TestStore::postgres().await;
    let proxy = Proxy::to_url(&db.url).await.unwrap();
    let url = format!("{}?deadline={}s", proxy.url_for(&db.url), DEADLINE.as_secs());
    let options = NodeOptions { lease: Duration::from_secs(60), ..quick() };
    let node = Lineclear::builder()
        .store(url.as_str())
        .options(options)
        .kind("nothing", nothing)
        .start()
        .await
        .unwrap();
    let direct = store(&db).await;
    let second =
        Manifest::new(name("tick"), name("nothing"), Schedule::every(Duration::from_secs(1)).unwrap());
    direct.upsert_manifests([second], ChangeSource::Edit).await.unwrap();
    let done = "select count(*) from {t}execution where outcome = 'completed'";
    // All loops have used their connections.
    direct.enqueue_many(vec![NewJob::new(name("nothing"), Payload::empty()); 200]).await.unwrap();
    until("ticks and jobs run", async || db.number(done).await > 203).await;

    let before = db.number(done).await;
    proxy.silence_open();
    let silenced = Instant::now();
    let silent = proxy.connections();
    direct.enqueue_many(vec![NewJob::new(name("nothing"), Payload::empty()); 20]).await.unwrap();
    until("jobs and ticks run again", async || db.number(done).await >= before + 22).await;
    let took = silenced.elapsed();
    println!("{silent} connections fell silent; the node went on after {took:?}");
    // One deadline, the second that the client waits longer, and another of each for a machine that is busy with other tests.
    assert!(took < (DEADLINE + Duration::from_secs(1)) * 2 + Duration::from_secs(1), "{took:?}");
    let sent = String::from_utf8_lossy(&proxy.swallowed()).to_lowercase();
    assert!(!sent.contains("rollback"), "a silent connection is closed, not rolled back");
    let own = node.store().enqueue(NewJob::new(name("nothing"), Payload::empty())).await;
    drop(own);
    until("callers get an answer", async || {
        node.store().enqueue(NewJob::new(name("nothing"), Payload::empty())).await.is_ok()
    })
    .await;
    assert_eq!(db.number("select count(*) from {t}execution where outcome = 'lost'").await, 0);
    node.stop().await;
}
