//! What a program prints.

use std::fmt;

/// A measurement: one JSON object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Jobs that were enqueued.
    pub enqueued: u64,
    /// Jobs that the time is of: acknowledged by the database, or enqueued.
    pub jobs: u64,
    /// Handlers that began.
    pub ran: u64,
    /// The time.
    pub seconds: f64,
    /// Times of single jobs in milliseconds, for the latency.
    pub times_ms: Vec<f64>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { enqueued, jobs, ran, seconds, times_ms } = self;
        let times: Vec<String> = times_ms.iter().map(|time| format!("{time:.3}")).collect();
        write!(
            f,
            r#"{{"enqueued":{enqueued},"jobs":{jobs},"ran":{ran},"seconds":{seconds:.6},"times_ms":[{}]}}"#,
            times.join(",")
        )
    }
}

/// A text as JSON has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_line_of_json() {
        let answer = Answer { enqueued: 3, jobs: 2, ran: 2, seconds: 0.5, times_ms: vec![1.25, 2.0] };
        let expected = r#"{"enqueued":3,"jobs":2,"ran":2,"seconds":0.500000,"times_ms":[1.250,2.000]}"#;
        assert_eq!(answer.to_string(), expected);
        assert_eq!(quoted("a \"b\" \\ \n"), r#""a \"b\" \\  ""#);
    }
}
