//! Secrets in payloads: fields that a manifest marks, and fields with telling names. Wherever people see a payload, dots replace
//! them. A secret that an input names, and does not contain, is a [`SecretPlace`].

mod argv;
mod marker;
mod mask;
mod url;

pub use marker::{BadMarker, BadSecretName, MARKER, MARKERS_MAX, SecretName, SecretPlace, fill, places};
pub use url::without_passwords;

use crate::manifest::BadField;

/// What is shown in place of a secret.
pub const MASK: &str = "•••";

/// Most fields that a manifest marks.
pub const SECRET_FIELDS_MAX: usize = 100;

/// Most fields that were marked before and are remembered; if there are more, the whole payload is a secret.
pub(crate) const PAST_SECRET_FIELDS_MAX: usize = 1_000;

/// Longest pointer to one, in bytes.
pub const POINTER_BYTES_MAX: usize = 255;

/// Words that make a field a secret, as parts of its name: `api_key`, `dbPassword` and `X-Auth-Token`, but not `monkey`.
const WORDS: &[&str] = &[
    "accesskey",
    "accesskeys",
    "auth",
    "authkey",
    "authkeys",
    "authorization",
    "bearer",
    "connectionstring",
    "connstr",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "cvc",
    "cvv",
    "dsn",
    "jwt",
    "key",
    "keys",
    "otp",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pin",
    "privatekey",
    "privatekeys",
    "pwd",
    "secret",
    "secretkey",
    "secretkeys",
    "secrets",
    "sig",
    "signature",
    "sshkey",
    "sshkeys",
    "token",
    "tokens",
    "totp",
];

/// Two words that make a field a secret together.
const PAIRS: &[[&str; 2]] = &[["connection", "string"], ["conn", "str"], ["conn", "string"]];

/// Words that also make a field a secret at the end of a longer word: `dbpassword`, `authtoken`. No ordinary word ends with one
/// of them.
const ENDINGS: &[&str] = &[
    "apikey",
    "apikeys",
    "connectionstring",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "secret",
    "secrets",
    "token",
    "tokens",
];

/// Which fields of a payload are secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Fields beside those with secret names: the steps to each, `*` for any.
    marked: Vec<Vec<String>>,
}

impl Secrets {
    /// Fields with secret names.
    pub fn by_name() -> Secrets {
        Secrets::default()
    }

    /// Fields with secret names, and these: JSON pointers, in which `*` stands for any one step.
    pub fn marked(pointers: &[String]) -> Secrets {
        let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let steps = |pointer: &String| pointer.split('/').skip(1).map(step).collect();
        Secrets { marked: pointers.iter().map(steps).collect() }
    }

    /// The whole payload: if the marked fields are unknown.
    pub fn all() -> Secrets {
        Secrets::marked(&[String::new()])
    }

    /// JSON text with dots in place of its secrets; everything else as it was written. `None`: this is not JSON.
    pub fn mask(&self, text: &str) -> Option<String> {
        mask::masked(text, self)
    }

    /// The strings and numbers of JSON text that [`Secrets::mask`] hides as values of fields, for texts that may repeat them.
    pub fn hidden(&self, text: &str) -> Vec<String> {
        mask::hidden(text, self)
    }

    fn is_marked(&self, path: &[String]) -> bool {
        let fits = |marks: &Vec<String>| {
            marks.len() == path.len()
                && marks.iter().zip(path).all(|(mark, step)| mark == "*" || mark == step)
        };
        self.marked.iter().any(fits)
    }
}

/// Checks pointers as a manifest gives them.
pub(crate) fn check(pointers: &[String]) -> Result<(), BadField> {
    let bad = |message: String| Err(BadField::new("secret", message));
    if pointers.len() > SECRET_FIELDS_MAX {
        return bad(format!("must have at most {SECRET_FIELDS_MAX} fields"));
    }
    for pointer in pointers {
        if pointer.len() > POINTER_BYTES_MAX || (!pointer.is_empty() && !pointer.starts_with('/')) {
            let shown: String = pointer.chars().take(64).collect();
            return bad(format!(
                "{shown:?} must be a JSON pointer of at most {POINTER_BYTES_MAX} bytes, such as \"/smtp/user\"; * stands for any one step"
            ));
        }
    }
    Ok(())
}

/// Whether a field is a secret by its name.
pub fn is_secret_name(name: &str) -> bool {
    let is_secret =
        |part: &String| WORDS.contains(&part.as_str()) || ENDINGS.iter().any(|ending| part.ends_with(ending));
    let parts = parts(name);
    parts.iter().any(is_secret)
        || parts.windows(2).any(|two| PAIRS.iter().any(|[first, second]| two == [*first, *second]))
}

/// The words of a name, in lower case: `apiKey`, `API-key` and `api_key2` all have `api` and `key`.
fn parts(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut parts = vec![String::new()];
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after_lower = before.is_some_and(|before| before.is_lowercase());
        let ends_capitals = before.is_some_and(char::is_uppercase)
            && chars.get(at + 1).is_some_and(|next| next.is_lowercase());
        if !c.is_alphabetic() || (c.is_uppercase() && (after_lower || ends_capitals)) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_alphabetic()) {
            part.extend(c.to_lowercase());
        }
    }
    parts
}

/// A parser's message without the value: `invalid type: string "hunter2", expected u32` would be kept for months.
pub fn without_value(message: &str) -> String {
    for start in ["invalid type: ", "invalid value: ", "unknown variant "] {
        let Some(rest) = message.strip_prefix(start) else { continue };
        // The value may have these words in it, too: the last ones are the parser's.
        let Some(expected) = rest.rfind(", expected ").or_else(|| rest.rfind(", there are no ")) else {
            continue;
        };
        let what = rest[..expected].split(['"', '`']).next().unwrap_or_default().trim_end();
        return format!(
            "{}{what}{}",
            if what.is_empty() { start.trim_end() } else { start },
            &rest[expected..]
        );
    }
    message.to_owned()
}

/// Finds a mask in a payload, as a JSON pointer: a client may send back what it was shown.
pub fn find_mask(text: &str) -> Option<String> {
    // Most payloads have no mask, and need not be parsed.
    if !text.contains('•') && !text.contains("\\u2022") {
        return None;
    }
    mask::find(text, is_masked)
}

/// JSON text with other strings, by their meaning; `None` from `change` leaves a string as it is written. `None`: this is not JSON.
pub fn rewrite_strings(text: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    mask::rewritten(text, &change)
}

/// Whether a text is a mask, or a URL or a word of a command line with a masked secret.
fn is_masked(text: &str) -> bool {
    text == MASK || (text.contains(MASK) && (url::has_dots(text) || argv::has_dots(text)))
}

#[cfg(test)]
mod tests;
