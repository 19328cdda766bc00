//! An imported crontab line runs at its minute.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::commands::serve::serve;
use crate::run::at;

/// It is not triggered: the server plans and runs it at its minute.
#[tokio::test]
async fn an_imported_line_runs_when_its_minute_comes() {
    let dir = tempfile::tempdir().unwrap();
    let crontab = "SHELL=/bin/bash\n* * * * * echo \"$LINECLEAR_TICK of $SHELL\" >> ticks\n";
    std::fs::write(dir.path().join("tab"), crontab).unwrap();
    let made =
        at(&dir, &["manifest", "import", "--crontab", "tab", "--tz", "Europe/Berlin", "--out", "jobs.toml"]);
    let settings = made.err.split("extend that:\n\n").nth(1).unwrap().split("\n\nthen").next().unwrap();
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let server = format!("http://{address}");
    let before = jiff::Timestamp::now();
    let applied = at(&dir, &["manifest", "apply", "-f", "jobs.toml", "--server", &server]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let until = Instant::now() + Duration::from_secs(90);
    let done = loop {
        let history = at(&dir, &["manifest", "history", "echo", "--server", &server, "--json"]);
        let history: Value = serde_json::from_str(&history.out).unwrap();
        let done =
            history["items"].as_array().unwrap().iter().find(|item| item["state"] == "completed").cloned();
        if let Some(done) = done {
            break done;
        }
        assert!(Instant::now() < until, "it does not tick: {history}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    let tick = done["tick_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(tick > before && tick.as_second() % 60 == 0, "{done}");
    let ticks = std::fs::read_to_string(dir.path().join("ticks")).unwrap();
    assert_eq!(ticks.lines().next(), Some(format!("{tick} of /bin/bash").as_str()));
}
