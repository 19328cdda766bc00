//! Secrets that inputs name: `{"$secret": "smtp-password"}` is what is stored, listed and logged. The node that runs the job
//! resolves it just before the handler gets its input, and masks the value in all that the execution leaves behind.
//!
//! ```no_run
//! use lineclear::Lineclear;
//! use lineclear::secrets::SecretSources;
//!
//! let secrets = SecretSources::new().folder("/run/secrets").environment("LINECLEAR_SECRET_");
//! let node = Lineclear::builder().secrets(secrets.resolver());
//! # drop(node);
//! ```

mod mask;
mod sources;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use lineclear_model::secret::{self, SecretName, SecretPlace};
use lineclear_model::{Failure, Name, Payload};
use lineclear_tls::with_causes;

use crate::handler::{FromJob, HandlerError, JobContext, Permanent};
use crate::store::{JobId, ManifestId};

pub(crate) use mask::Mask;
pub use sources::SecretSources;

/// Fewest bytes of a secret: a shorter one cannot be masked without masking everything.
pub const SECRET_BYTES_MIN: usize = 4;
/// Most bytes of a secret.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Which secret a job needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SecretRequest {
    /// The name of the secret.
    pub name: SecretName,
    /// The kind of the job.
    pub kind: Name,
    /// The job.
    pub job: JobId,
    /// Its manifest.
    pub manifest: Option<ManifestId>,
    /// Its input as it is stored, with the names of its secrets.
    pub input: Payload,
}

/// The value of a secret, or why there is none. Another attempt follows, unless the error is [`Permanent`].
pub type SecretFuture = Pin<Box<dyn Future<Output = Result<String, HandlerError>> + Send>>;

/// Resolves secrets; see [`Builder::secrets`](crate::node::Builder::secrets).
pub(crate) type Resolver = Arc<dyn Fn(SecretRequest) -> SecretFuture + Send + Sync>;

/// The secrets in the input of this job, without their values: for handlers that decide who may have which.
#[derive(Clone, Debug, Default)]
pub struct UsedSecrets(Arc<Vec<SecretPlace>>);

impl UsedSecrets {
    /// Each place of the input that was a secret, and its name.
    pub fn places(&self) -> &[SecretPlace] {
        &self.0
    }

    /// Whether the value at this JSON pointer is a whole secret.
    pub fn is_secret(&self, pointer: &str) -> bool {
        self.0.iter().any(|place| place.pointer == pointer)
    }
}

impl FromJob for UsedSecrets {
    fn from_job(job: &JobContext) -> Result<UsedSecrets, Failure> {
        Ok(job.secrets.clone())
    }
}

/// Resolves the secrets that the input of a job names.
pub(crate) async fn resolve(mut job: JobContext, resolver: Option<Resolver>) -> Result<JobContext, Failure> {
    let unfit = |why: String| Failure::new("input", format!("the input does not fit: {why}")).permanent();
    let places = secret::places(job.input.as_str()).map_err(|bad| unfit(bad.to_string()))?;
    if places.is_empty() {
        return Ok(job);
    }
    let mut values: BTreeMap<SecretName, String> = BTreeMap::new();
    for SecretPlace { name, .. } in &places {
        if !values.contains_key(name) {
            let value = value_of(&job, name, resolver.as_ref()).await?;
            values.insert(name.clone(), value);
        }
    }
    // Before the handler can write anything.
    job.ctx.hide(Mask::new(values.values()));
    let value = |name: &SecretName| values.get(name).cloned().unwrap_or_default();
    let filled = secret::fill(job.input.as_str(), &places, value).unwrap_or_default();
    // Values do not count towards the limit of inputs; the number and size of secrets are limited.
    job.input = Payload::parse_within(&filled, usize::MAX).map_err(|bad| unfit(bad.to_string()))?;
    job.secrets = UsedSecrets(Arc::new(places));
    Ok(job)
}

async fn value_of(
    job: &JobContext,
    name: &SecretName,
    resolver: Option<&Resolver>,
) -> Result<String, Failure> {
    let failure = |why: &str| Failure::new("secret", format!("secret {name}: {why}"));
    let Some(resolver) = resolver else {
        return Err(failure("this node has no source of secrets; give it one with `Builder::secrets`"));
    };
    let info = &job.info;
    let request = SecretRequest {
        name: name.clone(),
        kind: info.kind.clone(),
        job: info.id,
        manifest: info.manifest,
        input: job.input.clone(),
    };
    let value = resolver(request).await.map_err(|error| {
        let failure = failure(&with_causes(&*error));
        if error.is::<Permanent>() { failure.permanent() } else { failure }
    })?;
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&value.len()) || value.contains('\0') {
        return Err(failure(&format!(
            "its value must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes and no NUL: a shorter one cannot be masked"
        )));
    }
    Ok(value)
}
