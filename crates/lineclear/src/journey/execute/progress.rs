//! progress: how far running jobs are.

use crate::db::statements::Statement;
use crate::db::{Column, Session, Verb};
use crate::journey::claim::renew::claim_columns;
use crate::store::{ClaimRef, JobId, Store, StoreResult};
use crate::validate;

/// Most bytes of a progress' text. What is longer is cut.
pub const PROGRESS_BYTES_MAX: usize = 1024;

/// How far a job is.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ProgressView {
    /// From 0 to 1.
    pub fraction: f64,
    /// What the handler says about it.
    pub text: String,
}

impl ProgressView {
    /// What no job can be (less than nothing, more than all, not a number) becomes the nearest that it can; overlong
    /// text is cut, and NUL, which databases refuse, is replaced. How far it is must never make a job fail.
    pub fn new(fraction: f64, text: &str) -> ProgressView {
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        let text = &text[..text.floor_char_boundary(PROGRESS_BYTES_MAX)];
        ProgressView { fraction, text: text.replace('\0', " ") }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("a finite number and a text are JSON")
    }
}

/// Verb: how far these claims are. Those that are left out of the answer were not written: somebody had the row locked,
/// or the claim was lost.
pub(crate) struct WriteProgress(pub(crate) Vec<(ClaimRef, ProgressView)>);

impl Verb for WriteProgress {
    type Answer = Vec<ClaimRef>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<ClaimRef>> {
        let claims: Vec<ClaimRef> = self.0.iter().map(|(claim, _)| *claim).collect();
        let mut columns = claim_columns(&claims);
        columns.push(Column::Texts(self.0.iter().map(|(_, progress)| Some(progress.json())).collect()));
        let rows = session.rows(Statement::Progress, columns).await?;
        rows.iter().map(|row| Ok(ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? })).collect()
    }
}

impl Store {
    /// Writes how far running jobs are, all in one statement. A claim that is left out of the answer was lost, or somebody
    /// had its row locked: say it again.
    pub async fn write_progress(
        &self,
        progress: Vec<(ClaimRef, ProgressView)>,
    ) -> StoreResult<Vec<ClaimRef>> {
        validate::check_batch(progress.len())?;
        if progress.is_empty() {
            return Ok(Vec::new());
        }
        self.run(WriteProgress(progress)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_becomes_the_nearest_that_can_be() {
        let fraction = |fraction| ProgressView::new(fraction, "").fraction;
        assert_eq!([f64::NAN, -3.0, f64::INFINITY, 0.25].map(fraction), [0.0, 0.0, 1.0, 0.25]);
        let long = ProgressView::new(0.5, &"é".repeat(PROGRESS_BYTES_MAX));
        assert_eq!(long.text.len(), PROGRESS_BYTES_MAX);
        assert_eq!(ProgressView::new(0.5, "a\0b").text, "a b");
    }
}
