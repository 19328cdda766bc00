//! `lineclear outbox`, and outboxes that a server delivers by its settings.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use lineclear::outbox::{Delivery, DeliveryError, Outbox};
use lineclear_testkit::fresh_postgres;
use serde_json::Value;
use tempfile::TempDir;

use crate::commands::job::{at, each_way, until};
use crate::commands::serve::serve;

/// The database of the server.
pub(crate) fn url(dir: &TempDir, asked: &[&str]) -> String {
    match asked {
        ["--db", url] if url.starts_with("postgres") => (*url).to_owned(),
        _ => dir.path().join("lineclear.db").display().to_string(),
    }
}

/// Writes messages with SQL alone, as programs in other languages do.
async fn write(url: &str, topics: &[&str], outbox: &str) {
    if url.starts_with("postgres") {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        for topic in topics {
            let sql = "select lineclear.outbox_write($1, '{\"to\": \"ada\", \"password\": \"hunter2\"}', outbox => $2)";
            client.query(sql, &[topic, &outbox]).await.unwrap();
        }
    } else {
        let file = rusqlite::Connection::open(url).unwrap();
        file.busy_timeout(Duration::from_secs(30)).unwrap();
        for topic in topics {
            let sql = "insert into lineclear_outbox_message (topic, payload, outbox) values (?1, '{\"to\": \"ada\", \"password\": \"hunter2\"}', ?2)";
            file.execute(sql, [topic, &outbox]).unwrap();
        }
    }
}

/// Delivers to a receiver that wants nothing, until so many are dead.
async fn reject(outbox: &Outbox, count: u64) {
    let sink = |_: Delivery| std::future::ready(Err::<(), _>(DeliveryError::reject("unknown customer")));
    let runner = outbox.start(sink).await.unwrap();
    while outbox.counts().await.unwrap().dead < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runner.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_listed_shown_replayed_and_discarded() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[&["outbox"], args, asked].concat());
        let none = run(&["list"]);
        assert_eq!(
            (none.code, none.out.as_str()),
            (Some(0), "NAME\tRUNNER\tNODE\tREADY\tLAG\tWAITING\tDEAD\tERROR\n")
        );
        assert_eq!(run(&["show", "main"]).code, Some(3));
        let url = url(dir, asked);
        let outbox = Outbox::open(&url).await.unwrap();
        write(&url, &["a", "b", "c"], "main").await;
        reject(&outbox, 3).await;

        let listed = run(&["list"]).out;
        assert!(listed.contains("\nmain\t\t\t0\t\t0\t3\t"), "{listed}");
        let slip = run(&["show", "mian"]);
        assert!(slip.code == Some(3) && slip.err.contains("did you mean main?"), "{}", slip.err);
        let dead = run(&["show", "main", "--state", "dead"]).out;
        assert!(dead.starts_with("ID\tSTATE\tTOPIC\tKEY\tATTEMPTS\tWRITTEN\tAT\tERROR\n"), "{dead}");
        assert_eq!((dead.lines().count(), dead.matches("unknown customer").count()), (4, 3), "{dead}");
        let one = run(&["show", "main", "1"]).out;
        assert!(one.contains("payload\t{\"to\":\"ada\"") && !one.contains("hunter2"), "{one}");
        let json: Value = serde_json::from_str(&run(&["show", "main", "2", "--json"]).out).unwrap();
        assert_eq!((&json["topic"], &json["payload"]["to"]), (&"b".into(), &"ada".into()), "{json}");
        assert_eq!(run(&["show", "main", "--state", "lost"]).code, Some(2));

        assert_eq!(run(&["replay", "main"]).code, Some(2), "which?");
        assert_eq!(run(&["replay", "main", "--all"]).code, Some(2), "it cannot be confirmed");
        assert_eq!(run(&["replay", "main", "1", "2"]).out, "2 dead messages replayed\n");
        assert_eq!(run(&["replay", "main", "1"]).out, "0 dead messages replayed\n");
        assert_eq!(run(&["discard", "main", "3"]).out, "1 dead message discarded\n");
        reject(&outbox, 2).await;
        let all: Value =
            serde_json::from_str(&run(&["discard", "main", "--all", "--yes", "--json"]).out).unwrap();
        assert_eq!(all, serde_json::json!({"count": 2, "next": null}));
        assert!(run(&["list"]).out.contains("\nmain\t\t\t0\t\t0\t0\t"), "{}", run(&["list"]).out);
    })
    .await;
}

/// On the database, and through a server.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_shown_and_replayed_under_their_names() {
    let (database, dir) = (fresh_postgres().await, tempfile::tempdir().unwrap());
    let outbox = Outbox::open_named(database.url(), "orders").await.unwrap();
    outbox.partitioned(2).await.unwrap();
    write(database.url(), &["a", "b", "c", "d", "e", "f", "g", "h"], "orders").await;
    let sink = |_: Delivery| std::future::ready(Err::<(), _>(DeliveryError::reject("unknown customer")));
    let runner = outbox.start(sink).await.unwrap();
    let partitions = outbox.partitions().await.unwrap();
    let dead = async || {
        let mut dead = Vec::new();
        for partition in &partitions {
            dead.push(partition.counts().await.unwrap().dead);
        }
        dead
    };
    while dead().await.iter().sum::<u64>() < 8 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runner.stop().await.unwrap();
    let dead = dead().await;
    let (mut server, address) = serve(&dir, &["--db", database.url()]).await;
    let address = format!("http://{address}");
    for (partition, way) in [(0, ["--db", database.url()]), (1, ["--server", &address])] {
        let run = |args: &[&str]| at(&dir, &[&["outbox"], args, way.as_slice()].concat());
        let (name, count) = (format!("orders/{partition}"), dead[partition]);
        assert!(run(&["list"]).out.contains(&format!("\n{name}\t")), "{}", run(&["list"]).out);
        let shown = run(&["show", &name, "--state", "dead"]).out;
        assert_eq!(shown.matches("unknown customer").count() as u64, count, "{shown}");
        let replayed = run(&["replay", &name, "--all", "--yes", "--json"]).out;
        assert!(
            replayed.contains(&format!("\"count\":{count}"))
                || replayed.contains(&format!("\"count\": {count}")),
            "{replayed}"
        );
    }
    server.terminate().unwrap();
    assert!(server.wait_for_exit(Duration::from_secs(60)).await.unwrap().success());
}

/// Answers every request with 204, and passes its text on.
fn receiver() -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, (sender, received)) = (listener.local_addr().unwrap().port(), mpsc::channel());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut text) = (stream.unwrap(), String::new());
            let mut bytes = [0; 4096];
            while !text.contains("\"data\"") {
                match stream.read(&mut bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    (port, received)
}

async fn a_server_delivers(dir: &TempDir, database: &[&str]) {
    let (port, received) = receiver();
    let is_postgres = !database.is_empty();
    let partitions = if is_postgres { "partitions = 2\n" } else { "" };
    let settings = format!(
        "[outbox.main]\nsink = \"jobs\"\n{partitions}\n[outbox.billing]\nsink = \"webhook\"\nurl = \"http://127.0.0.1:{port}/events\"\n\
         secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n"
    );
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    let (mut server, address) = serve(dir, database).await;
    let url = url(dir, database);
    write(&url, &["mail.send"], "main").await;
    write(&url, &["invoice.paid"], "billing").await;
    let asked = format!("http://{address}");
    let run = |args: &[&str]| at(dir, &[args, &["--server", &asked]].concat());
    until(|| run(&["job", "list", "-q", "kind:mail.send"]).out.lines().count() == 2);
    let call = received.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(call.contains("\"type\":\"invoice.paid\"") && call.contains("webhook-signature: v1,"), "{call}");
    until(|| {
        let listed = run(&["outbox", "list"]).out;
        listed.contains("\nmain\trunning\t")
            && listed.contains("\nbilling\trunning\t")
            && listed.contains("\nmain/1\trunning\t") == is_postgres
            && listed.matches("\t0\t\t0\t0\t").count() == if is_postgres { 4 } else { 2 }
    });
    let parts = ["outbox-main\trunning\t", "outbox-billing\trunning\t", "heartbeat\trunning\t"];
    until(|| {
        let runners = run(&["node", "runners"]).out;
        parts.iter().all(|part| runners.contains(part))
    });
    let metrics = String::from_utf8(
        std::process::Command::new("curl").args(["-s", &format!("{asked}/metrics")]).output().unwrap().stdout,
    )
    .unwrap();
    for part in [
        "lineclear_outbox_lag_seconds{outbox=\"main\"} 0",
        "lineclear_outbox_messages{outbox=\"main\",state=\"dead\"} 0",
        "lineclear_outbox_delivered_total{outbox=\"billing\"} 1",
        "lineclear_outbox_runners{outbox=\"main\"} 1",
    ] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }
    // A server that stops leaves its outboxes to others at once.
    let mut second = at_store(dir, database);
    server.terminate().unwrap();
    assert!(server.wait_for_exit(Duration::from_secs(60)).await.unwrap().success());
    second.push("--json".to_owned());
    let words: Vec<&str> = second.iter().map(String::as_str).collect();
    let runners: Value = serde_json::from_str(&at(dir, &words).out).unwrap();
    let all = runners["items"].as_array().unwrap();
    let count = if is_postgres { 4 } else { 2 };
    assert!(all.len() == count && all.iter().all(|runner| runner["state"] == "stopped"), "{runners}");
}

/// `lineclear lock runners` on the database of a server.
fn at_store(dir: &TempDir, database: &[&str]) -> Vec<String> {
    ["lock", "runners", "--store", &url(dir, database)].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_code_delivers_outboxes_on_sqlite() {
    a_server_delivers(&tempfile::tempdir().unwrap(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_code_delivers_outboxes_on_postgres() {
    let database = fresh_postgres().await;
    a_server_delivers(&tempfile::tempdir().unwrap(), &["--db", database.url()]).await;
}

#[test]
fn settings_of_outboxes_are_refused_with_all_errors_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        "[outbox.a]\nsink = \"kafka\"\n[outbox.b]\nsink = \"webhook\"\nsecrets = [\"hunter2-hunter2\"]\n";
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    let refused = at(&dir, &["serve"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    for part in ["outbox (file lineclear.toml)", "a: `sink` must be", "b: `url` is missing", "b: `secrets`"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    assert!(!refused.err.contains("hunter2"), "{}", refused.err);
    std::fs::write(dir.path().join("lineclear.toml"), "[outbox.a]\nsink = \"jobs\"\npartitions = 4\n")
        .unwrap();
    let refused = at(&dir, &["serve"]);
    assert!(refused.code == Some(2) && refused.err.contains("a: `partitions` needs"), "{}", refused.err);
    let shown = "[outbox.b]\nsink = \"webhook\"\nurl = \"https://x\"\nsecrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n";
    std::fs::write(dir.path().join("lineclear.toml"), shown).unwrap();
    let shown = at(&dir, &["config", "show"]).out;
    assert!(shown.contains("\"sink\":\"webhook\"") && !shown.contains("MfKQ9r8G"), "{shown}");
}
