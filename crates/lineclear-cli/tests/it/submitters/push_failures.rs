//! Push under failures: a node is killed within a call, answers to callbacks get lost, the database goes away.

use lineclear_testkit::{PrivatePostgres, fresh_postgres};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

/// A worker that answers with what the function says about the number of the call, and the bodies of its calls. `None`: it hangs.
async fn answering(
    answer: impl Fn(usize) -> Option<HttpReply> + Send + Sync + 'static,
) -> (HttpEndpoint, UnboundedReceiver<Value>) {
    let (sender, calls) = unbounded_channel();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        sender.send(serde_json::from_slice(&call.body).unwrap()).ok();
        let answer = answer(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    });
    (endpoint.await.unwrap(), calls)
}

async fn next(calls: &mut UnboundedReceiver<Value>) -> Value {
    tokio::time::timeout(LONG, calls.recv()).await.expect("a call").expect("an endpoint")
}

fn configure_push(dir: &TempDir, endpoint: &HttpEndpoint) {
    let settings = format!(
        "[submitter.billing]\ntype = \"push\"\nurl = \"{}\"\nkinds = [\"invoice\"]\nunsigned = true\ncallback_url = \"https://jobs.example.com\"\n",
        endpoint.url()
    );
    configure(dir, &settings);
}

/// The JSON of an answer.
fn json_of(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).unwrap()
}

fn outcomes(job: &Value) -> Vec<&str> {
    job["executions"].as_array().unwrap().iter().map(|run| run["outcome"].as_str().unwrap()).collect()
}

async fn another_node_completes_the_job_of_a_killed_one(db: &str) {
    let dir = tempfile::tempdir().unwrap();
    let completed = || HttpReply::new(200, r#"{"outcome":"completed","output":{"paid":true}}"#);
    let (endpoint, mut calls) = answering(move |call| (call > 0).then(completed)).await;
    configure_push(&dir, &endpoint);
    let arguments = ["--db", db, "--lease", "6s", "--heartbeat", "2s"];
    let (mut first, at_first) = serve(&dir, &arguments).await;
    ask(&at_first, "POST /api/v1/jobs", r#"{"kind": "invoice"}"#);
    assert_eq!(next(&mut calls).await["claim"]["no"], 1);
    let (_second, at_second) = serve(&dir, &arguments).await;
    first.kill().unwrap();
    assert_eq!(next(&mut calls).await["claim"]["no"], 2, "the worker can tell the calls apart");
    let job = json_of(&wait_for(&at_second, "jobs/1", r#""state":"completed""#).await);
    assert_eq!(outcomes(&job), ["lost", "completed"], "{job}");
    let output = ask(&at_second, "GET /api/v1/jobs/1/output", "");
    assert!(output.ends_with(r#"{"paid":true}"#), "{output}");
    assert!(calls.is_empty(), "it is called no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_within_a_call_loses_no_job_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    another_node_completes_the_job_of_a_killed_one(dir.path().join("killed.db").to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_within_a_call_loses_no_job_on_postgres() {
    another_node_completes_the_job_of_a_killed_one(fresh_postgres().await.url()).await;
}

/// Calls the server as a worker does that hangs up before the answer comes.
fn report_and_hang_up(address: &str, path: &str, token: &str, body: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

/// Repeats a callback until its answer has this status, as workers do.
async fn until_status(status: u16, mut report: impl FnMut() -> String) -> String {
    let begun = std::time::Instant::now();
    loop {
        let answer = report();
        if answer.starts_with(&format!("HTTP/1.1 {status}")) {
            return answer;
        }
        assert!(begun.elapsed() < LONG, "never {status}: {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_of_an_accepted_job_outlast_lost_answers_and_an_outage_of_the_database() {
    let mut database = PrivatePostgres::start(&["synchronous_commit=on"]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let accepted = || HttpReply::new(202, r#"{"id":"b-1","lease_ms":600000}"#);
    let (endpoint, mut calls) = answering(move |_| Some(accepted())).await;
    configure_push(&dir, &endpoint);
    let (_server, address) = serve(&dir, &["--db", &database.url()]).await;
    ask(&address, "POST /api/v1/jobs", r#"{"kind": "invoice"}"#);
    let call = next(&mut calls).await;
    wait_for(&address, "jobs/1", r#""external_id":"b-1""#).await;
    let token = call["claim"]["token"].as_str().unwrap();
    let callback = call["callback"].as_str().unwrap().strip_prefix("https://jobs.example.com").unwrap();
    let (renew, settle) = (format!("{callback}/renew"), format!("{callback}/settle"));
    let completed = r#"{"outcome": "completed", "output": {"paid": true}}"#;
    database.stop();
    for (path, body) in [(&renew, "{}"), (&settle, completed)] {
        until_status(503, || report(&address, path, token, body)).await;
    }
    database.start_again().await.unwrap();
    for _ in 0..3 {
        report_and_hang_up(&address, &renew, token, "{}");
        let renewed = until_status(200, || report(&address, &renew, token, "{}")).await;
        assert_eq!(json_of(&renewed)["status"], "renewed", "{renewed}");
    }
    for _ in 0..3 {
        report_and_hang_up(&address, &settle, token, completed);
        let settled = until_status(200, || report(&address, &settle, token, completed)).await;
        assert_eq!(json_of(&settled)["status"], "recorded", "{settled}");
    }
    let late = report(&address, &renew, token, "{}");
    assert!(late.starts_with("HTTP/1.1 409"), "the job is over: {late}");
    let job = json_of(&wait_for(&address, "jobs/1", r#""state":"completed""#).await);
    assert_eq!(outcomes(&job), ["completed"], "{job}");
    assert!(calls.is_empty(), "it was called once");
}
