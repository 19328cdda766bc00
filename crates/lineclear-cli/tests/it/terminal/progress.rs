//! Progress of long work: printed on terminals only.

use serde_json::{Value, json};

use crate::commands::job::until;
use crate::commands::serve::serve;
use crate::run::{at, on_a_terminal};

/// More than one page.
const MANY: usize = 1_100;

#[tokio::test]
async fn long_lists_and_exports_print_progress_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let server = ["--server", &format!("http://{address}")];
    let run = |args: &[&str]| at(&dir, &[args, &server].concat());
    // The server does not allow this program, so the jobs die at once.
    let dies = json!({"kind": "command", "input": {"argv": ["/bin/no"]}, "retries": 0});
    let body = json!({"jobs": vec![dies; MANY / 2]}).to_string();
    std::fs::write(dir.path().join("jobs.json"), body).unwrap();
    for _ in 0..2 {
        let made = run(&["api", "POST", "/jobs/batch", "--body", "@jobs.json"]);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    }
    until(|| {
        let families: Value = serde_json::from_str(&run(&["dead-letter", "families", "--json"]).out).unwrap();
        families["total"] == MANY
    });
    for (words, said) in [
        (&["job", "list", "--all", "--json"][..], "\r1000 listed, "),
        (&["dead-letter", "export", "--file", "dead.ndjson"], "\r1000 written, "),
    ] {
        let seen = on_a_terminal(&dir, &[words, &server].concat(), &[]);
        assert!(
            seen.code == Some(0) && seen.out.contains(said) && seen.out.contains("/s\u{1b}[K"),
            "{words:?}: {:.300}",
            seen.out
        );
        let piped = run(words);
        assert!(piped.code == Some(0) && !piped.err.contains("/s"), "{words:?}: {}", piped.err);
    }
    let exported = std::fs::read_to_string(dir.path().join("dead.ndjson")).unwrap();
    assert_eq!(exported.lines().count(), MANY);
    let few = on_a_terminal(&dir, &[&["job", "list", "--limit", "5"][..], &server].concat(), &[]).out;
    assert!(!few.contains(" listed, "), "{few}");
}
