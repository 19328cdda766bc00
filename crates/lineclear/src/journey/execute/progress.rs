//! The progress of running jobs.

use crate::db::statements::Statement;
use crate::db::{Column, Query};
use crate::journey::claim::renew::claim_columns;
use crate::store::{ClaimRef, JobId, Store, StoreResult};
use crate::validate;

/// Longest text, in bytes. Longer text is truncated.
pub const PROGRESS_BYTES_MAX: usize = 1024;

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ProgressView {
    /// From 0 to 1.
    pub fraction: f64,
    /// A text from the handler.
    pub text: String,
}

impl ProgressView {
    /// Clamps the fraction to 0–1, truncates long text, and replaces NUL, which databases refuse: progress must never fail a job.
    pub fn new(fraction: f64, text: &str) -> ProgressView {
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        let text = &text[..text.floor_char_boundary(PROGRESS_BYTES_MAX)];
        ProgressView { fraction, text: text.replace('\0', " ") }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("a finite number and a text are JSON")
    }
}

impl Store {
    /// Writes the progress of running jobs in one statement; returns the claims that were written. The others were lost, or their
    /// row was locked: try again.
    pub async fn write_progress(
        &self,
        progress: Vec<(ClaimRef, ProgressView)>,
    ) -> StoreResult<Vec<ClaimRef>> {
        validate::check_batch(progress.len())?;
        if progress.is_empty() {
            return Ok(Vec::new());
        }
        let claims: Vec<ClaimRef> = progress.iter().map(|(claim, _)| *claim).collect();
        let mut columns = claim_columns(&claims);
        columns.push(Column::Texts(progress.iter().map(|(_, progress)| Some(progress.json())).collect()));
        let write = Query::each(Statement::Progress, columns, |row| {
            Ok(ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? })
        });
        self.run(write).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_progress_is_clamped() {
        let fraction = |fraction| ProgressView::new(fraction, "").fraction;
        assert_eq!([f64::NAN, -3.0, f64::INFINITY, 0.25].map(fraction), [0.0, 0.0, 1.0, 0.25]);
        let long = ProgressView::new(0.5, &"é".repeat(PROGRESS_BYTES_MAX));
        assert_eq!(long.text.len(), PROGRESS_BYTES_MAX);
        assert_eq!(ProgressView::new(0.5, "a\0b").text, "a b");
    }
}
