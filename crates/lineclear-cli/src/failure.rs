//! Why a command failed, and its exit code.

use std::process::ExitCode;

use crate::output::print_stderr;

/// The message to print, and the exit code.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// Printed below the message, such as an expression with its wrong part underlined.
    picture: Option<String>,
    hint: Option<String>,
}

impl Failure {
    /// The command failed. Exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into(), picture: None, hint: None }
    }

    /// Invalid usage. Exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, ..Failure::failed(message) }
    }

    /// A failure with a specific exit code.
    pub(crate) fn coded(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, ..Failure::failed(message) }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// Adds the name that was probably meant, before any other hint.
    pub(crate) fn did_you_mean(self, name: &str) -> Failure {
        let hint = self.hint.as_ref().map(|hint| format!(" {hint}")).unwrap_or_default();
        self.hint(format!("did you mean {name}?{hint}"))
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// What is wrong, in one sentence.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints it to standard error and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let mut text = format!("error: {}\n", self.message);
        for line in self.picture.iter().flat_map(|picture| picture.lines()) {
            text.push_str(&format!("  | {line}\n"));
        }
        if let Some(hint) = self.hint {
            text.push_str(&format!("hint: {hint}\n"));
        }
        print_stderr(&text);
        ExitCode::from(self.code)
    }
}

impl From<lineclear::StoreError> for Failure {
    fn from(error: lineclear::StoreError) -> Failure {
        use lineclear::StoreError;
        let failure = Failure::failed(error.to_string());
        match error {
            StoreError::Unavailable { .. } if error.is_tls_refused() => Failure { code: 6, ..failure }
                .hint("sslrootcert=FILE in --db names the certificate authority; sslmode=require does not verify the server, sslmode=disable does not encrypt"),
            StoreError::Unavailable { .. } => Failure { code: 6, ..failure }
                .hint("check that the server is running, and host, port, user and password in --db"),
            StoreError::Refused { rule, .. } if rule == "store_url" => Failure { code: 2, ..failure },
            StoreError::Refused { .. } | StoreError::Contended { .. } | StoreError::Locked { .. } => Failure { code: 5, ..failure },
            StoreError::Corrupt { .. } => Failure { code: 11, ..failure },
            _ => failure,
        }
    }
}

impl From<lineclear_model::BadSchedule> for Failure {
    fn from(bad: lineclear_model::BadSchedule) -> Failure {
        let picture = bad.picture();
        Failure { code: 2, message: format!("{}: {}", bad.field, bad.message), picture, hint: bad.hint }
    }
}
