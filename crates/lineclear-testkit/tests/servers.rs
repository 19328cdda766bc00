//! The binary's promises: servers run as long as they are needed, and not longer.

use std::{fs, net::TcpStream, path::PathBuf, time::Duration};

use lineclear_testkit::{Child, Program};
use tokio::time::{Instant, sleep};

const SOON: Duration = Duration::from_secs(60);
/// Prints where PostgreSQL is, and ends when the runner is gone.
const SHOW_AND_WAIT: &str =
    "echo at $LINECLEAR_TEST_POSTGRES_URL; while kill -0 $PPID 2>/dev/null; do sleep 0.1; done";

fn kit(arguments: &[&str]) -> Program {
    let kit = Program::at(env!("CARGO_BIN_EXE_lineclear-testkit")).args(arguments);
    // Empty means unset: these tests start their own servers.
    let kit = kit.env("LINECLEAR_TEST_POSTGRES_URL", "").env("LINECLEAR_TEST_PGBOUNCER_URL", "");
    kit.env("LINECLEAR_TEST_MYSQL_URL", "").env("LINECLEAR_TEST_REDIS_URL", "")
}

/// `host:port` of a line that ends in a URL.
fn address(line: &str) -> String {
    let (_, rest) = line.split_once("://").unwrap();
    rest.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned()
}

async fn expect_gone(address: &str) {
    let deadline = Instant::now() + SOON;
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "the server at {address} is gone by now");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn running() -> (Child, String) {
    let child = kit(&["run", "--", "sh", "-c", SHOW_AND_WAIT]).start().unwrap();
    let line = child.wait_for_line("at postgres://", SOON).await.unwrap();
    let address = address(&line);
    TcpStream::connect(&address).unwrap();
    (child, address)
}

#[tokio::test]
async fn servers_go_with_their_command_and_its_exit_code_is_kept() {
    let script = "echo at $LINECLEAR_TEST_POSTGRES_URL; echo and $LINECLEAR_TEST_PGBOUNCER_URL; \
                  echo and $LINECLEAR_TEST_MYSQL_URL; echo and $LINECLEAR_TEST_REDIS_URL; exit 7";
    let mut child = kit(&["run", "--", "sh", "-c", script]).start().unwrap();
    assert_eq!(child.wait_for_exit(SOON).await.unwrap().code(), Some(7));
    for line in child.stdout() {
        assert!(TcpStream::connect(address(&line)).is_err(), "stopped before the runner ended: {line}");
    }
}

#[tokio::test]
async fn a_durable_server_says_that_it_syncs() {
    let says = async |arguments: &[&str]| {
        let arguments = [arguments, &["--", "sh", "-c", SHOW_AND_WAIT]].concat();
        let child = kit(&arguments).start().unwrap();
        let line = child.wait_for_line("at postgres://", SOON).await.unwrap();
        let (client, connection) =
            tokio_postgres::connect(line.trim_start_matches("at "), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let asked = "select current_setting('fsync') || ' ' || current_setting('synchronous_commit') || ' ' || current_setting('full_page_writes')";
        client.query_one(asked, &[]).await.unwrap().get::<_, String>(0)
    };
    assert_eq!(says(&["run", "--durable"]).await, "on on on");
    assert_eq!(says(&["run"]).await, "off off off");
}

#[tokio::test]
async fn a_terminated_runner_takes_command_and_servers_with_it() {
    let (mut child, address) = running().await;
    child.terminate().unwrap();
    assert_eq!(child.wait_for_exit(SOON).await.unwrap().code(), Some(128 + 15));
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn servers_do_not_outlive_a_runner_that_is_killed() {
    let (mut child, address) = running().await;
    child.kill().unwrap();
    expect_gone(&address).await;
}

#[tokio::test]
async fn servers_stay_up_until_they_are_taken_down() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("up-{}", std::process::id()));
    let call = async |command: &str| {
        let mut child = kit(&[command, dir.to_str().unwrap()]).start().unwrap();
        assert!(child.wait_for_exit(SOON).await.unwrap().success(), "{:?}", child.stderr());
        child.stdout()
    };
    let first = call("up").await;
    assert!(first[0].starts_with("export LINECLEAR_TEST_POSTGRES_URL=postgres://"), "{first:?}");
    assert_eq!(first, call("up").await, "up again changes nothing");
    assert_eq!(fs::read_to_string(dir.join("env")).unwrap().lines().collect::<Vec<_>>(), first);

    let state = fs::read_to_string(dir.join("state")).unwrap();
    let data = PathBuf::from(state.lines().next().unwrap());
    assert!(data.exists());
    call("down").await;
    assert!(!data.exists() && !dir.exists());
    assert!(TcpStream::connect(address(&first[0])).is_err());
    call("down").await;
}

#[tokio::test]
async fn a_server_that_is_named_is_used_and_none_is_started() {
    let given = "postgres://user@127.0.0.1:1/there";
    let script = "echo $LINECLEAR_TEST_POSTGRES_URL $LINECLEAR_TEST_PGBOUNCER_URL $LINECLEAR_TEST_MYSQL_URL $LINECLEAR_TEST_REDIS_URL";
    let program = kit(&["run", "--", "sh", "-c", script]).env("LINECLEAR_TEST_POSTGRES_URL", given);
    let program = program
        .env("LINECLEAR_TEST_MYSQL_URL", "mysql://there")
        .env("LINECLEAR_TEST_REDIS_URL", "redis://there");
    let mut child = program.env("LINECLEAR_TEST_PGBOUNCER_URL", "postgres://pooled").start().unwrap();
    assert!(child.wait_for_exit(SOON).await.unwrap().success());
    assert_eq!(child.stdout(), [format!("{given} postgres://pooled mysql://there redis://there")]);
}
