//! The commands that a server may run. Its settings decide this, never a manifest.

use serde::Deserialize;

/// The allowed commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Entry {
    /// A program, with any arguments.
    Program(String),
    /// A program with exactly these arguments.
    Exactly(Vec<String>),
}

impl Entry {
    fn program(&self) -> Option<&String> {
        match self {
            Entry::Program(program) => Some(program),
            Entry::Exactly(argv) => argv.first(),
        }
    }
}

impl Allowed {
    /// `/usr/bin/backup,/usr/bin/report`, or JSON: `["/usr/bin/backup", ["/bin/sh", "-c", "exactly this"]]`.
    pub(crate) fn parse(text: &str) -> Result<Allowed, String> {
        let text = text.trim();
        let entries: Vec<Entry> = match text.starts_with('[') {
            true => serde_json::from_str(text)
                .map_err(|error| format!("must be a list of programs and command lines: {error}"))?,
            false => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.map(|word| Entry::Program(word.to_owned())).collect()
            }
        };
        for entry in &entries {
            let program = entry.program().map_or("", String::as_str);
            // A relative path would depend on PATH or on the current folder.
            if !program.starts_with('/') {
                return Err(format!("{program:?} is not an absolute path such as /usr/bin/backup"));
            }
        }
        Ok(Allowed(entries))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Programs that do not exist.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &String> {
        let programs = self.0.iter().filter_map(Entry::program);
        programs.filter(|program| !std::path::Path::new(program).is_file())
    }

    /// Whether this command line may be run.
    pub(crate) fn allows(&self, argv: &[String]) -> bool {
        self.0.iter().any(|entry| match entry {
            Entry::Program(program) => argv.first() == Some(program),
            Entry::Exactly(exactly) => argv == exactly,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_program_is_allowed_with_any_arguments_and_a_list_with_just_these() {
        let allowed = Allowed::parse(r#"["/bin/echo", ["/bin/sh", "-c", "date"]]"#).unwrap();
        for yes in [&["/bin/echo"][..], &["/bin/echo", "a", "b"], &["/bin/sh", "-c", "date"]] {
            assert!(allowed.allows(&argv(yes)), "{yes:?}");
        }
        for no in [
            &[][..],
            &["echo"],
            &["/bin/echo "],
            &["/bin/../bin/echo"],
            &["/bin/sh"],
            &["/bin/sh", "-c", "date; id"],
            &["/bin/sh", "-c", "date", "x"],
        ] {
            assert!(!allowed.allows(&argv(no)), "{no:?}");
        }
    }

    #[test]
    fn words_with_commas_are_programs_and_nothing_allows_nothing() {
        let allowed = Allowed::parse(" /bin/a, /bin/b ").unwrap();
        assert!(allowed.allows(&argv(&["/bin/b", "x"])) && !allowed.is_empty());
        assert!(Allowed::parse("").unwrap().is_empty());
        assert!(!Allowed::default().allows(&argv(&[])));
    }

    #[test]
    fn relative_programs_and_invalid_lists_are_refused() {
        for bad in ["backup", "./backup", "[[]]", r#"["x"]"#, r#"[["sh", "-c"]]"#, "[1]", "[\"/bin/a\""] {
            assert!(Allowed::parse(bad).is_err(), "{bad}");
        }
    }
}
