//! Stores of locks for tests, and commands that hold a lock until they are told to end.

use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

use lineclear_testkit::{Child, Program, fresh_postgres, mysql_url, redis_url};
use mysql_async::prelude::Queryable;

/// How long a test waits for an event that must happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A store of one test, and a folder for its files.
pub(crate) struct TestLocks {
    pub(crate) url: String,
    folder: tempfile::TempDir,
    _kept: Box<dyn Any + Send>,
}

impl TestLocks {
    pub(crate) fn sqlite() -> TestLocks {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("locks.db").display().to_string();
        TestLocks { url, folder, _kept: Box::new(()) }
    }

    pub(crate) async fn postgres() -> TestLocks {
        let database = fresh_postgres().await;
        TestLocks::at(database.url().to_owned(), database)
    }

    pub(crate) fn redis() -> TestLocks {
        TestLocks::at(format!("{}?prefix=test-{}:", redis_url(), uuid::Uuid::new_v4()), ())
    }

    pub(crate) async fn mysql() -> TestLocks {
        let (server, name) = (mysql_url(), format!("lineclear_test_{}", uuid::Uuid::new_v4().simple()));
        let make = mysql_async::Conn::new(mysql_async::Opts::from_url(&server).unwrap()).await;
        make.unwrap().query_drop(format!("create database {name}")).await.unwrap();
        let (start, _) = server.rsplit_once('/').unwrap();
        TestLocks::at(format!("{start}/{name}"), Database { server: server.clone(), name })
    }

    pub(crate) fn at(url: String, kept: impl Any + Send) -> TestLocks {
        TestLocks { url, folder: tempfile::tempdir().unwrap(), _kept: Box::new(kept) }
    }

    /// A file in the test's folder. It is not there yet.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `lock run report` in this store.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Program {
        let arguments =
            [&["lock", "run", "report", "--store", &self.url], options, &["--"], command].concat();
        Program::at(env!("CARGO_BIN_EXE_lineclear")).args(arguments)
    }

    /// `lock run report` with a shell command.
    pub(crate) fn shell(&self, options: &[&str], command: &str) -> Program {
        self.run(options, &["sh", "-c", command])
    }

    /// Holds the lock until [`TestLocks::let_go`], or until it is ended.
    pub(crate) async fn holder(&self, options: &[&str]) -> Child {
        let child = self.shell(options, &self.until_told("echo held $LINECLEAR_FENCE")).start().unwrap();
        child.wait_for_line("held ", SOON).await.unwrap();
        child
    }

    /// A shell command that prints something, and exits with 4 on request.
    pub(crate) fn until_told(&self, say: &str) -> String {
        format!("{say}; while ! test -e '{}'; do sleep 0.05; done; exit 4", self.file("go").display())
    }

    pub(crate) fn let_go(&self) {
        std::fs::write(self.file("go"), "").unwrap();
    }

    /// Runs it to its end: exit code, standard output, standard error.
    pub(crate) async fn done(&self, program: Program) -> (Option<i32>, Vec<String>, String) {
        let mut child = program.start().unwrap();
        let status = child.wait_for_exit(SOON).await.unwrap();
        (status.code(), child.stdout(), child.stderr().join("\n"))
    }

    /// The number of the next holder, which waits for the lock.
    pub(crate) async fn next_fence(&self) -> i64 {
        let (code, out, err) = self.done(self.shell(&["--wait", "30s"], "echo $LINECLEAR_FENCE")).await;
        assert_eq!(code, Some(0), "{err}");
        out[0].parse().unwrap()
    }
}

/// A MySQL database of one test; it is dropped with this.
struct Database {
    server: String,
    name: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // This may be dropped on the test's runtime.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut server = mysql_async::Conn::new(mysql_async::Opts::from_url(&server)?).await?;
                server.query_drop(format!("drop database {name}")).await
            })
        });
        drop(dropping.join());
    }
}

/// Whether a process is there, and not just waiting to be reaped.
pub(crate) fn lives(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains("Z (zombie)"))
}

/// Waits until a process is gone.
pub(crate) async fn gone(pid: &str) {
    let gone = async {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.unwrap_or_else(|_| panic!("process {pid} does not end"));
}
