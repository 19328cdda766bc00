//! A program that does something in every cycle, in as many versions as there are: `cycles URL FILE FIRST LAST BEGIN_MS PERIOD_MS`. Its version is
//! in `VERSION`. Cycle n is due at `BEGIN_MS + n * PERIOD_MS` (since 1970).
//!
//! A lock keeps two from working at once. That each cycle is worked on *once* takes a mark that cannot be made twice: here, a row of a
//! SQLite file, which also refuses a holder that is not the last. It says what happens, line by line.

use std::time::{Duration, SystemTime};

use lineclear_lock::{Lease, LockOptions, Locks, Moment};
use rusqlite::Connection;

type Error = Box<dyn std::error::Error + Send + Sync>;

const LOCK: &str = "scheduler:auto-refresh:lock";
/// How long the work of one cycle takes.
const WORK: Duration = Duration::from_millis(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, file, numbers @ ..] = arguments.as_slice() else {
        return Err("usage: cycles URL FILE FIRST LAST BEGIN_MS PERIOD_MS".into());
    };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [first, last, begin, period] = numbers[..] else {
        return Err("FIRST, LAST, BEGIN_MS and PERIOD_MS are needed".into());
    };
    let version = std::env::var("VERSION")?;
    let mut marks = Connection::open(file)?;
    marks.busy_timeout(Duration::from_secs(10))?;
    marks.execute_batch(
        "create table if not exists cycle (number integer primary key, version text not null, epoch integer not null)",
    )?;
    let locks = Locks::open_with(url, options(url)).await?;
    for number in first..=last {
        let due = SystemTime::UNIX_EPOCH + Duration::from_millis(begin + number * period);
        tokio::time::sleep(due.duration_since(SystemTime::now()).unwrap_or_default()).await;
        // Who finds it busy skips: the other is at it. Only the last cycle is waited for, so that none is left over.
        let within = if number == last { Duration::from_secs(30) } else { Duration::ZERO };
        let Some(held) = locks.acquire(LOCK, within).await? else {
            println!("{version} found cycle {number} busy");
            continue;
        };
        for due in 0..=number {
            work(&version, due, &held.lease(), &mut marks).await?;
        }
        held.release().await?;
    }
    Ok(())
}

/// Works on a cycle, unless that was done. The lock keeps other processes out between the check and the mark.
async fn work(version: &str, number: u64, lease: &Lease, marks: &mut Connection) -> Result<(), Error> {
    let (cycle, epoch) = (i64::try_from(number)?, lease.epoch().get());
    if marks.query_row("select exists (select 1 from cycle where number = ?1)", [cycle], |row| row.get(0))? {
        return Ok(());
    }
    let began = Moment::now().micros();
    lease.guard(tokio::time::sleep(WORK)).await.map_err(|why| why.to_string())?;
    println!("{version} worked on {number} as {epoch} from {began} to {}", Moment::now().micros());
    let mark = "insert into cycle select ?1, ?2, ?3 where ?3 >= (select coalesce(max(epoch), 0) from cycle)";
    match marks.execute(mark, (cycle, version, epoch))? {
        0 => Err("another holds the lock now".into()),
        _ => Ok(()),
    }
}

/// The times of the scheduler lock in Redis, a three-hundredth of each.
#[cfg(feature = "redis")]
fn options(url: &str) -> LockOptions {
    let short = LockOptions::with_ttl(Duration::from_secs(6));
    if !url.starts_with("redis:") {
        return short;
    }
    let LockOptions { ttl, renewal_interval, soft_limit, .. } = lineclear_lock::redis::auto_refresh();
    LockOptions {
        ttl: ttl / 300,
        renewal_interval: renewal_interval / 300,
        soft_limit: soft_limit.map(|limit| limit / 300),
        ..short
    }
}

#[cfg(not(feature = "redis"))]
fn options(_url: &str) -> LockOptions {
    LockOptions::with_ttl(Duration::from_secs(6))
}
