//! Runs the guides as a reader would: in an empty folder, on a terminal, block by block.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lineclear_testkit::{Child, Program};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

/// The fenced blocks, with their languages.
pub(crate) fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in page.split("\n```").collect::<Vec<_>>()[1..].chunks(2) {
        let (language, text) = part[0].split_once('\n').unwrap();
        found.push((language.to_owned(), format!("{text}\n")));
    }
    found
}

/// A reader: a folder, and a free port.
pub(crate) struct Reader {
    pub(crate) dir: TempDir,
    port: String,
    pub(crate) server: Option<Child>,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        let port = lineclear_testkit::free_port().unwrap().to_string();
        Reader { dir: tempfile::tempdir().unwrap(), port, server: None }
    }

    /// `lineclear serve …`, which keeps running.
    pub(crate) async fn serve(&mut self, arguments: &[&str]) {
        let server = Program::at(env!("CARGO_BIN_EXE_lineclear"))
            .args(["serve"])
            .args(arguments)
            .current_dir(self.dir.path())
            .env("LINECLEAR_PORT", &self.port)
            .start()
            .unwrap();
        server.wait_for_line("API  http://", LONG).await.unwrap();
        self.server = Some(server);
    }

    /// Types a block on a terminal; returns whether it succeeded, and the output.
    pub(crate) fn types(&self, block: &str) -> (bool, String) {
        std::fs::write(self.dir.path().join(".typed"), format!("set -e\n{block}")).unwrap();
        let folder = Path::new(env!("CARGO_BIN_EXE_lineclear")).parent().unwrap().display().to_string();
        let output = Command::new("script")
            .args(["-qec", "stty cols 200; sh .typed", "/dev/null"])
            .current_dir(self.dir.path())
            .env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()))
            .env("LINECLEAR_PORT", &self.port)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env_remove("TZ")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).replace('\r', ""))
    }

    /// Types a block repeatedly until the output matches; `…` stands for any text.
    pub(crate) fn sees(&self, block: &str, want: &str) {
        let begun = Instant::now();
        loop {
            let (well, seen) = self.types(block);
            if well && shows(&seen, want) {
                return;
            }
            assert!(begun.elapsed() < LONG, "{block}\nshows\n{seen}\nand not\n{want}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Whether each line is there, in order; `…` stands for anything within one.
fn shows(seen: &str, want: &str) -> bool {
    let mut lines = seen.lines();
    want.lines().all(|want| lines.any(|line| fits(line, want)))
}

fn fits(line: &str, want: &str) -> bool {
    let mut rest = line.trim_end();
    let parts: Vec<&str> = want.trim_end().split('…').collect();
    let [first, .., last] = &parts[..] else { return rest == want.trim_end() };
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for part in &parts[1..parts.len() - 1] {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn dots_stand_for_anything_within_a_line() {
    assert!(shows("a\nID  STATE\n1 done\n", "ID…STATE\n…done\n"));
    assert!(!shows("1 done\nID  STATE\n", "ID…STATE\n…done\n"));
    assert!(fits("abc", "abc") && !fits("abcd", "abc") && fits("abcd", "a…d") && !fits("abc", "a…d"));
}

#[tokio::test]
async fn the_first_steps_lead_from_nothing_to_a_running_schedule_in_four_commands() {
    let page = include_str!("../../../../../docs/quickstart.md");
    let mut reader = Reader::new();
    let blocks = blocks(page);
    let shell: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].0 == "sh").collect();
    // Serve, write, apply, list; the other commands are optional.
    assert_eq!(shell.len(), 6);
    for at in shell {
        let block = &blocks[at].1;
        if let Some(arguments) = block.strip_prefix("lineclear serve ") {
            reader.serve(&arguments.split_whitespace().collect::<Vec<_>>()).await;
            continue;
        }
        let want = blocks.get(at + 1).filter(|next| next.0 == "text").map_or("", |next| &next.1);
        assert!(!want.is_empty() || block.starts_with("cat > "), "the page shows no output of\n{block}");
        reader.sees(block, want);
    }
}

#[test]
fn the_help_alone_shows_the_first_steps() {
    let reader = Reader::new();
    let page = include_str!("../../../../../docs/quickstart.md");
    let (_, help) = reader.types("lineclear --help\nlineclear manifest apply --help\n");
    let shown: Vec<&str> = help.lines().map(str::trim).collect();
    let commands = [
        "lineclear serve --commands /bin/date --allow-open-commands",
        "lineclear manifest apply -f jobs.toml",
        "lineclear job list",
    ];
    for command in commands {
        assert!(page.contains(&format!("```sh\n{command}\n")), "{command}");
        assert!(shown.iter().any(|line| line.starts_with(command)), "{command}:\n{help}");
    }
    let file = page.split("<<'END'\n").nth(1).unwrap().split("END\n").next().unwrap();
    assert!(file.lines().all(|line| shown.contains(&line)), "{help}");
}
