//! A worker that pulls jobs of the kind `thumbnail`: `LINECLEAR_URL=http://127.0.0.1:8080 cargo run -p lineclear-worker --example pull`.

use std::time::Duration;

use lineclear_worker::{Cancel, Ctx, Done, HandlerError, Input, JobInfo, Worker};
use serde::Deserialize;

#[derive(Deserialize)]
struct Picture {
    name: String,
    /// How long the work takes.
    #[serde(default)]
    millis: u64,
}

async fn thumbnail(
    Input(picture): Input<Picture>,
    job: JobInfo,
    ctx: Ctx,
    cancel: Cancel,
) -> Result<Done<String>, HandlerError> {
    println!("job {} claim {} started", job.id, job.claim_no);
    ctx.progress(0.5, "half");
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(picture.millis)) => {}
        () = cancel.requested() => {
            println!("job {} claim {} was told to stop", job.id, job.claim_no);
            return Err("told to stop".into());
        }
    }
    println!("job {} claim {} ended", job.id, job.claim_no);
    Ok(Done(format!("{}.small", picture.name)))
}

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    let server = std::env::var("LINECLEAR_URL").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let token = std::env::var("LINECLEAR_TOKEN").ok();
    let worker = Worker::builder().kind("thumbnail", thumbnail).build()?;
    println!("the worker starts");
    worker.pull(server, token).slots(4).run_until_stopped().await?;
    println!("the worker has stopped");
    Ok(())
}
