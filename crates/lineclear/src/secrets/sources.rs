//! Secrets from files and environment variables.

use std::io::ErrorKind;
use std::path::PathBuf;

use lineclear_model::secret::SecretName;
use tokio::io::AsyncReadExt;

use crate::handler::HandlerError;
use crate::secrets::{SECRET_BYTES_MAX, SecretFuture, SecretRequest};

/// Reads secrets from a folder with one file for each, such as systemd's `$CREDENTIALS_DIRECTORY`, and from environment variables. It
/// reads them for every execution, so that a new value needs no restart.
#[derive(Clone, Debug, Default)]
pub struct SecretSources {
    folder: Option<PathBuf>,
    prefix: Option<String>,
}

impl SecretSources {
    /// No sources.
    pub fn new() -> SecretSources {
        SecretSources::default()
    }

    /// Reads the file in this folder that is named like the secret, without the line break at its end.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> SecretSources {
        self.folder = Some(folder.into());
        self
    }

    /// Reads the variable whose name is this prefix and the secret's name in upper case, with `_` for `.` and `-`. A file comes
    /// first.
    pub fn environment(mut self, prefix: impl Into<String>) -> SecretSources {
        self.prefix = Some(prefix.into());
        self
    }

    /// For [`Builder::secrets`](crate::node::Builder::secrets).
    pub fn resolver(self) -> impl Fn(SecretRequest) -> SecretFuture + Send + Sync + 'static {
        move |request| {
            let sources = self.clone();
            Box::pin(async move { sources.read(&request.name).await })
        }
    }

    /// The value of a secret.
    pub async fn read(&self, name: &SecretName) -> Result<String, HandlerError> {
        let file = self.folder.as_ref().map(|folder| folder.join(name.as_str()));
        let variable = self.prefix.as_ref().map(|prefix| prefix.clone() + &in_capitals(name));
        if let Some(value) = match &file {
            Some(file) => read_file(file).await?,
            None => None,
        } {
            return Ok(value);
        }
        if let Some(value) = variable.as_ref().and_then(|variable| std::env::var(variable).ok()) {
            return Ok(value);
        }
        let file = file.map(|file| format!("put its value into the file {}", file.display()));
        let variable = variable.map(|variable| format!("set {variable}"));
        let ways: Vec<String> = [file, variable].into_iter().flatten().collect();
        Err(format!("this node does not have it; {}, then retry the job", ways.join(", or ")).into())
    }
}

fn in_capitals(name: &SecretName) -> String {
    name.as_str().to_ascii_uppercase().replace(['.', '-'], "_")
}

/// `None`: there is no such file.
async fn read_file(file: &std::path::Path) -> Result<Option<String>, HandlerError> {
    let cannot = |error: std::io::Error| format!("cannot read the file {}: {error}", file.display());
    let opened = match tokio::fs::File::open(file).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot)?,
    };
    let mut bytes = Vec::new();
    // One more than allowed, and a line break: too long a value is refused where it is used.
    let most = u64::try_from(SECRET_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(3);
    opened.take(most).read_to_end(&mut bytes).await.map_err(cannot)?;
    let text = String::from_utf8(bytes).map_err(|_| format!("the file {} is not UTF-8", file.display()))?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_without_its_last_line_break_and_a_missing_one_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a", "s3cr3t\n"), ("b", "s3cr3t\r\n"), ("c", "two\nlines\n\n"), ("d", "plain")]
        {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        std::fs::write(folder.path().join("bytes"), [0xff, 0xfe]).unwrap();
        let sources = SecretSources::new().folder(folder.path()).environment("LINECLEAR_TEST_SECRET_");
        let read = async |name: &str| sources.read(&SecretName::new(name).unwrap()).await;
        for (name, value) in [("a", "s3cr3t"), ("b", "s3cr3t"), ("c", "two\nlines\n"), ("d", "plain")] {
            assert_eq!(read(name).await.unwrap(), value, "{name}");
        }
        let missing = read("smtp.pass-word").await.unwrap_err().to_string();
        assert!(missing.contains("smtp.pass-word, or set LINECLEAR_TEST_SECRET_SMTP_PASS_WORD"), "{missing}");
        assert!(read("bytes").await.unwrap_err().to_string().contains("not UTF-8"));
        let path = std::env::var("PATH").unwrap();
        let other = SecretSources::new().environment("P");
        assert_eq!(other.read(&SecretName::new("ath").unwrap()).await.unwrap(), path);
    }
}
