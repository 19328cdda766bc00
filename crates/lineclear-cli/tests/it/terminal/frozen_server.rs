//! A server that accepts requests and does not respond: commands exit with 7.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::commands::job::at;
use crate::commands::serve::serve;
use crate::run::{Run, command, lineclear};

/// Far shorter than the default timeout, and far longer than any timeout of these tests.
const SOON: Duration = Duration::from_secs(25);

fn in_time(dir: &TempDir, arguments: &[&str]) -> Run {
    let begun = Instant::now();
    let run = at(dir, arguments);
    assert!(begun.elapsed() < SOON, "{arguments:?} took {:?}", begun.elapsed());
    run
}

#[tokio::test]
async fn a_frozen_server_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(&dir, &["--commands", "/bin/sleep"]).await;
    let server_url = format!("http://{address}");
    let asked = ["--server", server_url.as_str()];
    let input = r#"{"argv": ["/bin/sleep", "60"]}"#;
    let enqueue = ["job", "enqueue", "command", "--input", input];
    assert_eq!(at(&dir, &[&enqueue[..], &asked].concat()).code, Some(0));
    let node = at(&dir, &[&["node", "list"][..], &asked].concat()).out;
    let node = node.lines().nth(1).unwrap().split('\t').next().unwrap().to_owned();
    server.pause().await.unwrap();

    std::fs::write(dir.path().join("none.toml"), "").unwrap();
    let each_bounded: [&[&str]; 9] = [
        &["status"],
        &["doctor"],
        &["job", "list"],
        &["job", "watch", "1"],
        &["manifest", "apply", "-f", "none.toml"],
        &["dead-letter", "families"],
        &["node", "drain", &node],
        &["events"],
        &["api", "GET", "/jobs"],
    ];
    for words in each_bounded {
        let run = in_time(&dir, &[words, &asked, &["--request-timeout", "500ms"]].concat());
        assert_eq!(run.code, Some(7), "{words:?}: {}", run.err);
        assert!(
            run.err.contains("did not respond within 500ms") && run.err.contains("hint: "),
            "{}",
            run.err
        );
    }
    let by_environment = command(&["status", "--server", &server_url])
        .current_dir(dir.path())
        .env("LINECLEAR_REQUEST_TIMEOUT", "500ms")
        .output()
        .unwrap();
    assert_eq!(by_environment.status.code(), Some(7));

    let bounded_in_all: [(&[&str], &str); 3] = [
        (&["job", "watch", "1"], "timed out before the state of job 1 was known"),
        (&["job", "enqueue", "mail.send", "--wait"], "the job may or may not be enqueued"),
        (&["node", "drain", &node, "--wait"], "the node may or may not drain"),
    ];
    for (words, why) in bounded_in_all {
        let run = in_time(&dir, &[words, &["--wait-timeout", "500ms"], &asked].concat());
        assert_eq!(run.code, Some(7), "{words:?}: {}", run.err);
        assert!(run.err.contains(why), "{words:?}: {}", run.err);
    }
    server.resume().unwrap();
    assert_eq!(in_time(&dir, &[&["job", "get", "1"][..], &asked].concat()).code, Some(0));
}

#[tokio::test]
async fn watching_a_job_on_a_frozen_server_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(&dir, &["--commands", "/bin/sleep"]).await;
    let asked = ["--server", &format!("http://{address}")];
    let input = r#"{"argv": ["/bin/sleep", "60"]}"#;
    assert_eq!(
        at(&dir, &[&["job", "enqueue", "command", "--input", input][..], &asked].concat()).code,
        Some(0)
    );
    crate::commands::job::until(|| {
        at(&dir, &[&["job", "get", "1"][..], &asked].concat()).out.contains("state\trunning")
    });
    let watch = lineclear_testkit::Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["job", "watch", "1", "--wait-timeout", "6s"])
        .args(asked)
        .current_dir(dir.path());
    let mut watch = watch.start().unwrap();
    watch.wait_for_line("job 1 running", SOON).await.unwrap();
    server.pause().await.unwrap();
    watch.wait_for_line("job 1 is running and continues", SOON).await.unwrap();
    assert_eq!(watch.wait_for_exit(SOON).await.unwrap().code(), Some(7));
}

#[test]
fn the_help_says_how_long_an_answer_may_take() {
    let help = lineclear(&["job", "list", "--help"]).out;
    assert!(help.contains("--request-timeout <TIME>") && help.contains("[default: 40s]"), "{help}");
}
