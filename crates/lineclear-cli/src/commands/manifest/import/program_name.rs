//! The program that a command line is about: not one that only runs it (`sudo`, `flock`), and not what prepares for it (`cd`).

use std::iter::Peekable;

/// A program that runs another one, which is named after its options.
struct Wrapper {
    /// Options whose value is the next word.
    valued: &'static str,
    /// Options that end the options. What follows is the command, or code of an interpreter.
    last: &'static str,
    /// Words between the options and the other program.
    operands: usize,
    /// After `last` comes code, so that no other program is run.
    is_interpreter: bool,
}

/// Names, options with a value, options that end the options, operands.
const WRAPPERS: &[(&str, &str, &str, usize)] = &[
    ("chronic command eatmydata exec nohup setsid", "", "", 0),
    ("bash dash ksh sh zsh", "-o +o --rcfile", "", 0),
    ("sudo doas", "-C -D -R -T -U -g -h -p -r -t -u --group --user", "", 0),
    ("runuser", "- -G -g -l -s -u --user", "-c --command", 0),
    ("su", "-G -g -s --shell", "-c --command", 1),
    ("env", "-C -u --chdir --unset", "", 0),
    ("nice", "-n --adjustment", "", 0),
    ("ionice", "-c -n --class --classdata", "", 0),
    ("chrt chroot taskset", "", "", 1),
    ("timeout", "-k -s --kill-after --signal", "", 1),
    ("flock", "-E -w --conflict-exit-code --timeout --wait", "", 1),
    ("time", "-f -o", "", 0),
    ("stdbuf", "-e -i -o", "", 0),
    ("systemd-cat", "-p -t", "", 0),
    ("run-parts", "-a -u", "", 0),
];

/// Names, options with a value, options with code.
const INTERPRETERS: &[(&str, &str, &str)] = &[
    ("node", "-r", "-e -p --eval"),
    ("perl", "-I", "-E -e -ne -pe"),
    ("php", "-c -d", "-r"),
    ("python", "-W -X", "-c"),
    ("ruby", "-C -I -r", "-e"),
];

/// Commands that only prepare for the one that follows.
const PREPARATIONS: &str = ". : [ cd exit export if set sleep source test ulimit umask while";
/// Keywords of the shell.
const KEYWORDS: &str = "do done else fi then";

fn contains(words: &str, word: &str) -> bool {
    words.split(' ').any(|there| there == word)
}

impl Wrapper {
    fn of(program: &str) -> Option<Wrapper> {
        // The name of an interpreter may end with its version.
        let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let wrapper = WRAPPERS.iter().find(|(names, ..)| contains(names, program));
        let interpreter = INTERPRETERS.iter().find(|(names, ..)| contains(names, bare));
        match (wrapper, interpreter) {
            (Some((_, valued, last, operands)), _) => {
                Some(Wrapper { valued, last, operands: *operands, is_interpreter: false })
            }
            (_, Some((_, valued, last))) => Some(Wrapper { valued, last, operands: 0, is_interpreter: true }),
            _ => None,
        }
    }

    /// Skips to the program that it runs; `false` if it runs none.
    fn skip<'a>(&self, words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
        while let Some(word) = words.next_if(|word| word.starts_with(['-', '+']) || word.contains('=')) {
            if word == "--" {
                break;
            }
            if contains(self.last, word) {
                return !self.is_interpreter;
            }
            if contains(self.valued, word) {
                words.next();
            }
        }
        for _ in 0..self.operands {
            words.next();
        }
        true
    }
}

/// The name of the first program of a command that is neither preparation nor a wrapper; else that of the first wrapper.
pub(super) fn program_name(command: &str) -> Option<&str> {
    let words =
        command.split(|c: char| c.is_whitespace() || "(){}'\"`".contains(c)).filter(|word| !word.is_empty());
    let mut words = words.peekable();
    let mut first_wrapper = None;
    while let Some(word) = words.next() {
        let bare = word.trim_end_matches([';', '&', '|']);
        let program = bare.rsplit('/').next().unwrap_or_default();
        let ends = bare.len() < word.len();
        if contains(PREPARATIONS, program) {
            if !ends {
                words.find(|word| word.ends_with([';', '&', '|']));
            }
            continue;
        }
        let is_other = word.starts_with(['-', '$', '<', '>', '#', '!']) || word.contains('=');
        let is_number = program.starts_with(|c: char| c.is_ascii_digit()) && !bare.contains('/');
        if is_other || is_number || program.is_empty() || contains(KEYWORDS, program) {
            continue;
        }
        match Wrapper::of(program) {
            None => return Some(program),
            Some(wrapper) if ends || wrapper.skip(&mut words) => {
                first_wrapper = first_wrapper.or(Some(program));
            }
            Some(_) => return Some(program),
        }
    }
    first_wrapper
}
