//! `lineclear serve`, `work` and `config`, as processes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lineclear_testkit::{Child, Program};
use tempfile::TempDir;

use crate::run::command;

const LONG: Duration = Duration::from_secs(60);

/// The setting that lets a server without tokens run commands.
pub(crate) const OPEN_COMMANDS: &str = "LINECLEAR_ALLOW_OPEN_COMMANDS";

/// A server in its own folder, and its address. It needs no token, and may run commands all the same.
pub(crate) async fn serve(dir: &TempDir, arguments: &[&str]) -> (Child, String) {
    serve_with(dir, arguments, &[]).await
}

/// Such a server with more environment variables.
pub(crate) async fn serve_with(
    dir: &TempDir,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (Child, String) {
    // Not `--port 0`: some tests start it again on its port, which must be free then.
    let port = lineclear_testkit::free_port().unwrap().to_string();
    let program = at(dir, "serve").args(["--port", &port]).args(arguments).env(OPEN_COMMANDS, "true");
    let program = environment.iter().fold(program, |program, (name, value)| program.env(name, value));
    let child = program.start().unwrap();
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (child, address)
}

/// Runs a command to its end: its exit code, standard output and standard error.
fn lineclear(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = command(arguments).envs(environment.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn at(dir: &TempDir, command: &str) -> Program {
    Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args([command])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
}

pub(crate) fn ask(address: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask_as(address: &str, request: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn a_server_answers_and_a_second_one_on_the_same_file_is_a_second_node() {
    let dir = tempfile::tempdir().unwrap();
    let (mut one, first) = serve(&dir, &[]).await;
    let (mut two, second) = serve(&dir, &["--roles", "planner,cleaner"]).await;
    let made = ask(&first, "POST /api/v1/jobs", r#"{"kind": "mail.send"}"#);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let seen = ask(&second, "GET /api/v1/jobs/1", "");
    assert!(seen.contains(r#""kind":"mail.send""#), "{seen}");
    let nodes = ask(&second, "GET /api/v1/nodes", "");
    assert_eq!(nodes.matches(r#""incarnation""#).count(), 2, "{nodes}");
    let metrics = ask(&first, "GET /metrics", "");
    assert!(metrics.contains("lineclear_jobs_enqueued_total{kind=\"mail.send\"} 1"), "{metrics}");
    for child in [&mut one, &mut two] {
        child.terminate().unwrap();
        assert!(child.wait_for_exit(LONG).await.unwrap().success());
    }
    assert!(dir.path().join("lineclear.db").exists(), "the file beside which it was started");
}

#[tokio::test]
async fn a_stop_waits_for_running_jobs_and_counts_down() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = serve(&dir, &["--commands", "/bin/sleep", "--shutdown-grace", "20s"]).await;
    let body = r#"{"kind": "command", "input": {"argv": ["/bin/sleep", "3"]}}"#;
    assert!(ask(&address, "POST /api/v1/jobs", body).starts_with("HTTP/1.1 201"));
    crate::kinds::command::wait_for(&address, "jobs/1", r#""state":"running""#).await;
    child.terminate().unwrap();
    child.wait_for_line("stopping: 1 still running, up to", LONG).await.unwrap();
    assert!(ask(&address, "GET /readyz", "").starts_with("HTTP/1.1 503"));
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let said = child.stderr().join("\n");
    assert!(!said.contains("ERROR"), "a probe is no failure: {said}");
    let (_other, address) = serve(&dir, &["--roles", "planner"]).await;
    assert!(ask(&address, "GET /api/v1/jobs/1", "").contains(r#""state":"completed""#));
}

#[tokio::test]
async fn metrics_can_be_summed_over_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let body = r#"{"kind": "command", "input": {"argv": ["/bin/true"]}}"#;
    assert!(ask(&address, "POST /api/v1/jobs", body).starts_with("HTTP/1.1 201"));
    crate::kinds::command::wait_for(&address, "jobs/1", r#""state":"completed""#).await;
    let metrics = ask(&address, "GET /metrics", "");
    assert!(metrics.contains("# TYPE lineclear_run_seconds histogram"), "{metrics}");
    assert!(metrics.contains("lineclear_run_seconds_bucket{"), "{metrics}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (_one, address) = serve(&dir, &[]).await;
    let port = address.rsplit(':').next().unwrap();
    let mut two = at(&dir, "serve").args(["--port", port]).start().unwrap();
    assert_eq!(two.wait_for_exit(LONG).await.unwrap().code(), Some(1));
    let said = two.stderr().join("\n");
    assert!(said.contains("cannot listen") && said.contains("--port 0"), "{said}");
}

#[tokio::test]
async fn a_public_address_without_authentication_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = at(&dir, "serve").args(["--bind", "0.0.0.0"]).start().unwrap();
    assert_eq!(child.wait_for_exit(LONG).await.unwrap().code(), Some(2));
    let said = child.stderr().join("\n");
    assert!(said.contains("can be reached from other machines"), "{said}");
}

#[tokio::test]
async fn commands_without_authentication_need_a_flag_and_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = at(&dir, "serve").args(["--port", "0", "--commands", "/bin/true"]).start().unwrap();
    assert_eq!(child.wait_for_exit(LONG).await.unwrap().code(), Some(2));
    let said = child.stderr().join("\n");
    for part in ["every user of this machine could run them", "--auth token", "--allow-open-commands"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!dir.path().join("lineclear.db").exists(), "refused before the database is touched");

    std::fs::write(dir.path().join("lineclear.toml"), "commands = [\"/bin/true\"]\nport = 0\n").unwrap();
    let checked = command(&["doctor"]).current_dir(dir.path()).output().unwrap();
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.contains("failure\tconfiguration\tlisten\tcommands (file lineclear.toml)"), "{checked}");

    let accepted = at(&dir, "serve").args(["--allow-open-commands"]).start().unwrap();
    accepted.wait_for_line("API  http://", LONG).await.unwrap();
    let warning = "every user of this machine can run the allowed commands";
    let line = accepted.wait_for_line(warning, LONG).await.unwrap();
    assert!(line.contains("WARN"), "{line}");
    assert_eq!(accepted.stderr().iter().filter(|line| line.contains(warning)).count(), 1);
    drop(accepted);

    // With tokens, and without commands, there is nothing to accept.
    for arguments in [&["--auth", "token"][..], &["--commands", ""]] {
        let child = at(&dir, "serve").args(arguments).start().unwrap();
        child.wait_for_line("API  http://", LONG).await.unwrap();
        assert!(!child.stderr().join("\n").contains(warning), "{arguments:?}");
    }
}

#[tokio::test]
async fn an_anonymous_command_is_in_the_audit_with_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let body = r#"{"kind": "command", "input": {"argv": ["/bin/true"]}}"#;
    assert!(ask(&address, "POST /api/v1/jobs", body).starts_with("HTTP/1.1 201"));
    let rows = crate::kinds::command::wait_for(&address, "audit", r#""action":"create_job""#).await;
    assert!(rows.contains(r#""who":"anonymous:127.0.0.1""#), "{rows}");
}

#[tokio::test]
async fn a_server_with_tokens_may_listen_anywhere_and_prints_how_to_create_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = serve(&dir, &["--bind", "0.0.0.0", "--auth", "token"]).await;
    child.wait_for_line("lineclear token create NAME --scope admin", LONG).await.unwrap();
    let address = address.replace("0.0.0.0", "127.0.0.1");
    assert!(ask(&address, "GET /livez", "").starts_with("HTTP/1.1 200"));
    let refused = ask(&address, "GET /api/v1/jobs", "");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("www-authenticate"), "{refused}");
    let made =
        command(&["token", "create", "first", "--scope", "admin"]).current_dir(dir.path()).output().unwrap();
    let token = String::from_utf8(made.stdout).unwrap();
    let listed = ask_as(&address, "GET /api/v1/tokens", token.trim());
    assert!(listed.starts_with("HTTP/1.1 200") && listed.contains("\"first\""), "{listed}");
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let said = child.stderr().join("\n");
    assert!(!said.contains(token.trim().rsplit('_').next().unwrap()), "no secret in the log");
    // With a token there is no warning.
    let (mut child, _) = serve(&dir, &["--auth", "token"]).await;
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    assert!(!child.stderr().join("\n").contains("WARNING"));
}

#[tokio::test]
async fn invalid_listener_settings_are_refused_before_the_database_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, open) = (dir.path().join("secret"), dir.path().join("open"));
    for (file, text, mode) in [(&secret, "0123456789abcdef0123456789abcdef\n", 0o600), (&open, "x", 0o644)] {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let (secret, open) = (secret.to_str().unwrap(), open.to_str().unwrap());
    let proxy = ["--auth", "proxy", "--trusted-proxies"];
    let with = |more: &[&'static str]| [&proxy[..], more].concat();
    let (loopback, any) = (with(&["127.0.0.1"]), with(&["10.0.0.1"]));
    let (readable, missing) = (
        [&loopback[..], &["--proxy-secret-file", open]].concat(),
        [&loopback[..], &["--proxy-secret-file", "/nowhere"]].concat(),
    );
    let header = [&any[..], &["--proxy-secret-file", secret, "--proxy-user-header", "a b"]].concat();
    let cases: [(&[&str], &str); 11] = [
        (&["--bind", "0.0.0.0"], "auth = token"),
        (&["--bind", "::"], "auth = proxy"),
        (&["--auth", "proxy"], "needs an address"),
        (&["--auth", "proxy", "--trusted-proxies", "proxy.local"], "is not a network"),
        (&loopback, "every local one) can name any user"),
        (&any, "proxy_secret_file"),
        (&["--auth", "token", "--trusted-proxies", "127.0.0.1"], "every local process can forge"),
        (&readable, "every user can read"),
        (&missing, "cannot read /nowhere"),
        (&header, "not a valid header name"),
        (&["--auth", "password"], "is not none, token or proxy"),
    ];
    for (arguments, part) in cases {
        let mut child = at(&dir, "serve").args(["--port", "0"]).args(arguments).start().unwrap();
        assert_eq!(child.wait_for_exit(LONG).await.unwrap().code(), Some(2), "{arguments:?}");
        let said = child.stderr().join("\n");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert!(!dir.path().join("lineclear.db").exists());
}

#[tokio::test]
async fn workers_alone_have_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = at(&dir, "work").start().unwrap();
    child.wait_for_line("node 1 of SQLite file lineclear.db", LONG).await.unwrap();
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    assert!(!child.stderr().iter().any(|line| line.contains("API")));
}

#[test]
fn a_setting_comes_from_the_first_source_and_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "slots = 3\nroles = [\"planner\", \"cleaner\"]\npoll = \"2s\"\n").unwrap();
    let shown = ["config", "show", "--origin", "--config", file.to_str().unwrap()];
    let (code, shown, _) = lineclear(&shown, &[("LINECLEAR_SLOTS", "5")]);
    assert_eq!(code, Some(0), "{shown}");
    let line =
        |name: &str| shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(line("slots").contains('5') && line("slots").contains("environment LINECLEAR_SLOTS"), "{shown}");
    assert!(line("roles").contains("planner,cleaner") && line("roles").contains("mine.toml"), "{shown}");
    assert!(line("lease").contains("30s") && line("lease").contains("default"), "{shown}");
}

#[test]
fn an_invalid_setting_is_refused_with_its_origin() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let path = file.to_str().unwrap().to_owned();
    let cases = [
        ("proxy_peers = \"10.0.0.1\"", "did you mean trusted_proxies?"),
        ("proxy_secret = \"short\"", "at least 32"),
        ("slts = 3", "did you mean slots?"),
        ("slots = \"many\"", "slots (file"),
        ("poll = \"soon\"", "poll (file"),
        ("roles = [\"driver\"]", "is not a role"),
        ("db = \"oracle://x\"", "oracle:// is not a store"),
        ("slots = [[1]]", "must be a string"),
        ("slots = ", "mine.toml"),
        ("bind = \"everywhere\"", "is not an IP address"),
        ("log_format = \"xml\"", "is not text or json"),
    ];
    for (text, part) in cases {
        std::fs::write(&file, text).unwrap();
        let (code, _, said) = lineclear(&["config", "show", "--config", &path], &[]);
        assert_eq!(code, Some(2), "{text}: {said}");
        assert!(said.contains(part), "{text}: {said}");
    }
    let (code, _, said) = lineclear(&["config", "show", "--config", "/nowhere.toml"], &[]);
    assert!(code == Some(2) && said.contains("does not exist"), "{said}");
}

#[tokio::test]
async fn a_file_of_settings_that_is_a_pipe_or_a_device_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("lineclear.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let folder = dir.path().to_str().unwrap();
    for arguments in
        [&[][..], &["--config", "lineclear.toml"], &["--config", "/dev/zero"], &["--config", folder]]
    {
        let mut child = at(&dir, "config").args(["show"]).args(arguments).start().unwrap();
        assert_eq!(child.wait_for_exit(LONG).await.unwrap().code(), Some(2), "{arguments:?}");
        let said = child.stderr().join("\n");
        assert!(said.contains("must be a regular file"), "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn a_proxy_with_the_secret_of_a_file_names_users_and_without_it_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (file, secret) = (dir.path().join("secret"), "0123456789abcdef0123456789abcdef");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let by_file = ["--auth", "proxy", "--trusted-proxies", "127.0.0.1", "--proxy-secret-file", "secret"];
    let (mut child, address) = serve(&dir, &by_file).await;
    let user = "GET /api/v1/session HTTP/1.1\r\nX-Forwarded-User: ada";
    let send = |head: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(send(user).starts_with("HTTP/1.1 401"));
    assert!(send(&format!("{user}\r\nX-Lineclear-Proxy-Secret: {secret}")).contains("proxy:ada"));
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let log = child.stderr().join("\n");
    assert!(log.contains("authentication failed") && !log.contains(secret), "{log}");
    let shown = lineclear(&["config", "show", "--json"], &[("LINECLEAR_PROXY_SECRET", secret)]).1;
    assert!(shown.contains("proxy_secret") && !shown.contains(secret), "{shown}");
}

#[test]
fn a_password_is_not_shown() {
    let url = [("LINECLEAR_DB", "postgres://me:hush@db.internal/app")];
    let (code, shown, _) = lineclear(&["config", "show", "--json"], &url);
    assert!(code == Some(0) && shown.contains("db.internal") && !shown.contains("hush"), "{shown}");
    let url = [("LINECLEAR_OTLP", "http://me:hush@traces.internal:4318/x?token=hush")];
    for arguments in [&["config", "show"][..], &["config", "show", "--json"], &["config", "show", "--origin"]]
    {
        let (code, shown, _) = lineclear(arguments, &url);
        assert!(
            code == Some(0) && shown.contains("traces.internal:4318") && !shown.contains("hush"),
            "{shown}"
        );
    }
    let (code, _, said) =
        lineclear(&["config", "show"], &[("LINECLEAR_OTLP", "https://me:hush@traces.internal")]);
    assert!(code == Some(2) && said.contains("is not a URL such as") && !said.contains("hush"), "{said}");
}

#[test]
fn an_unknown_variable_is_refused_and_the_nearest_setting_is_named() {
    for command in [
        &["config", "show"][..],
        &["serve", "--port", "0"],
        &["work"],
        &["health"],
        &["token", "list"],
        &["db", "status"],
    ] {
        let (code, _, said) = lineclear(command, &[("LINECLEAR_SLOST", "hush")]);
        assert_eq!(code, Some(2), "{command:?}: {said}");
        assert!(
            said.contains("unknown setting LINECLEAR_SLOST")
                && said.contains("did you mean LINECLEAR_SLOTS?"),
            "{said}"
        );
        assert!(!said.contains("hush"), "the value may be a secret: {said}");
    }
    let (code, _, said) = lineclear(&["config", "show"], &[("LINECLEAR_ENTIRELY_DIFFERENT", "x")]);
    assert!(code == Some(2) && said.contains("config show"), "{said}");
    let others = [
        ("LINECLEAR_FENCE", "3"),
        ("LINECLEAR_LOCK", "nightly"),
        ("LINECLEAR_JOB", "7"),
        ("LINECLEAR_TICK", "2026-11-16T00:00:00Z"),
        ("LINECLEAR_REGISTRY", "x.db"),
        ("LINECLEAR_UPDATE", "1"),
        ("LINECLEAR_TEST_SOMETHING", "x"),
        ("LINECLEAR_SERVICE_HOST", "10.0.0.1"),
        ("LINECLEAR_PORT", "tcp://10.0.0.1:7171"),
        ("LINECLEAR_PORT_7171_TCP", "tcp://10.0.0.1:7171"),
    ];
    let (code, shown, said) = lineclear(&["config", "show", "--origin"], &others);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        shown.lines().any(|line| line.contains("port") && line.contains("7171") && line.contains("default")),
        "{shown}"
    );
}
