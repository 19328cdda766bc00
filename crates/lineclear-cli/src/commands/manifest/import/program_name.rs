//! Which program a command line is about: not the one that only runs it, and not what prepares for it.

/// A program that runs another one, which is named behind it.
struct Wrapper {
    names: &'static [&'static str],
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Options after which the command comes, whatever else would be expected.
    command: &'static [&'static str],
    /// Options after which its own code comes: then nothing else is run.
    code: &'static [&'static str],
    /// Words between the options and the other program.
    operands: usize,
}

const PLAIN: Wrapper = Wrapper { names: &[], valued: &[], command: &[], code: &[], operands: 0 };

const WRAPPERS: &[Wrapper] = &[
    Wrapper { names: &["chronic", "command", "eatmydata", "exec", "nohup", "setsid"], ..PLAIN },
    Wrapper { names: &["bash", "dash", "ksh", "sh", "zsh"], valued: &["-o", "+o", "--rcfile"], ..PLAIN },
    Wrapper {
        names: &["sudo", "doas"],
        valued: &["-C", "-D", "-R", "-T", "-U", "-g", "-h", "-p", "-r", "-t", "-u", "--group", "--user"],
        ..PLAIN
    },
    Wrapper {
        names: &["runuser"],
        valued: &["-", "-G", "-g", "-l", "-s", "-u", "--user"],
        command: &["-c", "--command"],
        ..PLAIN
    },
    Wrapper {
        names: &["su"],
        valued: &["-G", "-g", "-s", "--shell"],
        command: &["-c", "--command"],
        operands: 1,
        ..PLAIN
    },
    Wrapper { names: &["env"], valued: &["-C", "-u", "--chdir", "--unset"], ..PLAIN },
    Wrapper { names: &["nice"], valued: &["-n", "--adjustment"], ..PLAIN },
    Wrapper { names: &["ionice"], valued: &["-c", "-n", "--class", "--classdata"], ..PLAIN },
    Wrapper { names: &["chrt", "chroot", "taskset"], operands: 1, ..PLAIN },
    Wrapper { names: &["timeout"], valued: &["-k", "-s", "--kill-after", "--signal"], operands: 1, ..PLAIN },
    Wrapper {
        names: &["flock"],
        valued: &["-E", "-w", "--conflict-exit-code", "--timeout", "--wait"],
        operands: 1,
        ..PLAIN
    },
    Wrapper { names: &["time"], valued: &["-f", "-o"], ..PLAIN },
    Wrapper { names: &["stdbuf"], valued: &["-e", "-i", "-o"], ..PLAIN },
    Wrapper { names: &["systemd-cat"], valued: &["-p", "-t"], ..PLAIN },
    Wrapper { names: &["run-parts"], valued: &["-a", "-u"], ..PLAIN },
    Wrapper { names: &["node"], valued: &["-r"], code: &["-e", "-p", "--eval"], ..PLAIN },
    Wrapper { names: &["perl"], valued: &["-I"], code: &["-E", "-e", "-ne", "-pe"], ..PLAIN },
    Wrapper { names: &["php"], valued: &["-c", "-d"], code: &["-r"], ..PLAIN },
    Wrapper { names: &["python"], valued: &["-W", "-X"], code: &["-c"], ..PLAIN },
    Wrapper { names: &["ruby"], valued: &["-C", "-I", "-r"], code: &["-e"], ..PLAIN },
];

/// What only prepares the command that follows.
const PREPARATIONS: &[&str] = &[
    ".", ":", "[", "cd", "exit", "export", "if", "set", "sleep", "source", "test", "ulimit", "umask", "while",
];
/// Words of the shell.
const WORDS: &[&str] = &["do", "done", "else", "fi", "then"];

impl Wrapper {
    /// That of a program, which may have its version in its name.
    fn of(program: &str) -> Option<&'static Wrapper> {
        let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        WRAPPERS.iter().find(|wrapper| {
            wrapper.names.contains(&program) || (!wrapper.code.is_empty() && wrapper.names.contains(&bare))
        })
    }

    /// Goes to the program that it runs; `false` if it runs none.
    fn skip<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        while let Some(word) = words.next_if(|word| word.starts_with(['-', '+']) || word.contains('=')) {
            if word == "--" {
                break;
            }
            if self.code.contains(&word) {
                return false;
            }
            if self.command.contains(&word) {
                return true;
            }
            if self.valued.contains(&word) {
                words.next();
            }
        }
        for _ in 0..self.operands {
            words.next();
        }
        true
    }
}

/// The first program in a command that is no mere beginning, without its folder; else the first of those that would run one.
pub(super) fn program(command: &str) -> Option<&str> {
    let words =
        command.split(|c: char| c.is_whitespace() || "(){}'\"`".contains(c)).filter(|word| !word.is_empty());
    let mut words = words.peekable();
    let mut first = None;
    while let Some(word) = words.next() {
        let bare = word.trim_end_matches([';', '&', '|']);
        let program = bare.rsplit('/').next().unwrap_or_default();
        let ends = bare.len() < word.len();
        if PREPARATIONS.contains(&program) {
            if !ends {
                words.find(|word| word.ends_with([';', '&', '|']));
            }
            continue;
        }
        let is_other = word.starts_with(['-', '$', '<', '>', '#', '!']) || word.contains('=');
        let is_number = program.starts_with(|c: char| c.is_ascii_digit()) && !bare.contains('/');
        if is_other || is_number || program.is_empty() || WORDS.contains(&program) {
            continue;
        }
        match Wrapper::of(program) {
            None => return Some(program),
            Some(_) if ends => first = first.or(Some(program)),
            Some(wrapper) if wrapper.skip(&mut words) => first = first.or(Some(program)),
            Some(_) => return Some(program),
        }
    }
    first
}
