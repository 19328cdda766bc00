//! Events: a stream that clients can resume.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lineclear::model::{Name, Scopes};
use lineclear::store::{NewToken, WhichToken};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::session::{as_browser, cookie, log_in};
use crate::kit::Served;

const LONG: Duration = Duration::from_secs(60);

/// One event.
#[derive(Debug, Default, Clone)]
struct Event {
    word: String,
    id: Option<String>,
    data: String,
}

impl Event {
    fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// A client of a stream.
struct Stream {
    stream: TcpStream,
    head: String,
    bytes: Vec<u8>,
    text: String,
    last: Option<String>,
}

impl Stream {
    async fn open(served: &Served, query: &str, last: Option<&str>) -> Stream {
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        Stream::with(served, query, &last).await
    }

    /// With a token.
    async fn of(served: &Served, query: &str, token: &str) -> Stream {
        let mut stream = Stream::with(served, query, &format!("Authorization: Bearer {token}\r\n")).await;
        let first = stream.block().await.expect("it begins");
        stream.last = first.lines().find_map(|line| line.strip_prefix("id: ").map(str::to_owned));
        stream
    }

    /// With further headers, each with its line break.
    async fn with(served: &Served, query: &str, headers: &str) -> Stream {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = format!("GET /api/v1/events{query} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", served.address);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut open =
            Stream { stream, head: String::new(), bytes: Vec::new(), text: String::new(), last: None };
        let end = loop {
            match open.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(at) => break at,
                None => assert!(open.read().await, "no answer"),
            }
        };
        let rest = open.bytes.split_off(end + 4);
        open.head = String::from_utf8(std::mem::replace(&mut open.bytes, rest)).unwrap();
        open
    }

    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = tokio::time::timeout(LONG, self.stream.read(&mut bytes)).await.expect("something to read");
        let read = read.unwrap_or(0);
        self.bytes.extend(&bytes[..read]);
        read > 0
    }

    /// The next block of the stream; `None` at its end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.text.find("\n\n") {
                let rest = self.text.split_off(at + 2);
                return Some(std::mem::replace(&mut self.text, rest));
            }
            // Chunks: a length, a line break, so many bytes, a line break.
            while let Some(at) = self.bytes.windows(2).position(|bytes| bytes == b"\r\n") {
                let length =
                    usize::from_str_radix(std::str::from_utf8(&self.bytes[..at]).unwrap(), 16).unwrap();
                if length == 0 {
                    return None;
                }
                if self.bytes.len() < at + 2 + length + 2 {
                    break;
                }
                self.text.push_str(std::str::from_utf8(&self.bytes[at + 2..at + 2 + length]).unwrap());
                self.bytes.drain(..at + 2 + length + 2);
            }
            if !self.text.contains("\n\n") && !self.read().await {
                return None;
            }
        }
    }

    /// The next event, as a browser would see it.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let mut event = Event::default();
            for line in self.block().await?.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => {
                        self.last = Some(id.to_owned());
                        event.id = Some(id.to_owned());
                    }
                    Some(("event", word)) => event.word = word.to_owned(),
                    Some(("data", data)) => event.data.push_str(data),
                    _ => {}
                }
            }
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// Reads until the stream ends; returns how long that took.
    async fn end(&mut self) -> Duration {
        let begun = Instant::now();
        while self.block().await.is_some() {}
        begun.elapsed()
    }

    /// Reads until an event of this type about this job.
    async fn until(&mut self, word: &str, job: &str) -> Event {
        let deadline = Instant::now() + LONG;
        loop {
            let event = self.next().await.expect("the stream continues");
            if event.word == word && event.json()["job"] == job {
                return event;
            }
            assert!(Instant::now() < deadline, "in vain: {word} of {job}");
        }
    }
}

async fn make(served: &Served, body: &Value) -> String {
    served.post("/api/v1/jobs", &body.to_string()).await.json()["id"].as_str().unwrap().to_owned()
}

async fn events_contain_ids_and_names(served: &Served) {
    let mut stream = Stream::open(served, "", None).await;
    for part in ["200 OK", "text/event-stream", "no-cache, no-transform", "x-accel-buffering: no"] {
        assert!(stream.head.contains(part), "{}", stream.head);
    }
    assert!(stream.block().await.unwrap().contains("retry: 2000"));
    let done = make(served, &json!({"kind": "add", "input": [123_123, 2]})).await;
    stream.until("job.queued", &done).await;
    let completed = stream.until("job.completed", &done).await;
    assert_eq!((&completed.json()["kind"], &completed.json()["claim_no"]), (&json!("add"), &json!(1)));
    assert!(completed.id.is_some());
    let broken = make(served, &json!({"kind": "broken", "input": "hush"})).await;
    let failed = stream.until("job.failed", &broken).await;
    assert_eq!(failed.json()["outcome"], "failed");
    let dead = stream.until("dead.created", &broken).await;
    assert!(dead.json()["dead_letter"].is_string());
    for event in [completed, failed, dead] {
        for secret in ["123123", "123125", "hush"] {
            assert!(!event.data.contains(secret), "{event:?}");
        }
    }
    let waits = make(served, &json!({"kind": "add", "in_ms": 60_000})).await;
    served.post(&format!("/api/v1/jobs/{waits}/cancel"), "").await;
    stream.until("job.cancelled", &waits).await;
}

async fn a_stream_that_is_cut_repeatedly_misses_nothing(served: &Served) {
    let mut stream = Stream::open(served, "?types=job.completed", None).await;
    stream.block().await.unwrap();
    let mut made = BTreeSet::new();
    let mut told = BTreeSet::new();
    for round in 0..8 {
        // Eight callers at once, so that commits overtake each other.
        let body = json!({"jobs": vec![json!({"kind": "add", "input": [round, 1]}); 25]}).to_string();
        let made_now = tokio::join!(
            served.post("/api/v1/jobs/batch", &body),
            served.post("/api/v1/jobs/batch", &body),
            served.post("/api/v1/jobs/batch", &body),
            served.post("/api/v1/jobs/batch", &body)
        );
        for answer in [made_now.0, made_now.1, made_now.2, made_now.3] {
            let jobs = answer.json()["jobs"].as_array().unwrap().clone();
            made.extend(jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        }
        // The connection is cut in the middle.
        for _ in 0..(round * 7 + 1) {
            let event = stream.next().await.unwrap();
            assert_eq!(event.word, "job.completed");
            told.insert(event.json()["job"].as_str().unwrap().to_owned());
        }
        let last = stream.last.clone().expect("an id");
        drop(stream);
        stream = Stream::open(served, "?types=job.completed", Some(&last)).await;
    }
    let deadline = Instant::now() + LONG;
    while told.len() < made.len() {
        let event = stream.next().await.unwrap();
        assert_eq!(event.word, "job.completed", "no gap");
        told.insert(event.json()["job"].as_str().unwrap().to_owned());
        assert!(Instant::now() < deadline, "{} of {}", told.len(), made.len());
    }
    assert_eq!(told, made);
}

async fn a_client_that_resumes_too_late_gets_a_gap(served: &Served) {
    let tomorrow = (jiff::Timestamp::now().as_microsecond() + 86_400_000_000).to_string();
    for after in ["0", "1700000000000000", tomorrow.as_str()] {
        let mut stream = Stream::open(served, &format!("?after={after}"), None).await;
        let first = stream.next().await.unwrap();
        assert_eq!((first.word.as_str(), &first.json()["reason"]), ("gap", &json!("behind")), "{after}");
        // Then the stream continues.
        let job = make(served, &json!({"kind": "add", "input": [1, 2]})).await;
        stream.until("job.completed", &job).await;
        assert!(stream.last.unwrap().as_str() > "1700000000000000");
    }
}

async fn a_stream_sends_only_the_requested_types(served: &Served) {
    let mut stream = Stream::open(served, "?types=dead.*,job.cancelled", None).await;
    stream.block().await.unwrap();
    make(served, &json!({"kind": "add", "input": [1, 2]})).await;
    let broken = make(served, &json!({"kind": "broken", "input": "x"})).await;
    let first = stream.next().await.unwrap();
    assert_eq!((first.word.as_str(), &first.json()["job"]), ("dead.created", &json!(broken)));
    for (query, code) in [
        ("types=job.eaten", "types"),
        ("types=", "types"),
        ("types=*", "types"),
        ("after=x", "after"),
        ("after=-1", "after"),
        ("color=1", "query"),
    ] {
        let refused = served.get(&format!("/api/v1/events?{query}")).await;
        assert_eq!((refused.status, refused.code()), (400, code.to_owned()), "{query}");
    }
}

async fn a_bounded_number_watches(served: &Served) {
    let mut streams = Vec::new();
    for _ in 0..256 {
        let stream = Stream::open(served, "", None).await;
        assert!(stream.head.contains("200 OK"), "{}", stream.head);
        streams.push(stream);
    }
    let refused = served.get("/api/v1/events").await;
    assert_eq!((refused.status, refused.code()), (503, "streams_max".to_owned()));
    assert!(refused.header("retry-after").is_some());
    let job = make(served, &json!({"kind": "add", "input": [1, 2]})).await;
    for stream in &mut streams {
        stream.until("job.completed", &job).await;
    }
    drop(streams);
    for _ in 0..600 {
        if Stream::open(served, "", None).await.head.contains("200 OK") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no stream ended");
}

async fn a_stream_ends_within_five_seconds_of_its_token(served: &Served) {
    let (read, ended) = (served.token("read").await, Duration::from_secs(5));
    let mut other = Stream::of(served, "", &served.token("operate").await).await;
    let mut stream = Stream::of(served, "", &read).await;
    // Directly in the database, so that the server is not notified.
    served.store().revoke_token(WhichToken::Name("read".to_owned())).await.unwrap().unwrap();
    let took = stream.end().await;
    assert!(took < ended, "revoked, and it continued for {took:?}");

    let (lives, scopes) = (Some(Duration::from_millis(1500)), Scopes::parse("read").unwrap());
    let token = NewToken {
        name: Name::new("short").unwrap(),
        scopes,
        kinds: None,
        lives,
        created_by: "a test".to_owned(),
    };
    let (_, secret) = served.store().create_token(token).await.unwrap();
    let mut stream = Stream::of(served, "", secret.expose()).await;
    let took = stream.end().await;
    assert!(took > Duration::from_millis(500) && took < Duration::from_millis(1500) + ended, "{took:?}");

    let admin = served.token("admin").await;
    let job = served.with(&admin, "POST", "/api/v1/jobs", r#"{"kind": "add", "input": [1, 2]}"#).await;
    other.until("job.completed", job.json()["id"].as_str().unwrap()).await;
}

async fn a_stream_ends_within_five_seconds_of_its_session(served: &Served) {
    let token = served.token("read").await;
    let cookie = cookie(&log_in(served, &token).await);
    let header = format!("Cookie: {cookie}\r\n");
    let mut stream = Stream::with(served, "", &header).await;
    let mut other = Stream::of(served, "", &token).await;
    stream.block().await.expect("it begins");
    assert_eq!(as_browser(served, &cookie, "DELETE", "/api/v1/session", "").await.status, 204);
    let took = stream.end().await;
    assert!(took < Duration::from_secs(5), "logged out, and it continued for {took:?}");
    let mut more = Stream::of(served, "", &token).await;
    let gone = served.with(&served.token("admin").await, "DELETE", "/api/v1/tokens/1", "").await;
    assert_eq!(gone.status, 204, "{gone:?}");
    for stream in [&mut other, &mut more] {
        let took = stream.end().await;
        assert!(took < Duration::from_secs(5), "revoked here, and it continued for {took:?}");
    }
}

async fn audit_events_are_sent_to_admins_only(served: &Served) {
    let (admin, operate) = (served.token("admin").await, served.token("operate").await);
    let mut all = Stream::of(served, "", &admin).await;
    let mut audit = Stream::of(served, "?types=audit.*", &admin).await;
    let mut others = Stream::of(served, "", &operate).await;
    let begun = others.last.clone();
    served.with(&admin, "PUT", "/api/v1/groups/etl", r#"{"limit": 4}"#).await;
    let row = served.with(&admin, "GET", "/api/v1/audit", "").await.json()["items"][0].clone();
    for stream in [&mut all, &mut audit] {
        let event = loop {
            let event = stream.next().await.unwrap();
            if event.word == "audit.written" {
                break event;
            }
        };
        let told = event.json();
        assert_eq!(told["audit"], row["id"], "{told}");
        for field in ["at", "who", "action", "target", "status"] {
            assert_eq!(told[field], row[field], "{field}: {told} {row}");
        }
        assert!(event.id.is_some() && !event.data.contains("limit"), "no details: {told}");
    }
    let job = served.with(&operate, "POST", "/api/v1/jobs", r#"{"kind": "add", "input": [1, 2]}"#).await;
    let job = job.json()["id"].as_str().unwrap().to_owned();
    // This event is later than the change, so an event of the change would have come before.
    let seen = async |stream: &mut Stream| {
        let deadline = Instant::now() + LONG;
        let mut words = BTreeSet::new();
        while Instant::now() < deadline {
            let event = stream.next().await.unwrap();
            words.insert(event.word.clone());
            if event.word == "job.completed" && event.json()["job"] == job {
                break;
            }
        }
        words
    };
    assert!(!seen(&mut others).await.contains("audit.written"));
    // A client that resumes does not get it either.
    let again = format!("Authorization: Bearer {operate}\r\nLast-Event-ID: {}\r\n", begun.unwrap());
    assert!(!seen(&mut Stream::with(served, "", &again).await).await.contains("audit.written"));
    for types in ["audit.written", "audit.*", "job.failed,audit.*"] {
        let refused = served.with(&operate, "GET", &format!("/api/v1/events?types={types}"), "").await;
        assert_eq!((refused.status, refused.code()), (403, "scope".to_owned()), "{types}");
    }
}

with_tokens_on_each_store! {
    a_stream_ends_within_five_seconds_of_its_token
    a_stream_ends_within_five_seconds_of_its_session
    audit_events_are_sent_to_admins_only
}

on_each_store! {
    events_contain_ids_and_names
    a_stream_that_is_cut_repeatedly_misses_nothing
    a_client_that_resumes_too_late_gets_a_gap
    a_stream_sends_only_the_requested_types
    a_bounded_number_watches
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_at_once_when_the_server_stops() {
    let served = Served::sqlite().await;
    let mut stream = Stream::open(&served, "", None).await;
    stream.block().await.unwrap();
    let begun = Instant::now();
    served.end().await;
    while stream.block().await.is_some() {}
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filtered_stream_sends_keep_alives_with_current_ids() {
    let served = Served::sqlite().await;
    let mut stream = Stream::open(&served, "?types=lock.broken", None).await;
    stream.block().await.unwrap();
    let make = async {
        loop {
            make(&served, &json!({"kind": "add", "input": [1, 2]})).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let begun = Instant::now();
    let alive = tokio::select! {
        alive = stream.block() => alive.expect("the stream continues"),
        () = make => unreachable!(),
    };
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let place = alive.lines().find_map(|line| line.strip_prefix("id: ")).unwrap_or_else(|| panic!("{alive}"));
    let behind = jiff::Timestamp::now().as_microsecond() - place.parse::<i64>().unwrap();
    assert!(behind < 10_000_000, "the id to resume from is {behind} µs old");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_does_not_query_events_while_no_stream_is_open() {
    let served = Served::postgres().await;
    let (client, connection) =
        lineclear::tokio_postgres::connect(&served.url, lineclear::tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let last_query = async || -> Option<String> {
        let sql = "select max(query_start)::text from pg_stat_activity where datname = current_database() and query like '-- list_events%'";
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    served.until("/api/v1/nodes", |page| !page["items"].as_array().unwrap().is_empty()).await;
    assert_eq!(last_query().await, None);
    let mut stream = Stream::open(&served, "", None).await;
    stream.block().await.unwrap();
    let job = make(&served, &json!({"kind": "add", "input": [1, 2]})).await;
    stream.until("job.completed", &job).await;
    assert!(last_query().await.is_some(), "the test can see the query");
    drop(stream);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let last = last_query().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(last_query().await, last);
    served.end().await;
}
