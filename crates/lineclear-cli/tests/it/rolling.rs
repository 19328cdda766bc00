//! Releases that follow each other on one database: migrations while nodes work, and older programs on newer schemas.
//!
//! A newer release is this program with more migrations, which it reads from a folder (`crates/lineclear/src/crash.rs`).

mod index;
mod locks;
mod newer_schema;
mod two_builds;

use std::path::PathBuf;
use std::time::Duration;

use lineclear_testkit::Program;
use tempfile::TempDir;

use crate::run::{Run, command_at, ran};

pub(crate) const LONG: Duration = Duration::from_secs(60);
/// The variable with the folder of further migrations.
const LATER: &str = "LINECLEAR_TEST_MIGRATIONS";

/// A later release: further migrations, each with its name and its SQL. `{schema}.` stands before tables, and is taken away for SQLite.
pub(crate) struct Later(TempDir);

impl Later {
    pub(crate) fn with(migrations: &[(&str, &str)]) -> Later {
        let dir = tempfile::tempdir().unwrap();
        for database in ["postgres", "sqlite"] {
            std::fs::create_dir(dir.path().join(database)).unwrap();
            for (name, sql) in migrations {
                let sql = if database == "sqlite" { sql.replace("{schema}.", "") } else { (*sql).to_owned() };
                let text = format!("-- {name} · of a later release\n{sql}\n");
                std::fs::write(dir.path().join(database).join(format!("{name}.sql")), text).unwrap();
            }
        }
        Later(dir)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// The later release, run to its end.
    pub(crate) fn run(&self, dir: &TempDir, args: &[&str]) -> Run {
        ran(command_at(dir, args).env(LATER, self.folder()))
    }

    /// The later release as a process.
    pub(crate) fn program(&self, dir: &TempDir, args: &[&str]) -> Program {
        Program::at(env!("CARGO_BIN_EXE_lineclear"))
            .args(args)
            .current_dir(dir.path())
            .env("XDG_CONFIG_HOME", dir.path().join("none"))
            .env(LATER, self.folder())
    }
}

/// A new connection, with the name of its program.
pub(crate) async fn client(url: &str, program: &str) -> tokio_postgres::Client {
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    let (client, connection) = config.application_name(program).connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn pid(client: &tokio_postgres::Client) -> i32 {
    client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}
