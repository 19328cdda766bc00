//! Where the command line sends a token: to a server that the user named, and not in the clear to another machine.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::run::{Run, command_at, ran};

const TOKEN: &str = "lc_hush";

/// A server of another user: accepts connections, and keeps what they say.
struct Listener(TcpListener);

impl Listener {
    fn start() -> Listener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Listener(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// What the client sent before it gave up.
    fn heard(&self) -> String {
        let mut heard = String::new();
        while let Ok((mut stream, _)) = self.0.accept() {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).unwrap_or(0);
            heard.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        heard
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Lists jobs with a token, and waits for no response.
fn list(dir: &TempDir, arguments: &[&str]) -> Run {
    let all = [&["job", "list", "--request-timeout", "1s"], arguments].concat();
    ran(command_at(dir, &all).env("LINECLEAR_TOKEN", TOKEN))
}

#[test]
fn a_token_does_not_go_where_a_file_of_another_user_says() {
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::start();
    let file = dir.path().join("lineclear.toml");
    std::fs::write(&file, format!("port = {}\n", listener.port())).unwrap();
    mode(&file, 0o644);
    let trusted = list(&dir, &[]);
    assert_eq!(trusted.code, Some(7), "{}", trusted.err);
    assert!(listener.heard().contains(TOKEN), "a file of the user is trusted");

    let refused = |why: &str| {
        let run = list(&dir, &[]);
        assert_eq!(run.code, Some(2), "{why}: {}", run.err);
        assert!(run.err.contains("the token is not sent") && run.err.contains(why), "{why}: {}", run.err);
        assert!(run.err.contains("--server") && run.err.contains("lineclear.toml"), "{}", run.err);
        assert_eq!(listener.heard(), "", "{why}");
    };
    for writable in [0o664, 0o646] {
        mode(&file, writable);
        refused("which other users can write to");
    }
    mode(&file, 0o644);
    mode(dir.path(), 0o777);
    refused("in a folder that every user can write to");
    mode(dir.path(), 0o755);
    if rustix::process::geteuid().is_root() {
        chown(dir.path(), Some(65_534), None).unwrap();
        refused("in a folder of another user");
        chown(&file, Some(65_534), None).unwrap();
        refused("which belongs to another user (uid 65534)");
    }
    // A server that the user names gets it, whatever the files say; and nothing is kept from a request without a token.
    let named = list(&dir, &["--server", &format!("http://127.0.0.1:{}", listener.port())]);
    assert!(named.code == Some(7) && listener.heard().contains(TOKEN), "{}", named.err);
    let tokenless = ran(&mut command_at(&dir, &["job", "list", "--request-timeout", "1s"]));
    assert_eq!(tokenless.code, Some(7), "{}", tokenless.err);
    assert!(listener.heard().starts_with("GET "));
}

#[test]
fn a_token_does_not_go_to_a_server_that_nothing_names() {
    let dir = tempfile::tempdir().unwrap();
    let refused = list(&dir, &[]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    for part in ["the token is not sent", "nothing names the server", "--server", "LINECLEAR_SERVER"] {
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    // A file that does not say where the server is names none.
    std::fs::write(dir.path().join("lineclear.toml"), "slots = 3\n").unwrap();
    assert!(list(&dir, &[]).err.contains("nothing names the server"));
    let listener = Listener::start();
    let port = listener.port().to_string();
    let mut by_variable = command_at(&dir, &["job", "list", "--request-timeout", "1s"]);
    let named = ran(by_variable.env("LINECLEAR_TOKEN", TOKEN).env("LINECLEAR_PORT", port));
    assert!(named.code == Some(7) && listener.heard().contains(TOKEN), "{}", named.err);
}

/// 192.0.2.1 is an address for documentation: no machine has it.
#[test]
fn a_token_does_not_go_to_another_machine_without_tls() {
    let dir = tempfile::tempdir().unwrap();
    for server in
        ["http://192.0.2.1:7171", "http://scheduler.invalid", "http://[2001:db8::1]:7171", "HTTP://192.0.2.1"]
    {
        let run = list(&dir, &["--server", server]);
        assert_eq!(run.code, Some(2), "{server}: {}", run.err);
        for part in ["the token is not sent", "https://", "--insecure-http"] {
            assert!(run.err.contains(part), "{server}: {}", run.err);
        }
    }
    std::fs::write(dir.path().join("lineclear.toml"), "bind = \"192.0.2.1\"\n").unwrap();
    let run = list(&dir, &[]);
    assert!(run.code == Some(2) && run.err.contains("the token is not sent"), "{}", run.err);
    // Without a token, over TLS, or on request it is tried.
    let begun = Instant::now();
    let unreachable =
        |run: Run| assert!([Some(6), Some(7)].contains(&run.code), "{:?}: {}", run.code, run.err);
    unreachable(list(&dir, &["--server", "https://scheduler.invalid"]));
    unreachable(list(&dir, &["--server", "http://scheduler.invalid", "--insecure-http"]));
    let mut accepted = command_at(&dir, &["job", "list", "--server", "http://scheduler.invalid"]);
    unreachable(ran(accepted.env("LINECLEAR_TOKEN", TOKEN).env("LINECLEAR_INSECURE_HTTP", "true")));
    unreachable(ran(&mut command_at(&dir, &["job", "list", "--server", "http://scheduler.invalid"])));
    assert!(begun.elapsed() < Duration::from_secs(60));
}
