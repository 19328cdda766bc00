//! What a node sends to take jobs.

use std::time::{Duration, Instant};

use lineclear_testkit::PrivatePostgres;

use crate::journey::dispatch::dispatcher::Dispatcher;
use crate::node::pacer::Loop;
use crate::tests::*;
use crate::{Lineclear, NodeOptions, db::statements};

/// The statements that a server has logged after this many lines, by the names of their files.
fn sent(server: &PrivatePostgres, after: usize) -> Vec<String> {
    let texts = statements::for_postgres("\"lineclear\"");
    let name = |sql: &str| {
        let known = Statement::ALL.iter().zip(&texts).find(|(_, text)| text.trim() == sql.trim());
        known.map_or_else(
            || sql.split(';').next().unwrap_or_default().to_owned(),
            |(statement, _)| statement.name().to_owned(),
        )
    };
    let log = server.log().expect("a log");
    let mut entries: Vec<String> = Vec::new();
    for line in log.lines().skip(after) {
        match line.split_once("LOG:  execute ").or_else(|| line.split_once("LOG:  statement")) {
            Some((_, rest)) => entries.push(rest.split_once(": ").map_or("", |(_, sql)| sql).to_owned()),
            // The lines of a statement after the first begin with a tab.
            None if line.starts_with('\t') && !entries.is_empty() => {
                let entry = entries.last_mut().expect("one");
                entry.push('\n');
                entry.push_str(&line[1..]);
            }
            None => {}
        }
    }
    entries.iter().map(|sql| name(sql)).collect()
}

/// Job logs take every level of log lines, so that a statement for the sake of a debug line would be sent on every node.
#[tokio::test]
async fn a_take_sends_one_statement_whatever_is_logged() {
    #[cfg(feature = "logs")]
    let _logs = {
        use tracing_subscriber::layer::SubscriberExt;
        let layer = crate::logs::JobLogs::up_to(tracing_subscriber::filter::LevelFilter::TRACE);
        tracing::subscriber::set_default(tracing_subscriber::registry().with(layer))
    };
    async fn work() {}
    let server = PrivatePostgres::start(&["log_statement=all"]).await.unwrap();
    let store = Pg::store(&server.url()).await;
    let options = NodeOptions { slots: 100, ..NodeOptions::default() };
    let mut built = Lineclear::builder().options(options).kind("work", work);
    let (kinds, routing) = built.checked_kinds().unwrap();
    let shared = built.share(kinds, routing, store.clone()).await.unwrap();
    let mut dispatcher = Dispatcher::new(&shared, tokio::sync::mpsc::channel(1_000).0);
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "each pass looks for vanished workers");
        store.enqueue_many(vec![job(); 3]).await.unwrap();
        let before = server.log().unwrap().lines().count();
        dispatcher.run_once(true).await.unwrap();
        let mut sent = sent(&server, before);
        // That of the enqueue, which follows in the background.
        sent.retain(|name| name != "notify");
        // The first pass does, and one on a machine that stood still for long.
        if sent.iter().any(|name| name == "now" || name == "reclaim") {
            continue;
        }
        assert_eq!(sent, ["dispatch_open"]);
        return;
    }
}
