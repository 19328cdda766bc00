//! Why a command did not do what it was asked, and the exit code that says so.

use std::process::ExitCode;

/// What is printed, and what the process ends with.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// Shown below the message as it is, such as an expression with its wrong part underlined.
    picture: Option<String>,
    hint: Option<String>,
}

impl Failure {
    /// The command was understood and failed. Exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into(), picture: None, hint: None }
    }

    /// What was given cannot be. Exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, ..Failure::failed(message) }
    }

    /// What went wrong has an exit code of its own.
    pub(crate) fn coded(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, ..Failure::failed(message) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// With the nearest of what there is; what was hinted at before stays.
    pub(crate) fn nearest(self, name: &str) -> Failure {
        let hint = self.hint.as_ref().map(|hint| format!(" {hint}")).unwrap_or_default();
        self.hint(format!("did you mean {name}?{hint}"))
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// What went wrong, in one sentence.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(crate) fn hinted(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints it for a person and gives the exit code for a program.
    pub(crate) fn report(self) -> ExitCode {
        let mut text = format!("error: {}\n", self.message);
        for line in self.picture.iter().flat_map(|picture| picture.lines()) {
            text.push_str(&format!("  | {line}\n"));
        }
        if let Some(hint) = self.hint {
            text.push_str(&format!("hint: {hint}\n"));
        }
        say(&text);
        ExitCode::from(self.code)
    }
}

/// Says something to the person, beside what is printed.
pub(crate) fn say(text: &str) {
    // What is shown may come from a file: nothing in it may act on the terminal.
    let text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    // Nobody may be listening; the exit code still says it.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

impl From<lineclear::StoreError> for Failure {
    fn from(error: lineclear::StoreError) -> Failure {
        use lineclear::StoreError;
        let failure = Failure::failed(error.to_string());
        match error {
            StoreError::Unavailable { .. } if failure.message.contains("TLS") => Failure { code: 6, ..failure }
                .hint("sslrootcert=FILE in --db names the authority; sslmode=require asks for none, sslmode=disable goes in the clear"),
            StoreError::Unavailable { .. } => Failure { code: 6, ..failure }
                .hint("is the server running, and are host, port, user and password of --db right?"),
            StoreError::Refused { rule, .. } if rule == "store_url" => Failure { code: 2, ..failure },
            StoreError::Refused { .. } | StoreError::Contended { .. } => Failure { code: 5, ..failure },
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
