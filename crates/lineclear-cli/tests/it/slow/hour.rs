//! An hour of ticks, 3,600: forty manifests that fire every second for a minute and a half, on two servers that are killed and
//! frozen while they run them.
//!
//! Each command writes when it begins and when it ends, and holds a lock of its tick while it runs. [`judge`] compares
//! their output with the history.

mod history;
mod judge;

use std::path::Path;
use std::time::{Duration, Instant};

use lineclear_testkit::{Child, fresh_postgres};
use tempfile::TempDir;

use self::history::History;
use self::judge::{Away, Mark, judge};
use crate::commands::serve::serve;

const LONG: Duration = Duration::from_secs(60);

/// `$1` is the manifest's key and `$2` how long it takes. The server is the parent of its supervisor,
/// which has its id among its arguments in case the server is killed as the command begins. The lock ends with the last process of it.
const COMMAND: &str = r#"
read -r _ _ _ server _ < "/proc/$PPID/stat"
[ "$server" -gt 1 ] || server=$(tr '\0' ' ' < "/proc/$PPID/cmdline" | head -n 1 | cut -d' ' -f3)
mark() { read -r now _ < /proc/uptime; echo "$1 $2 $LINECLEAR_TICK $LINECLEAR_CLAIM $server $now" >> marks; }
exec 9> "lock.$1.$LINECLEAR_TICK"
flock -n 9 || { mark twice "$1"; exit 1; }
mark begin "$1"
[ "$2" = 0 ] || sleep "$2"
mark end "$1"
"#;

/// The load: the number of manifests and of seconds.
struct Asked {
    orders: usize,
    seconds: u32,
    /// The duration of every tenth command.
    longest: &'static str,
}

impl Asked {
    fn ticks(&self) -> usize {
        self.orders * self.seconds as usize
    }

    /// The first of them is due when both servers are there.
    fn write(&self, dir: &TempDir) -> jiff::Timestamp {
        let first = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 4).unwrap();
        let last = first + jiff::SignedDuration::from_secs(i64::from(self.seconds) - 1);
        let orders = (0..self.orders).map(|order| {
            let key = format!("order-{order}");
            let takes = if order % 10 == 0 { self.longest } else { "0" };
            let argv = serde_json::to_string(&["/bin/sh", "-c", COMMAND, "sh", &key, takes]).unwrap();
            format!(
                "[[manifest]]\nkey = \"{key}\"\nkind = \"command\"\ninput = {{ argv = {argv} }}\noverlap = \"allow\"\n\
                 schedule = {{ every = \"1s\", start = \"{first}\", end = \"{last}\" }}\n"
            )
        });
        std::fs::write(dir.path().join("orders.toml"), orders.collect::<String>()).unwrap();
        first
    }
}

/// The fault of a server, which lasts until other servers have its jobs.
enum Turn {
    /// Killed; another server is started in its place.
    Killed,
    /// Frozen, and then resumed.
    Frozen,
}

/// Seconds since the machine was started: commands read the same clock, the only one that needs no further process.
fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The output of the commands, in the order in which it was written.
fn marks(dir: &Path) -> Vec<Mark> {
    let text = std::fs::read_to_string(dir.join("marks")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits for a condition as long as jobs end: a busy machine may only be late.
async fn until(what: &str, history: &History, holds: impl AsyncFn() -> bool) {
    let (mut ended, mut since) = (0, Instant::now());
    while !holds().await {
        let now = history.ended().await;
        if now > ended {
            (ended, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < LONG, "{what}: {ended} jobs ended, and then none for {LONG:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Runs the load on two servers, and kills or freezes one of them in turn.
async fn survive(asked: &Asked, turns: &[Turn], database: Option<&str>) {
    let dir = tempfile::tempdir().unwrap();
    let at = database.map_or_else(Vec::new, |url| vec!["--db", url]);
    let settings = [
        &at[..],
        &["--commands", "/bin/sh", "--lease", "6s", "--heartbeat", "1s", "--slots", "60"],
        &["--manifests", "orders.toml"],
    ]
    .concat();
    let first = asked.write(&dir);
    let mut servers: [(Child, String); 2] = [serve(&dir, &settings).await, serve(&dir, &settings).await];

    let history = History::of(database, &dir.path().join("lineclear.db"));
    let mut away = Vec::new();
    for (turn, what) in turns.iter().enumerate() {
        // As long as a command takes, so that commands of all kinds are running.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let server = &mut servers[turn % 2].0;
        let (pid, since) = (server.id(), uptime());
        match what {
            Turn::Killed => drop(server.kill().unwrap()),
            Turn::Frozen => server.pause().await.unwrap(),
        }
        until("others have its jobs", &history, async || history.held_by(pid).await == 0).await;
        match what {
            Turn::Killed => servers[turn % 2] = serve(&dir, &settings).await,
            Turn::Frozen => server.resume().unwrap(),
        }
        away.push(Away { pid, since, until: uptime() });
        // A job that loses its workers twice would wait to run alone, one after another.
        until("its interrupted jobs are done", &history, async || history.interrupted().await == 0).await;
    }
    until("all jobs end", &history, async || history.ended().await == asked.ticks()).await;
    let (marks, claims) = (marks(dir.path()), history.claims().await);
    let due = (0..asked.orders).flat_map(|order| {
        (0..asked.seconds)
            .map(move |second| (format!("order-{order}"), first.as_second() + i64::from(second)))
    });
    let faults = judge(due, &marks, &claims, &away);
    assert!(
        faults.is_empty(),
        "{} faults, such as:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    let again = claims.iter().filter(|claim| claim.outcome == "lost").count();
    println!("{} ticks, {} claims, {again} lost with their server", asked.ticks(), claims.len());
    assert!(again > 0, "no job was interrupted");
}

#[tokio::test]
async fn an_hour_of_ticks_is_run_once_by_two_servers_one_of_which_is_killed() {
    use Turn::{Frozen, Killed};
    let database = fresh_postgres().await;
    let asked = Asked { orders: 40, seconds: 90, longest: "7" };
    survive(&asked, &[Killed, Frozen, Killed], Some(database.url())).await;
}

/// None is frozen: a server that is frozen in the middle of a write blocks the other until it is ended.
#[tokio::test]
async fn ticks_are_run_once_by_two_servers_on_one_file_one_of_which_is_killed() {
    let asked = Asked { orders: 20, seconds: 20, longest: "7" };
    survive(&asked, &[Turn::Killed, Turn::Killed], None).await;
}
