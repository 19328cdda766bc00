//! The doctor checks everything that may be wrong, and changes nothing. Each group of checks runs by itself, so that one that fails
//! does not hide the others. The model draws the conclusions.
//!
//! Checks are cheap: every statement ends within two seconds, and reads a bounded number of rows, or only what the server keeps in
//! memory.

mod manifests;
mod pooler;
mod schema;
mod sequences;
mod server;
pub(crate) mod sqlite_file;

use lineclear_model::doctor::{self, Check, CheckName, Finding, Group, HealthFacts};

use crate::error::RefusedPart;
use crate::node::database_monitor::now;
use crate::store::{MigrationStatus, Store, StoreError, StoreResult, TokenView};

/// Late jobs that are explained at most.
const EXPLAINED: u32 = 20;
/// Tokens that are checked at most, the newest first.
const TOKENS_READ: u32 = 1_000;

impl Store {
    /// Runs every check that applies to this database, in the order of [`CheckName::ALL`]. Works on a schema that is old or broken.
    pub async fn doctor(&self) -> Vec<Check> {
        let mut checks = match self.migration_status().await {
            // No other check can run.
            Err(error @ (StoreError::Unavailable { .. } | StoreError::CannotWrite { .. }))
                if !error.is_forbidden() =>
            {
                vec![unreachable(&error)]
            }
            status => self.run_checks(status).await,
        };
        checks.push(self.condition_check().await);
        for name in CheckName::ALL.iter().filter(|name| name.group() > Group::Configuration) {
            if self.applies(*name) && checks.iter().all(|check| check.check != *name) {
                checks.push(Check::skipped(*name, "not checked: see the failures"));
            }
        }
        checks.sort_by_key(|check| check.check);
        checks
    }

    /// Whether nodes can work with the database; does not fail.
    pub async fn condition_check(&self) -> Check {
        doctor::condition(&self.database_condition().await, now())
    }

    /// Whether a check applies to this kind of database.
    fn applies(&self, name: CheckName) -> bool {
        let (postgres, memory) = (self.options.is_postgres(), self.options.is_in_memory());
        match name {
            CheckName::Pooler | CheckName::Transactions | CheckName::DeadRows => postgres,
            CheckName::Journal | CheckName::FileSystem | CheckName::Permissions | CheckName::Integrity => {
                !postgres && !memory
            }
            _ => true,
        }
    }

    async fn run_checks(&self, status: StoreResult<MigrationStatus>) -> Vec<Check> {
        let mut checks = vec![Check::ok(CheckName::Reachable, format!("{} answers", self.options))];
        checks.extend(self.server_checks().await);
        if self.options.is_postgres() {
            checks.push(or_failure(CheckName::Pooler, self.pooler_check().await));
        }
        checks.extend(self.file_checks().await);
        let is_newer = status.as_ref().is_ok_and(|status| !status.newer.is_empty());
        let migrations = schema::migrations(status);
        let is_usable = migrations.finding != Finding::Failure;
        checks.push(migrations);
        // An old schema differs from the expected one, and may lack tables that the other checks read.
        if !is_usable {
            checks.push(or_failure(CheckName::Clock, self.clock_check(None).await));
            return checks;
        }
        match is_newer {
            // A newer release may have replaced views and functions.
            true => checks.extend(
                [CheckName::Tables, CheckName::Indexes]
                    .map(|name| Check::skipped(name, "not checked: the schema is newer than this program")),
            ),
            false => checks.extend(self.schema_checks().await),
        }
        checks.push(or_failure(CheckName::Sequences, self.sequences_check().await));
        let facts = self.health_facts(EXPLAINED).await;
        checks.push(or_failure(CheckName::Clock, self.clock_check(facts.as_ref().ok()).await));
        match facts {
            Ok(facts) => checks.extend(self.health_checks(&facts).await),
            Err(error) => checks.push(failed(CheckName::Alive, &error)),
        }
        checks.push(or_failure(CheckName::Tokens, self.token_check().await));
        checks
    }

    async fn token_check(&self) -> StoreResult<Check> {
        let newest = self.tokens(None, TOKENS_READ).await?.items;
        let now = newest.first().map_or(lineclear_model::Micros::EPOCH, |token| token.now);
        let valid: Vec<_> = newest.into_iter().filter(TokenView::is_live).collect();
        let ends: Vec<_> = valid.into_iter().map(|token| (token.name, token.expires_at)).collect();
        Ok(doctor::tokens(now, &ends))
    }

    async fn health_checks(&self, facts: &HealthFacts) -> Vec<Check> {
        let mut checks = [doctor::nodes(facts), doctor::work(facts)].concat();
        match self.manifest_health().await {
            Ok(manifests) => checks.extend(doctor::manifests(facts, &manifests)),
            Err(error) => checks.extend([doctor::late(facts), failed(CheckName::Unreadable, &error)]),
        }
        checks
    }
}

/// A check that failed to run.
fn failed(name: CheckName, error: &StoreError) -> Check {
    let remedy = "fix the failures above first; if there are none, see the log of the database";
    Check::failure(name, format!("could not be checked: {error}"), remedy)
}

fn or_failure(name: CheckName, check: StoreResult<Check>) -> Check {
    check.unwrap_or_else(|error| failed(name, &error))
}

fn unreachable(error: &StoreError) -> Check {
    let remedy = match error.refused_part() {
        Some(RefusedPart::Setting) => {
            "the URL has an unknown setting in its options; or that is PostgreSQL before 12, which is too old: upgrade it"
        }
        Some(RefusedPart::StartupParameter) => {
            "a pooler answers there: add pooler=transaction to the URL of the database"
        }
        Some(RefusedPart::Tls) => {
            "sslrootcert=FILE in the URL names the authority; sslmode=disable goes in the clear"
        }
        None => "does it run, and are host, port, user and password right? lineclear config show --origin",
    };
    Check::failure(CheckName::Reachable, error.to_string(), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Refusal, Source};

    #[test]
    fn a_pooler_that_refuses_what_we_ask_of_postgresql_is_told_from_a_server_that_is_down() {
        let remedy = |source: Source| {
            unreachable(&StoreError::Unavailable { maybe_applied: false, source }).remedy.unwrap_or_default()
        };
        let refused = |of| remedy(Refusal { text: "no".to_owned(), of }.into());
        assert!(refused(RefusedPart::StartupParameter).contains("pooler=transaction"));
        assert!(refused(RefusedPart::Tls).contains("sslrootcert"));
        assert!(refused(RefusedPart::Setting).contains("before 12"));
        assert!(remedy("connection refused".into()).contains("host, port"));
    }
}
