//! Contends for a lock with others: `contender URL LOCK CONTENDERS SECONDS [TTL_MS [HOLD_MS]]`. It says what it sees, line by line.

use std::io::Write;
use std::time::Duration;

use lineclear_lock::history::{Event, Observation};
use lineclear_lock::{LockError, LockOptions, Locks, Moment};

fn say(contender: &str, lock: &str, observation: Observation) {
    let event =
        Event { contender: contender.to_owned(), lock: lock.to_owned(), observation, at: Moment::now() };
    // The pipe is closed when the test has ended.
    drop(writeln!(std::io::stdout(), "{event}"));
}

async fn contend(
    locks: Locks,
    contender: String,
    lock: String,
    until: Moment,
    hold: Duration,
) -> Result<(), LockError> {
    while !until.remaining().is_zero() {
        say(&contender, &lock, Observation::Asked);
        let Some(held) = locks.acquire(&lock, until.remaining()).await? else { break };
        // A grant that can no longer be trusted is none.
        if held.trusted_for().is_zero() {
            continue;
        }
        say(&contender, &lock, Observation::Held(held.epoch()));
        held.guard(tokio::time::sleep(hold)).await.ok();
        say(&contender, &lock, Observation::Ended(held.epoch()));
        held.release().await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, lock, contenders, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("usage: contender URL LOCK CONTENDERS SECONDS [TTL_MS [HOLD_MS]]".into());
    };
    let ttl = rest.first().map_or(Ok(10_000), |ttl| ttl.parse())?;
    let options = LockOptions {
        retry_interval: Duration::from_millis(50),
        ..LockOptions::with_ttl(Duration::from_millis(ttl))
    };
    let locks = Locks::open_with(url, options).await?;
    let hold = Duration::from_millis(rest.get(1).map_or(Ok(2), |hold| hold.parse())?);
    let until = Moment::now().plus(Duration::from_secs(seconds.parse()?));
    let pid = std::process::id();
    let all: Vec<_> = (0..contenders.parse::<u32>()?)
        .map(|no| tokio::spawn(contend(locks.clone(), format!("{pid}.{no}"), lock.clone(), until, hold)))
        .collect();
    for one in all {
        one.await??;
    }
    println!("done");
    Ok(())
}
