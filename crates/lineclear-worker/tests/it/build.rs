//! What a worker refuses before it starts.

use lineclear::{Client, Dependents, Parents};
use lineclear_worker::{Input, State, Worker, WorkerError};

async fn work() {}

fn refused(built: Result<Worker, WorkerError>) -> String {
    built.expect_err("it is refused").to_string()
}

#[test]
fn a_handler_that_needs_the_database_is_refused_with_its_kind_and_its_reason() {
    async fn enqueues(_: Input<u32>, _: Client) {}
    async fn reads(_: Parents) {}
    async fn activates(_: Dependents) {}
    let build = Worker::builder;
    for (built, says) in [
        (
            build().kind("work", work).kind("invoice", enqueues).build(),
            "kind invoice cannot run on a remote worker: it needs a Client",
        ),
        (
            build().kind("invoice", reads).build(),
            "kind invoice cannot run on a remote worker: it needs Parents",
        ),
        (
            build().kind("invoice", activates).build(),
            "kind invoice cannot run on a remote worker: it needs Dependents",
        ),
    ] {
        let why = refused(built);
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_handler_without_its_state_and_a_kind_twice_are_refused() {
    async fn counts(_: State<u32>) {}
    let why = refused(Worker::builder().kind("invoice", counts).build());
    assert!(why.contains("no state of type u32 was given"), "{why}");
    assert!(Worker::builder().kind("invoice", counts).state(7_u32).build().is_ok());
    let why = refused(Worker::builder().kind("invoice", work).kind("invoice", work).build());
    assert!(why.contains("invoice has two handlers"), "{why}");
    let why = refused(Worker::builder().build());
    assert!(why.contains(".kind("), "{why}");
    let why = refused(Worker::builder().kind("no kind", work).build());
    assert!(why.contains("no kind"), "{why}");
}

#[tokio::test]
async fn a_pull_worker_with_bad_options_does_not_start() {
    let worker = Worker::builder().kind("work", work).build().unwrap();
    let url = "http://127.0.0.1:1";
    for (pull, says) in [
        (worker.pull(url, None).slots(0), "slots"),
        (worker.pull(url, None).slots(1_001), "slots"),
        (worker.pull(url, None).name("two\nlines"), "name"),
        (worker.pull("jobs.example.com", None), "server"),
        (worker.pull("ftp://jobs.example.com", None), "server"),
        (worker.pull(url, "two\nlines".to_owned()), "token"),
    ] {
        let why = pull.run_until(std::future::pending()).await.expect_err("it is refused").to_string();
        assert!(why.contains(&format!("option {says}")), "{why}");
    }
}
