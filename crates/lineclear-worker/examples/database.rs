//! A worker that works straight from the database, and does nothing else: no schedules, no cleaning, no HTTP.
//! `cargo run -p lineclear-worker --example database -- postgres://…`

use lineclear::{Done, HandlerError, Input, Lineclear, NodeOptions, Role};

async fn greet(Input(name): Input<String>) -> Done<String> {
    println!("hello, {name}");
    Done(format!("hello, {name}"))
}

#[tokio::main]
async fn main() -> Result<(), HandlerError> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "lineclear.db".to_owned());
    let options = NodeOptions { roles: vec![Role::Dispatcher, Role::Workers], ..NodeOptions::default() };
    let node = Lineclear::builder().store(store).options(options).kind("greet", greet).start().await?;
    println!("the worker starts");
    node.run_until_stopped().await?;
    Ok(())
}
