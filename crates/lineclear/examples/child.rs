//! A node for tests that freeze and kill it: `child URL ROLES LEASE_MS`. It says what it does, line by line.

use std::time::Duration;

use lineclear::{Cancel, HandlerError, Input, JobInfo, Lineclear, NodeOptions, Role};

async fn sleep(Input(millis): Input<u64>, job: JobInfo) {
    println!("job {} claim {} started", job.id, job.claim_no);
    tokio::time::sleep(Duration::from_millis(millis)).await;
    println!("job {} claim {} ended", job.id, job.claim_no);
}

/// Goes on until it is told to stop.
async fn endless(cancel: Cancel, job: JobInfo) -> Result<(), HandlerError> {
    println!("job {} claim {} started", job.id, job.claim_no);
    cancel.requested().await;
    Err("told to stop".into())
}

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, roles, lease_ms] = arguments.as_slice() else {
        return Err("usage: child URL ROLES LEASE_MS".into());
    };
    let lease = Duration::from_millis(lease_ms.parse()?);
    let options = NodeOptions {
        roles: roles.split(',').map(role).collect::<Result<Vec<_>, _>>()?.concat(),
        lease,
        renewal: lease / 4,
        poll: Duration::from_millis(100),
        plan_interval: Duration::from_millis(200),
        ..NodeOptions::default()
    };
    let node = Lineclear::builder()
        .store(url)
        .options(options)
        .kind("sleep", sleep)
        .kind("endless", endless)
        .start()
        .await?;
    println!("node {} is up", node.id());
    node.run_until_stopped().await?;
    Ok(())
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
