//! A worker records the steps of its jobs, which the next attempt skips, and reads those that an earlier attempt has finished.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use lineclear::store::{ClaimRef, FencedWrite, JobId, KEY_BYTES_MAX, StepRecord};
use lineclear_model::Payload;
use lineclear_model::outcome_object::ErrorObject;
use lineclear_model::payload::OUTPUT_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ClaimResult, RECORDED, STALE, claims_at, held, node_of};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::Id;
use crate::auth::Caller;
use crate::problem::Problem;

/// Steps of one job.
const POSITION_MAX: u32 = 1_000;

/// Steps of jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepsBody {
    /// The id of the worker.
    worker: String,
    /// At most 1,000.
    #[schema(max_items = 1000)]
    steps: Vec<StepOfClaim>,
}

/// A step of a job that has ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepOfClaim {
    /// The id of the job.
    job: String,
    /// The number of the claim.
    no: u32,
    /// Its name, the same in every attempt: 1 to 255 bytes.
    name: String,
    /// Its position among the steps of this claim, from 1 to 1,000.
    #[schema(minimum = 1, maximum = 1000)]
    position: u32,
    /// What it returned: any JSON, up to 64 KiB. With `error`, it is ignored.
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    /// How it failed.
    error: Option<ErrorObject>,
    /// How long it took.
    took_ms: Option<u64>,
}

/// A step of the job that the path names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepBody {
    /// Its name, the same in every attempt: 1 to 255 bytes.
    name: String,
    /// Its position among the steps of this claim, from 1 to 1,000.
    #[schema(minimum = 1, maximum = 1000)]
    position: u32,
    /// What it returned: any JSON, up to 64 KiB. With `error`, it is ignored.
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    /// How it failed.
    error: Option<ErrorObject>,
    /// How long it took.
    took_ms: Option<u64>,
}

impl StepOfClaim {
    fn step(self) -> StepBody {
        let StepOfClaim { name, position, output, error, took_ms, .. } = self;
        StepBody { name, position, output, error, took_ms }
    }
}

impl StepBody {
    /// `Err`: why it cannot be recorded.
    pub(super) fn read(self) -> Result<StepRecord, String> {
        check_name(&self.name)?;
        if self.position == 0 || self.position > POSITION_MAX {
            return Err(format!("`position` must be between 1 and {POSITION_MAX}"));
        }
        let result = match self.error {
            Some(error) => Err(error.failure()),
            None => {
                let output = self.output.as_ref().map_or("null", |output| output.get());
                Ok(Payload::parse_within(output, OUTPUT_BYTES_MAX)
                    .map_err(|bad| format!("`output`: {bad}"))?)
            }
        };
        let took = Duration::from_millis(self.took_ms.unwrap_or_default())
            .min(lineclear_model::duration::DURATION_MAX);
        Ok(StepRecord { name: self.name, position: self.position, result, took })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        1..=KEY_BYTES_MAX if !name.contains('\0') => Ok(()),
        _ => Err(format!("`name` must have 1 to {KEY_BYTES_MAX} bytes, and no NUL")),
    }
}

/// Records a step of a claim that the worker has.
pub(super) async fn record_one(
    app: &App,
    claim: ClaimRef,
    step: StepRecord,
) -> Result<&'static str, Problem> {
    Ok(status_of(app.client.store().record_step(claim, step).await?))
}

fn status_of(write: FencedWrite) -> &'static str {
    match write {
        FencedWrite::Recorded => RECORDED,
        FencedWrite::Stale => STALE,
    }
}

/// The output of a step that has finished.
pub(super) async fn read_one(
    app: &App,
    claim: ClaimRef,
    name: &str,
) -> Result<Option<Box<RawValue>>, Problem> {
    if check_name(name).is_err() {
        return Ok(None);
    }
    // Not from the reading store: the worker may have recorded it a moment ago.
    let output = app.client.store().finished_step(claim.job, name).await?;
    Ok(output.and_then(raw))
}

/// A payload is JSON, so this does not fail.
fn raw(output: Payload) -> Option<Box<RawValue>> {
    RawValue::from_string(output.into()).ok()
}

/// The results of recorded steps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepResults {
    /// In the order of the request.
    steps: Vec<ClaimResult>,
}

/// Records steps of jobs that have ended. A step of the same name is replaced.
#[utoipa::path(
    post, path = "/claims/steps", operation_id = "record_steps", tag = "claims", request_body = StepsBody, security(("token" = ["worker"])),
    responses((status = 200, body = StepResults), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn record(
    state: State<App>,
    caller: Caller,
    body: JsonBody<StepsBody>,
) -> Result<Json<StepResults>, Problem> {
    let StepsBody { worker, steps } = body.0;
    let claims = claims_at("steps", steps.iter().map(|step| (step.job.as_str(), step.no)))?;
    let node = node_of(&state, &caller.0, &worker).await?;
    let is_held = held(&state, node, &claims).await?;
    let read: Vec<Result<StepRecord, String>> = steps.into_iter().map(|step| step.step().read()).collect();
    let good = claims.iter().zip(&is_held).zip(&read);
    let good =
        good.filter_map(|((claim, is_held), step)| Some((*claim, step.clone().ok().filter(|_| *is_held)?)));
    let mut written = state.client.store().record_steps(good.collect()).await?.into_iter();
    let result = |((claim, is_held), step): ((ClaimRef, bool), Result<StepRecord, String>)| match step {
        _ if !is_held => ClaimResult::of(claim, STALE),
        Ok(_) => ClaimResult::of(claim, written.next().map_or(STALE, status_of)),
        Err(why) => ClaimResult::refused(claim, why),
    };
    let results = claims.into_iter().zip(is_held).zip(read).map(result).collect();
    Ok(Json(StepResults { steps: results }))
}

/// Steps to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadStepsBody {
    /// The id of the worker.
    worker: String,
    /// At most 1,000.
    #[schema(max_items = 1000)]
    steps: Vec<StepName>,
}

/// A step.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepName {
    /// The id of the job.
    job: String,
    /// The number of the claim.
    no: u32,
    /// Its name.
    name: String,
}

/// Steps that an earlier attempt has finished.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FinishedSteps {
    /// In the order of the request.
    steps: Vec<FinishedStep>,
}

/// A step, and what it returned.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FinishedStep {
    job: Id,
    no: u32,
    name: String,
    /// Whether it has finished, and the worker still has the job.
    found: bool,
    /// What it returned.
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
}

/// Returns the outputs of steps that an earlier attempt of a job has finished.
#[utoipa::path(
    post, path = "/claims/steps/read", operation_id = "read_steps", tag = "claims", request_body = ReadStepsBody, security(("token" = ["worker"])),
    responses((status = 200, body = FinishedSteps), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn read(
    state: State<App>,
    caller: Caller,
    body: JsonBody<ReadStepsBody>,
) -> Result<Json<FinishedSteps>, Problem> {
    let ReadStepsBody { worker, steps } = body.0;
    let claims = claims_at("steps", steps.iter().map(|step| (step.job.as_str(), step.no)))?;
    let node = node_of(&state, &caller.0, &worker).await?;
    let is_held = held(&state, node, &claims).await?;
    let can_be = |step: &StepName, is_held: bool| is_held && check_name(&step.name).is_ok();
    let asked = claims.iter().zip(&steps).zip(&is_held);
    let asked: Vec<(JobId, &str)> = asked
        .filter(|((_, step), is_held)| can_be(step, **is_held))
        .map(|((claim, step), _)| (claim.job, step.name.as_str()))
        .collect();
    // Not from the reading store: the worker may have recorded it a moment ago.
    let mut outputs = state.client.store().finished_steps(&asked).await?.into_iter();
    let outputs: Vec<Option<Payload>> = steps
        .iter()
        .zip(&is_held)
        .map(|(step, is_held)| if can_be(step, *is_held) { outputs.next().flatten() } else { None })
        .collect();
    let found = claims.into_iter().zip(steps).zip(outputs).map(|((claim, step), output)| FinishedStep {
        job: Id::of(claim.job),
        no: claim.no,
        name: step.name,
        found: output.is_some(),
        output: output.and_then(raw),
    });
    Ok(Json(FinishedSteps { steps: found.collect() }))
}
