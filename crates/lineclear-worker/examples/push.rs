//! A worker to which a server pushes jobs of the kind `greet`: `LINECLEAR_PUSH_SECRET=whsec_… cargo run -p lineclear-worker --example push`.

use lineclear_worker::{Done, HandlerError, Input, Worker};
use tokio::net::TcpListener;

async fn greet(Input(name): Input<String>) -> Done<String> {
    Done(format!("hello, {name}"))
}

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    // Two secrets, separated by a comma, while they are rotated.
    let secrets = std::env::var("LINECLEAR_PUSH_SECRET")?;
    let secrets = secrets.split(',').map(|secret| secret.trim().parse()).collect::<Result<Vec<_>, _>>()?;
    let worker = Worker::builder().kind("greet", greet).build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("the worker is up at http://{}/", listener.local_addr()?);
    let mut signals = lineclear::node::Signals::new()?;
    let stop = async move { signals.next().await };
    // Jobs that run may end before the process does.
    axum::serve(listener, worker.router(secrets)).with_graceful_shutdown(stop).await?;
    Ok(())
}
