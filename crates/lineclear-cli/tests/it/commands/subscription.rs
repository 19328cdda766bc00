//! `lineclear subscription`.

use std::time::Duration;

use lineclear::outbox::{
    Event, EventLog, HandlerError, OnPoison, Page, PostgresHandler, SubscriptionOptions,
};
use serde_json::Value;

use super::outbox::url;
use crate::commands::job::{at, each_way, until};

/// Appends with SQL alone, as programs in other languages do.
async fn append(url: &str, count: u32) {
    if url.starts_with("postgres") {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..count {
            let sql = "select lineclear.event_append('order-1', 'order.placed', '{\"to\": \"ada\", \"password\": \"hunter2\"}')";
            client.query(sql, &[]).await.unwrap();
        }
        return;
    }
    let file = rusqlite::Connection::open(url).unwrap();
    file.busy_timeout(Duration::from_secs(30)).unwrap();
    for _ in 0..count {
        file.execute_batch(
            "begin immediate;
             insert into lineclear_event_stream (stream, version) values ('order-1', 1)
               on conflict (stream) do update set version = version + 1;
             insert into lineclear_event (stream, version, type, payload)
               select stream, version, 'order.placed', '{\"to\": \"ada\", \"password\": \"hunter2\"}'
               from lineclear_event_stream where stream = 'order-1';
             commit",
        )
        .unwrap();
    }
}

/// Runs a subscription that wants no event, until `is`.
async fn reject(log: &EventLog, name: &str, on_poison: OnPoison, is: impl Fn() -> bool) {
    let options = SubscriptionOptions { on_poison, ..SubscriptionOptions::default() };
    let handler = |_: Event| std::future::ready(Err::<(), _>(HandlerError::reject("unknown customer")));
    let running = log.subscribe_with(name, options, handler).await.unwrap();
    tokio::task::block_in_place(|| until(is));
    running.stop().await.unwrap();
}

struct Nothing;

impl PostgresHandler for Nothing {
    async fn handle(&self, _: &Page, _: &tokio_postgres::Transaction<'_>) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Makes a subscription whose effects are in the database, and stops it.
async fn project(log: &EventLog, url: &str, name: &str) {
    let options = SubscriptionOptions::default();
    let running = if url.starts_with("postgres") {
        log.subscribe_postgres(name, options, Nothing).await.unwrap()
    } else {
        log.subscribe_sqlite(name, options, |_: &Page, _: &rusqlite::Transaction<'_>| Ok(())).await.unwrap()
    };
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_listed_shown_and_operated() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[&["subscription"], args, asked].concat());
        let json = |args: &[&str]| -> Value { serde_json::from_str(&run(args).out).unwrap() };
        let none = run(&["list"]);
        assert_eq!(
            (none.code, none.out.as_str()),
            (Some(0), "NAME\tSTATE\tNODE\tPOSITION\tHEAD\tBEHIND\tLAG\tPARKED\tERROR\n")
        );
        assert_eq!(run(&["show", "mailer"]).code, Some(3));
        let url = url(dir, asked);
        assert!(EventLog::open_existing(&url).await.unwrap().is_none(), "looking creates no tables");
        let log = EventLog::open(&url).await.unwrap();
        append(&url, 3).await;
        reject(&log, "mailer", OnPoison::Stop, || run(&["list"]).out.contains("\nmailer\tstopped\t")).await;

        if let ["--server", server] = asked {
            let metrics = format!("{server}/metrics");
            let answer = std::process::Command::new("curl").args(["-s", &metrics]).output().unwrap();
            let text = String::from_utf8(answer.stdout).unwrap();
            assert!(
                text.contains("lineclear_subscription_lag_events{subscription=\"mailer\"} 3\n"),
                "{text}"
            );
            assert!(text.contains("lineclear_subscription_lag_seconds{subscription=\"mailer\"} "), "{text}");
        }
        let listed = run(&["list"]).out;
        assert!(listed.contains("\t0\t3\t3\t") && listed.contains("unknown customer"), "{listed}");
        let slip = run(&["show", "mialer"]);
        assert!(slip.code == Some(3) && slip.err.contains("did you mean mailer?"), "{}", slip.err);
        let one = run(&["show", "mailer"]).out;
        assert!(one.contains("fails at\t1\n") && one.contains("effects\texternal\n"), "{one}");

        assert_eq!(run(&["skip", "mailer", "--position", "2"]).code, Some(5), "it fails at another one");
        assert_eq!(run(&["skip", "mailer", "--position", "1"]).out, "mailer goes on after position 1\n");
        assert_eq!(run(&["skip", "mailer"]).code, Some(5));
        assert_eq!(
            run(&["pause", "mailer", "--reason", "the schema changes"]).out,
            "mailer is paused at position 1\n"
        );
        assert_eq!(run(&["pause", "mailer"]).out, "mailer is paused already, at position 1\n");
        assert_eq!(json(&["show", "mailer", "--json"])["reason"], "the schema changes");
        assert_eq!(run(&["resume", "mailer"]).out, "mailer goes on after position 1\n");
        assert_eq!(run(&["resume", "mailer"]).out, "mailer is neither paused nor stopped\n");
        assert_eq!(run(&["reset", "mailer", "--to", "end"]).code, Some(2), "it cannot be confirmed");
        assert_eq!(run(&["reset", "mailer", "--to", "4", "-y"]).code, Some(2), "it is beyond the log");
        assert_eq!(json(&["reset", "mailer", "--to", "end", "-y", "--json"])["position"], "3");
        assert_eq!(
            run(&["reset", "mailer", "--to", "beginning", "-y"]).out,
            "mailer goes on after position 0\n"
        );

        reject(&log, "mailer", OnPoison::Park, || json(&["show", "mailer", "--json"])["parked"] == 3).await;
        let parked = run(&["parked", "mailer"]).out;
        assert!(
            parked.starts_with("ID\tPOSITION\tTYPE\tSTREAM\tATTEMPTS\tPARKED\tREPLAYS\tERROR\n"),
            "{parked}"
        );
        assert_eq!(parked.matches("unknown customer").count(), 3, "{parked}");
        let id = parked.lines().nth(1).unwrap().split('\t').next().unwrap();
        let one = run(&["parked", "mailer", id]).out;
        assert!(one.contains("payload\t{\"to\":\"ada\"") && !one.contains("hunter2"), "{one}");
        assert_eq!(run(&["replay", "mailer"]).code, Some(2), "which?");
        assert_eq!(run(&["discard", "mailer", "--all"]).code, Some(2), "it cannot be confirmed");
        assert_eq!(run(&["replay", "mailer", id]).out, "1 parked event replayed\n");
        assert_eq!(run(&["discard", "mailer", id]).out, "1 parked event discarded\n");
        assert_eq!(json(&["discard", "mailer", "--all", "--yes", "--json"])["count"], 2);

        let refused = run(&["rebuild", "mailer"]);
        assert!(refused.code == Some(5) && refused.err.contains("reset it"), "{}", refused.err);
        project(&log, &url, "totals").await;
        assert_eq!(
            run(&["rebuild", "totals"]).out,
            "version 2 of totals is noted; no node runs totals now, so start the program that subscribes it\n"
        );
        let shown = run(&["show", "totals"]).out;
        assert!(
            shown.contains("rebuild\tversion 2 is running at 0, 3 behind, swaps when it has caught up\n"),
            "{shown}"
        );
        assert_eq!(run(&["rebuild", "totals", "--cancel"]).out, "version 2 of totals is cancelled\n");
        assert_eq!(run(&["rebuild", "totals", "--swap"]).code, Some(5));
    })
    .await;
}
