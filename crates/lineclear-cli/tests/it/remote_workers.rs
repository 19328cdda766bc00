//! Remote workers, as processes in any language are: answers get lost, servers are killed, the database goes away. Nothing is lost, and
//! nothing is in the records twice.

mod killed_server;
mod lost_answers;
mod outage;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LONG: Duration = Duration::from_secs(60);

/// The status and the JSON of a response; `None`: there was none.
type Answer = Option<(u16, Value)>;

/// A request of a worker, or of a person.
async fn send(address: &str, method: &str, path: &str, body: &str) -> Answer {
    let mut stream = open(address, method, path, body).await?;
    let mut bytes = Vec::new();
    tokio::time::timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("an answer, or the end").ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// Sends a request, and does not wait for the response.
async fn open(address: &str, method: &str, path: &str, body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    Some(stream)
}

/// What a worker knows of a claim, as the API names it.
fn of(claim: &Value, more: Value) -> Value {
    let mut item = json!({"job": claim["job"]["id"], "no": claim["claim"]["no"]});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

struct Worker {
    id: String,
}

impl Worker {
    /// A worker that the server knows: jobs of its kind wait for it from now on.
    async fn ready(address: &str) -> Worker {
        let worker = Worker { id: uuid::Uuid::new_v4().to_string() };
        let (status, none) = worker.pull(address, json!({"wait_ms": 0})).await.unwrap();
        assert_eq!((status, &none["claims"]), (200, &json!([])), "{none}");
        worker
    }

    fn body(&self, more: Value) -> String {
        let about = json!({"id": self.id, "name": "mailer", "host": "web1", "pid": 1, "version": "test/1"});
        let mut body = json!({"worker": about, "kinds": ["invoice"], "slots": 5, "wait_ms": 10_000});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    }

    async fn pull(&self, address: &str, more: Value) -> Answer {
        send(address, "POST", "/api/v1/claims", &self.body(more)).await
    }

    /// A call about claims: `renew` or `settle`.
    async fn call(&self, address: &str, what: &str, claims: &[Value]) -> Answer {
        let body = json!({"worker": self.id, "claims": claims}).to_string();
        send(address, "POST", &format!("/api/v1/claims/{what}"), &body).await
    }

    /// Its only claim.
    async fn pull_one(&self, address: &str, more: Value) -> Value {
        let (status, answer) = self.pull(address, more).await.expect("an answer");
        assert_eq!((status, answer["claims"].as_array().map(Vec::len)), (200, Some(1)), "{answer}");
        answer["claims"][0].clone()
    }
}

async fn enqueue(address: &str, n: usize) -> String {
    let body = json!({"kind": "invoice", "input": n}).to_string();
    let (status, made) = send(address, "POST", "/api/v1/jobs", &body).await.expect("an answer");
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// The outcomes of the executions of a job that is completed.
async fn outcomes(address: &str, job: &str) -> Vec<String> {
    let (status, found) = send(address, "GET", &format!("/api/v1/jobs/{job}"), "").await.expect("an answer");
    assert_eq!((status, found["state"].as_str()), (200, Some("completed")), "{found}");
    let executions = found["executions"].as_array().unwrap();
    executions.iter().map(|execution| execution["outcome"].as_str().unwrap().to_owned()).collect()
}

/// Repeats a request until its status is this; a worker does so with pauses.
async fn until(status: u16, what: &str, mut ask: impl AsyncFnMut() -> Answer) -> Value {
    let begun = Instant::now();
    loop {
        let answer = ask().await;
        match answer {
            Some((got, body)) if got == status => return body,
            other => assert!(begun.elapsed() < LONG, "{what}: never {status}, but {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
