//! A worker for pushed jobs, for tests that kill it: `push_worker SECRET [hang] [fail=PERCENT] [sleep=MILLIS]`. It prints its URL and
//! each job, and refuses calls that are not signed with its secret.

use std::time::Duration;

use lineclear::HandlerError;
use lineclear::outbound::{Secret, VERIFY_WINDOW, verify};
use lineclear_testkit::{HttpCall, HttpEndpoint, HttpReply};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pushed {
    job: Job,
    claim: Claim,
}

#[derive(Deserialize)]
struct Job {
    id: String,
}

#[derive(Deserialize)]
struct Claim {
    no: u64,
}

#[derive(Clone, Copy, Default)]
struct Behaviour {
    hangs: bool,
    fails_percent: u64,
    sleeps_millis: u64,
}

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    let mut arguments = std::env::args().skip(1);
    let secret: Secret =
        arguments.next().ok_or("usage: push_worker SECRET [hang] [fail=PERCENT] [sleep=MILLIS]")?.parse()?;
    let mut behaviour = Behaviour::default();
    for argument in arguments {
        match argument.split_once('=') {
            Some(("fail", percent)) => behaviour.fails_percent = percent.parse()?,
            Some(("sleep", millis)) => behaviour.sleeps_millis = millis.parse()?,
            None if argument == "hang" => behaviour.hangs = true,
            _ => return Err(format!("{argument:?} is no option").into()),
        }
    }
    let endpoint = HttpEndpoint::start(move |call| answer(call, secret.clone(), behaviour)).await?;
    println!("worker is up at {}", endpoint.url());
    std::future::pending().await
}

async fn answer(call: HttpCall, secret: Secret, behaviour: Behaviour) -> HttpReply {
    let headers =
        call.headers.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    if let Err(error) = verify(&[secret], &headers.collect(), &call.body, VERIFY_WINDOW) {
        return HttpReply::new(401, error.to_string());
    }
    let Ok(Pushed { job, claim }) = serde_json::from_slice(&call.body) else {
        return HttpReply::new(400, "not a job");
    };
    println!("job {} claim {} started", job.id, claim.no);
    if behaviour.hangs {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(behaviour.sleeps_millis)).await;
    // At random, and the same each time that the test runs.
    let id: u64 = job.id.parse().unwrap_or_default();
    if (id * 7_919 + claim.no * 104_729) % 100 < behaviour.fails_percent {
        return HttpReply::new(500, "no luck");
    }
    println!("job {} claim {} ended", job.id, claim.no);
    HttpReply::new(200, r#"{"outcome":"completed","output":"done"}"#)
}
