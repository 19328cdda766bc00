//! One kind of job, run once at once and then every second.
use std::time::Duration;

use lineclear::model::{Manifest, Name, Payload, Schedule};
use lineclear::{HandlerError, Input, JobInfo, Lineclear};

#[derive(serde::Deserialize)]
struct Greeting {
    name: String,
}

async fn greet(Input(greeting): Input<Greeting>, job: JobInfo) -> Result<(), HandlerError> {
    println!("job {}: hello, {}", job.id, greeting.name);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    let every_second = Schedule::every(Duration::from_secs(1))?;
    let manifest = Manifest {
        input: Payload::parse(r#"{"name": "schedule"}"#)?,
        ..Manifest::new(Name::new("hello")?, Name::new("greet")?, every_second)
    };
    let node = Lineclear::builder().store(":memory:").kind("greet", greet).manifest(manifest).start().await?;
    node.enqueue("greet", &serde_json::json!({"name": "world"})).await?;
    node.run_until_stopped().await?;
    Ok(())
}
