//! Adds up the summaries of test runners.

/// How many tests passed, failed and were skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

/// The runner whose summaries are read. Nextest shows the output of a failed test, which has a summary of the other kind
/// that must not be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Cargo,
    Nextest,
}

impl Counts {
    /// Adds a line of a runner's output, if it is a summary.
    pub(crate) fn read(&mut self, runner: Runner, line: &str) {
        let counts = match runner {
            Runner::Cargo => line.strip_prefix("test result: "),
            Runner::Nextest => {
                line.trim_start().strip_prefix("Summary [").and_then(|rest| rest.split("run:").nth(1))
            }
        };
        for part in counts.map(without_brackets).unwrap_or_default().split([',', ';', '.']) {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|word| word.parse::<u32>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += number,
                // Tests that took too long, or could not be started.
                Some("failed" | "timed" | "exec") => self.failed += number,
                Some("skipped" | "ignored" | "filtered") => self.skipped += number,
                _ => {}
            }
        }
    }
}

/// Nextest's `4 passed (1 slow, 1 flaky)` names some tests a second time.
fn without_brackets(text: &str) -> String {
    let mut depth = 0;
    text.chars()
        .filter(|character| {
            depth += i32::from(*character == '(');
            let outside = depth == 0;
            depth -= i32::from(*character == ')');
            outside
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(runner: Runner, lines: &[&str]) -> (u32, u32, u32) {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.read(runner, line));
        (counts.passed, counts.failed, counts.skipped)
    }

    #[test]
    fn closing_lines_of_cargo_are_added_up() {
        let lines = [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out",
        ];
        assert_eq!(count(Runner::Cargo, &lines), (7, 2, 10));
    }

    #[test]
    fn every_way_to_fail_in_nextest_is_a_failure() {
        let line = "     Summary [   1.400s] 9 tests run: 5 passed (1 slow, 1 flaky), 2 failed, 1 timed out, \
                    1 exec failed, 3 skipped";
        assert_eq!(count(Runner::Nextest, &[line]), (5, 4, 3));
        assert_eq!(count(Runner::Nextest, &["  Summary [ 0.1s] 1 test run: 1 passed, 0 skipped"]), (1, 0, 0));
    }

    #[test]
    fn the_output_of_a_failed_test_is_not_counted_again() {
        let lines = [
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            "     Summary [   0.1s] 1 test run: 0 passed, 1 failed, 0 skipped",
        ];
        assert_eq!(count(Runner::Nextest, &lines), (0, 1, 0));
    }
}
