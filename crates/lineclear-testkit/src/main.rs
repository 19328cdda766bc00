//! `lineclear-testkit`: private servers for tests and development.
#![forbid(unsafe_code)]

mod count;
mod run;
mod sbom;
mod test;
mod up;

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::Result;
use lineclear_testkit::servers::postgres::Durability;

use test::Which;

const USAGE: &str = "usage:
  lineclear-testkit test                       runs the tests of the workspace with servers, and counts
  lineclear-testkit test --slow                those that take a minute each, on purpose
  lineclear-testkit test --all                 both, beside each other
  lineclear-testkit run -- COMMAND [ARGUMENT…] starts servers, runs the command, stops the servers
  lineclear-testkit run --durable -- COMMAND…  the same with a PostgreSQL that syncs every commit to the disk
  lineclear-testkit up [DIR]                   starts servers and leaves them running; DIR: .run by default
  lineclear-testkit down [DIR]                 stops them and removes their data
  lineclear-testkit sbom FILE                  writes the crates of the binary as a CycloneDX document";

// One thread, the main one: the kernel signals servers when the thread that started them ends.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["test"] => test::test(Which::Quick).await,
        ["test", "--slow"] => test::test(Which::Slow).await,
        ["test", "--all"] => test::test(Which::All).await,
        ["run", "--", program, ref rest @ ..] => run::run(Durability::ThrowAway, program, rest).await,
        ["run", "--durable", "--", program, ref rest @ ..] => {
            run::run(Durability::Synced, program, rest).await
        }
        ["up"] => up::up(&PathBuf::from(".run")).await,
        ["up", dir] => up::up(&PathBuf::from(dir)).await,
        ["sbom", file] => sbom::write(&PathBuf::from(file)),
        ["down"] => up::down(&PathBuf::from(".run")),
        ["down", dir] => up::down(&PathBuf::from(dir)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    report(result)
}

fn report(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("lineclear-testkit: {error:#}");
        ExitCode::FAILURE
    })
}
