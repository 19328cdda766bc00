//! A node for tests that freeze and kill it: `child URL ROLES LEASE_MS [OPTION=NUMBER]…`. It says what it does, line by
//! line; warnings go to standard error. With `dispatching` or `claiming` for roles it is no node, but calls that verb.

mod verbs;
mod warnings;

use std::time::{Duration, SystemTime};

use lineclear::model::Backoff;
use lineclear::{Cancel, HandlerError, Input, JobInfo, KindOptions, Lineclear, NodeOptions, Role};

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    warnings::to_stderr();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, roles, lease_ms, rest @ ..] = arguments.as_slice() else {
        return Err("usage: child URL ROLES LEASE_MS [OPTION=NUMBER]…".into());
    };
    let lease = Duration::from_millis(lease_ms.parse()?);
    match roles.as_str() {
        "dispatching" => return verbs::dispatch(url).await,
        "claiming" => return verbs::claim(url, lease).await,
        _ => {}
    }
    let mut options = NodeOptions {
        roles: roles.split(',').map(role).collect::<Result<Vec<_>, _>>()?.concat(),
        lease,
        renewal: lease / 4,
        poll: Duration::from_millis(100),
        plan_interval: Duration::from_millis(200),
        ..NodeOptions::default()
    };
    for option in rest {
        set(&mut options, option)?;
    }
    let at_once = Backoff { delay: Duration::from_millis(1), ..Backoff::default() };
    let one_retry = KindOptions { retry: at_once.policy(1), ..KindOptions::default() };
    let node = Lineclear::builder()
        .store(url)
        .options(options)
        .kind("sleep", sleep)
        .kind("sleeps", sleeps)
        .kind("blocks", blocks)
        .kind("endless", endless)
        .kind("crashes", crashes)
        .kind_with("broken", one_retry, broken)
        .start()
        .await?;
    println!("node {} is up", node.id());
    node.run_until_stopped().await?;
    Ok(())
}

async fn sleep(Input(millis): Input<u64>, job: JobInfo) {
    say(&job, "started");
    tokio::time::sleep(Duration::from_millis(millis)).await;
    say(&job, "ended");
}

/// Sleeps as long as the list says for this claim; the last one counts for all that follow.
async fn sleeps(Input(millis): Input<Vec<u64>>, job: JobInfo) {
    let turn = usize::try_from(job.claim_no).unwrap_or(usize::MAX).min(millis.len()) - 1;
    sleep(Input(millis[turn]), job).await;
}

/// Blocks its thread, as no handler should.
async fn blocks(Input(millis): Input<u64>, job: JobInfo) {
    say(&job, "started");
    std::thread::sleep(Duration::from_millis(millis));
    say(&job, "ended");
}

/// Goes on until it is told to stop.
async fn endless(cancel: Cancel, job: JobInfo) -> Result<(), HandlerError> {
    say(&job, "started");
    cancel.requested().await;
    Err("told to stop".into())
}

/// Takes its process down.
async fn crashes(job: JobInfo) {
    say(&job, "started");
    std::process::abort();
}

/// Fails for so many claims, and then works.
async fn broken(Input(claims): Input<u32>, job: JobInfo) -> Result<(), HandlerError> {
    say(&job, "started");
    if job.claim_no <= claims { Err("broken".into()) } else { Ok(()) }
}

/// One line, with the machine's clock in microseconds: all children of a test share that.
fn say(job: &JobInfo, what: &str) {
    let at = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
    println!("job {} claim {} {what} at {at}", job.id, job.claim_no);
}

fn role(word: &str) -> Result<Vec<Role>, String> {
    match word {
        "planner" => Ok(vec![Role::Planner]),
        "dispatcher" => Ok(vec![Role::Dispatcher]),
        "claimers" => Ok(vec![Role::Workers]),
        "workers" => Ok(vec![Role::Dispatcher, Role::Workers]),
        "cleaner" => Ok(vec![Role::Cleaner]),
        other => Err(format!("{other} is no role")),
    }
}

/// `slots=4`, or milliseconds for the rest.
fn set(options: &mut NodeOptions, option: &str) -> Result<(), HandlerError> {
    let (name, number) = option.split_once('=').ok_or("an option is NAME=NUMBER")?;
    let number: u64 = number.parse()?;
    let millis = Duration::from_millis(number);
    match name {
        "slots" => options.slots = u32::try_from(number)?,
        "renewal" => options.renewal = millis,
        "poll" => options.poll = millis,
        "plan" => options.plan_interval = millis,
        "heartbeat" => options.heartbeat = millis,
        "clean" => options.clean_interval = millis,
        "keep" => {
            options.retention.completed = millis;
            options.retention.failed = millis;
            options.retention.dead_letters = millis;
        }
        other => return Err(format!("{other} is no option").into()),
    }
    Ok(())
}
