//! The history in the database: claims that ended, and jobs that have not, on either database.

use std::path::{Path, PathBuf};

use super::judge::Claim;

pub(super) enum History {
    Postgres(String),
    Sqlite(PathBuf),
}

/// Jobs that a process holds, by its process id.
const HELD: &str = "select count(*) from {schema}background_job where leased_by in (select id from {schema}node where pid = {pid})";

/// Jobs that lost a worker and are not done yet.
const INTERRUPTED: &str = "select (select count(*) from {schema}background_job where crashes > 0) + (select count(*) from {schema}work_queue where crashes > 0)";

const ENDED: &str = "select count(*) from {schema}execution where final";

/// The tick is in seconds.
const CLAIMS: &str = "select m.key, {tick}, e.claim_no, e.outcome, e.final from {schema}execution e join {schema}manifest m on m.id = e.manifest_id";

impl History {
    /// The SQLite file, if there is no URL.
    pub(super) fn of(url: Option<&str>, file: &Path) -> History {
        url.map_or_else(|| History::Sqlite(file.to_owned()), |url| History::Postgres(url.to_owned()))
    }

    pub(super) async fn ended(&self) -> usize {
        self.count(ENDED).await
    }

    pub(super) async fn held_by(&self, pid: u32) -> usize {
        self.count(&HELD.replace("{pid}", &pid.to_string())).await
    }

    pub(super) async fn interrupted(&self) -> usize {
        self.count(INTERRUPTED).await
    }

    async fn count(&self, sql: &str) -> usize {
        let count: i64 = match self {
            History::Postgres(url) => client(url).await.query_one(&postgres(sql), &[]).await.unwrap().get(0),
            History::Sqlite(file) => open(file).query_row(&sqlite(sql), [], |row| row.get(0)).unwrap(),
        };
        usize::try_from(count).unwrap()
    }

    pub(super) async fn claims(&self) -> Vec<Claim> {
        match self {
            History::Postgres(url) => {
                let rows = client(url).await.query(&postgres(CLAIMS), &[]).await.unwrap();
                let claim = |row: &tokio_postgres::Row| Claim {
                    key: row.get(0),
                    tick: row.get(1),
                    no: row.get(2),
                    outcome: row.get(3),
                    is_final: row.get(4),
                };
                rows.iter().map(claim).collect()
            }
            History::Sqlite(file) => {
                let file = open(file);
                let mut statement = file.prepare(&sqlite(CLAIMS)).unwrap();
                let claim = |row: &rusqlite::Row<'_>| {
                    Ok(Claim {
                        key: row.get(0)?,
                        tick: row.get(1)?,
                        no: row.get(2)?,
                        outcome: row.get(3)?,
                        is_final: row.get(4)?,
                    })
                };
                statement.query_map([], claim).unwrap().map(Result::unwrap).collect()
            }
        }
    }
}

fn postgres(sql: &str) -> String {
    sql.replace("{schema}", "lineclear.").replace("{tick}", "extract(epoch from e.tick_at)::bigint")
}

fn sqlite(sql: &str) -> String {
    sql.replace("{schema}", "").replace("{tick}", "e.tick_at / 1000000")
}

fn open(file: &Path) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(file).unwrap();
    file.busy_timeout(super::LONG).unwrap();
    file
}

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
