//! The command line.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Creates the tables.
    Setup,
    /// Enqueues jobs for a drain.
    Fill,
    /// Works off a full queue.
    Drain,
    /// Enqueues in bulk while it works off.
    End,
    /// Enqueues one job per call.
    Single,
    /// Enqueues many jobs per call.
    Bulk,
    /// Measures the time from enqueue to the handler.
    Latency,
    /// Prints version and settings.
    Describe,
}

/// Which settings to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// Those that a queue has when nothing is set.
    Default,
    /// The fastest that its documentation names.
    Best,
}

/// One measurement, as the command line asks for it.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// The database.
    pub url: String,
    /// Which settings.
    pub settings: Settings,
    /// How many jobs; the most, if there is a time as well.
    pub jobs: u64,
    /// How long at most.
    pub time: Duration,
    /// Concurrent callers of `single`.
    pub callers: usize,
}

impl FromStr for Verb {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Verb> {
        Ok(match word {
            "setup" => Verb::Setup,
            "fill" => Verb::Fill,
            "drain" => Verb::Drain,
            "end" => Verb::End,
            "single" => Verb::Single,
            "bulk" => Verb::Bulk,
            "latency" => Verb::Latency,
            "describe" => Verb::Describe,
            _ => bail!("{word} is not a verb"),
        })
    }
}

impl Request {
    /// Reads the arguments that follow the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Request> {
        let mut words = arguments.into_iter();
        let mut request = Request {
            verb: words.next().context("a verb is missing")?.parse()?,
            url: String::new(),
            settings: Settings::Default,
            jobs: u64::MAX,
            time: Duration::from_secs(60),
            callers: 1,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--url" => request.url = value()?,
                "--jobs" => request.jobs = value()?.parse().context("--jobs")?,
                "--seconds" => {
                    request.time = Duration::from_secs_f64(value()?.parse().context("--seconds")?);
                }
                "--callers" => request.callers = value()?.parse().context("--callers")?,
                "--best" => request.settings = Settings::Best,
                "--default" => request.settings = Settings::Default,
                _ => bail!("{word} is not an option"),
            }
        }
        Ok(request)
    }

    /// Whether the best settings are asked for.
    pub fn best(&self) -> bool {
        self.settings == Settings::Best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request> {
        Request::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn a_line_is_read() {
        let request = parse("drain --url postgres:/// --jobs 7 --seconds 1.5 --best").unwrap();
        assert_eq!((request.verb, request.settings, request.jobs), (Verb::Drain, Settings::Best, 7));
        assert_eq!((request.time, request.url.as_str()), (Duration::from_millis(1_500), "postgres:///"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (line, named) in [("run", "run"), ("drain --jobs", "--jobs"), ("drain --often", "--often")] {
            assert!(parse(line).unwrap_err().to_string().contains(named), "{line}");
        }
    }
}
