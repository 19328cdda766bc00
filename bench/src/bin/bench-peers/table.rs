//! A table of Markdown.

/// A table: its head and its rows.
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Table {
        Table(vec![head.iter().map(|&word| word.to_owned()).collect()])
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    pub(crate) fn text(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        // The first column has words, the others have numbers.
        let rule: Vec<String> =
            (0..self.0[0].len()).map(|at| if at == 0 { "---" } else { "---:" }.to_owned()).collect();
        let rows = self.0[1..].iter().map(|cells| line(cells));
        [line(&self.0[0]), line(&rule)].into_iter().chain(rows).collect()
    }
}

/// Three digits, and separators of thousands: 43,900 or 3.14.
pub(crate) fn number(value: f64) -> String {
    if value < 0.000_000_5 {
        return "0".to_owned();
    }
    let digits = 2 - value.log10().floor() as i32;
    if digits > 0 {
        return format!("{value:.0$}", digits as usize);
    }
    let step = 10_f64.powi(-digits);
    lineclear_bench::grouped(((value / step).round() * step) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let values = [0.0, 0.000_123_4, 0.1234, 2.3456, 42.0, 516.4, 43_893.0, 1_234_567.0];
        assert_eq!(
            values.map(number),
            ["0", "0.000123", "0.123", "2.35", "42.0", "516", "43,900", "1,230,000"]
        );
    }
}
