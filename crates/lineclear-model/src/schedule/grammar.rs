//! The grammar of cron expressions, checked before the cron library sees them.
//!
//! The library (croner) replaces names by search and replace and skips empty list items: it takes `MONTUE`
//! for 12, `5,,7` for `5,7`, and never matches `7L`. It also cannot say where an expression is wrong. So
//! everything is checked here, with positions, and handed on in one plain form: six fields of numbers.

use super::BadSchedule;

/// Longest expression. The longest sensible one (every list spelled out) stays below 500 bytes.
pub const CRON_BYTES_MAX: usize = 1024;

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    DayOfMonth,
    Month,
    Weekday,
}

/// One of the six fields: what it is called and which numbers it takes.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    kind: Kind,
}

const FIELDS: [Field; 6] = [
    Field { name: "second", min: 0, max: 59, kind: Kind::Plain },
    Field { name: "minute", min: 0, max: 59, kind: Kind::Plain },
    Field { name: "hour", min: 0, max: 23, kind: Kind::Plain },
    Field { name: "day of month", min: 1, max: 31, kind: Kind::DayOfMonth },
    Field { name: "month", min: 1, max: 12, kind: Kind::Month },
    Field { name: "weekday", min: 0, max: 7, kind: Kind::Weekday },
];

/// An expression in its plain form.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    /// Six fields of numbers, `*`, `,`, `-`, `/`, `L`, `W`, `#`.
    pub text: String,
    /// Whether a day must match both day fields. As in Vixie cron, that is so as soon as one of them starts
    /// with `*`, even as `*/2`.
    pub both_days: bool,
    /// What is valid, but probably not meant: steps that are longer than their field.
    pub warnings: Vec<String>,
}

/// A piece of the expression and where it stands, so that an error can point at it.
#[derive(Clone, Copy)]
struct Token<'a> {
    whole: &'a str,
    text: &'a str,
    from: usize,
}

impl<'a> Token<'a> {
    fn bad(&self, message: impl Into<String>) -> BadSchedule {
        BadSchedule::new("cron", message).at(self.whole, self.from, self.text.len())
    }

    /// Splits at every `separator`, keeping positions.
    fn split(self, separator: char) -> impl Iterator<Item = Token<'a>> {
        let mut from = self.from;
        self.text.split(separator).map(move |text| {
            let token = Token { text, from, ..self };
            from += text.len() + 1;
            token
        })
    }

    fn cut(self, at: usize) -> (Token<'a>, Token<'a>) {
        let (left, right) = self.text.split_at(at);
        (Token { text: left, ..self }, Token { text: right, from: self.from + at, ..self })
    }
}

/// Checks an expression and brings it to its plain form.
pub(super) fn check(expression: &str) -> Result<Plain, BadSchedule> {
    if expression.len() > CRON_BYTES_MAX {
        let message =
            format!("an expression has at most {CRON_BYTES_MAX} bytes, this one has {}", expression.len());
        return Err(BadSchedule::new("cron", message));
    }
    if let Some((at, c)) = expression.chars().enumerate().find(|(_, c)| !matches!(c, ' '..='~' | '\t')) {
        // The expression is not shown: a terminal might act on what is in it.
        let message = format!("{:?} at position {} cannot stand in a cron expression", c, at + 1);
        return Err(BadSchedule::new("cron", message).hint("use plain ASCII text"));
    }
    let expression = expression.replace('\t', " ");
    let whole = expression.as_str();
    let trimmed = Token { whole, text: whole.trim(), from: whole.len() - whole.trim_start().len() };
    if trimmed.text.is_empty() {
        return Err(BadSchedule::new("cron", "the expression is empty").hint(FIELDS_HINT));
    }
    if trimmed.text.starts_with('@') {
        let known = MACROS.iter().find(|(name, _)| trimmed.text.eq_ignore_ascii_case(name));
        let (_, text) = known.ok_or_else(|| {
            let names = MACROS.map(|(name, _)| name).join(", ");
            trimmed
                .bad(format!("{:?} is not known", trimmed.text))
                .hint(format!("the short forms are {names}"))
        })?;
        return check(text);
    }

    let tokens: Vec<Token> = trimmed.split(' ').filter(|token| !token.text.is_empty()).collect();
    let fields = match tokens.len() {
        5 => &FIELDS[1..],
        6 => &FIELDS[..],
        n => {
            let bad = BadSchedule::new("cron", format!("an expression has 5 or 6 fields, this one has {n}"));
            let bad = match tokens.get(6) {
                Some(extra) => bad.at(whole, extra.from, trimmed.from + trimmed.text.len() - extra.from),
                None => bad,
            };
            return Err(bad.hint(FIELDS_HINT));
        }
    };
    let mut plain = if fields.len() == 5 { vec!["0".to_owned()] } else { vec![] };
    let mut warnings = Vec::new();
    for (field, token) in fields.iter().zip(&tokens) {
        plain.push(field.check(*token, &mut warnings)?);
    }
    let is_day = |field: &Field| matches!(field.kind, Kind::DayOfMonth | Kind::Weekday);
    let mut day_fields = fields.iter().zip(&tokens).filter(|(field, _)| is_day(field));
    let both_days = day_fields.any(|(_, token)| token.text.starts_with(['*', '?']));
    Ok(Plain { text: plain.join(" "), both_days, warnings })
}

const FIELDS_HINT: &str = "the fields are: [second] minute hour day-of-month month weekday";

impl Field {
    fn check(&self, token: Token, warnings: &mut Vec<String>) -> Result<String, BadSchedule> {
        if token.text == "?" && matches!(self.kind, Kind::DayOfMonth | Kind::Weekday) {
            return Ok("*".into());
        }
        let mut items = Vec::new();
        for item in token.split(',') {
            items.push(self.item(item, warnings)?);
        }
        if items.len() > 1 && items.iter().any(|item| item == "*") {
            return Err(token
                .bad(format!("{}: `*` makes the rest of the list useless", self.name))
                .hint("write `*`"));
        }
        // The library keeps one flag for both, so that `L,LW` would lose the last day of the month.
        if items.iter().any(|item| item == "L") && items.iter().any(|item| item == "LW") {
            return Err(token
                .bad("day of month: L and LW cannot stand in one list")
                .hint("use two manifests"));
        }
        Ok(items.join(","))
    }

    fn item(&self, token: Token, warnings: &mut Vec<String>) -> Result<String, BadSchedule> {
        let text = token.text;
        if text.is_empty() {
            return Err(token
                .bad(format!("{}: something is missing here", self.name))
                .hint("remove the comma"));
        }
        if let Some(slash) = text.find('/') {
            let (range, step) = token.cut(slash);
            let (_, step) = step.cut(1);
            let (range, step) = (self.stepped(range, step)?, self.step(step)?);
            if step > self.max - self.min + 1 {
                return Ok(self.first_of(&range, step, warnings));
            }
            return Ok(format!("{range}/{step}"));
        }
        if text == "*" {
            return Ok("*".into());
        }
        match self.kind {
            Kind::DayOfMonth => {
                if text.eq_ignore_ascii_case("l") || text.eq_ignore_ascii_case("lw") {
                    return Ok(text.to_ascii_uppercase());
                }
                if let Some(day) = text.strip_suffix(['w', 'W']) {
                    let (day, _) = token.cut(day.len());
                    return Ok(format!("{}W", self.number(day)?));
                }
            }
            Kind::Weekday => {
                if let Some(hash) = text.find('#') {
                    let (day, nth) = token.cut(hash);
                    let (_, nth) = nth.cut(1);
                    let day = self.number(day)? % 7;
                    return match nth.text {
                        "1" | "2" | "3" | "4" | "5" => Ok(format!("{day}#{}", nth.text)),
                        "l" | "L" => Ok(format!("{day}#L")),
                        _ => Err(nth.bad("weekday: after `#` stands 1 to 5, or L for the last")),
                    };
                }
                if text.eq_ignore_ascii_case("l") {
                    let bad = token.bad("weekday: L needs a day before it");
                    return Err(bad.hint("the last Friday of a month is `5L`"));
                }
                if let Some(day) = text.strip_suffix(['l', 'L']) {
                    let (day, _) = token.cut(day.len());
                    return Ok(format!("{}#L", self.number(day)? % 7));
                }
            }
            Kind::Plain | Kind::Month => {}
        }
        if text.contains('-') {
            return self.range(token);
        }
        let number = self.number(token)?;
        Ok(if self.kind == Kind::Weekday { number % 7 } else { number }.to_string())
    }

    /// What stands before a `/`: `*` or a range. A single number is refused, since half of the world reads
    /// `5/10` as "5, 15, 25 …" and the other half as "5".
    fn stepped(&self, token: Token, step: Token) -> Result<String, BadSchedule> {
        match token.text {
            "*" => Ok("*".into()),
            text if text.contains('-') => self.range(token),
            text => {
                let hint = match text.parse::<u32>() {
                    Ok(from) => format!("write `{from}-{}/{}`", self.max, step.text),
                    Err(_) => format!("write `*/{}`", step.text),
                };
                Err(token.bad(format!("{}: a step needs `*` or a range before it", self.name)).hint(hint))
            }
        }
    }

    fn step(&self, token: Token) -> Result<u32, BadSchedule> {
        let step: u32 = parse_digits(token.text).ok_or_else(|| {
            token.bad(format!("{}: a step is a number", self.name)).hint("for example `*/5`")
        })?;
        match step {
            0 => Err(token.bad(format!("{}: a step of 0 never moves on", self.name)).hint("use 1 or more")),
            step => Ok(step),
        }
    }

    /// A step that is longer than the field leaves the first value of its range, as in every cron. It is probably a mistake.
    fn first_of(&self, range: &str, step: u32, warnings: &mut Vec<String>) -> String {
        let Field { name, min, max, kind } = self;
        let first = range.split_once('-').and_then(|(first, _)| first.parse().ok()).unwrap_or(*min);
        let first = if *kind == Kind::Weekday { first % 7 } else { first };
        warnings.push(format!(
            "{name}: a step of {step} is longer than the field ({min} to {max}), so that only {first} matches"
        ));
        first.to_string()
    }

    fn range(&self, token: Token) -> Result<String, BadSchedule> {
        let ends: Vec<Token> = token.split('-').collect();
        let [first, last] = ends[..] else {
            return Err(token.bad(format!("{}: a range has two ends", self.name)).hint("for example `1-5`"));
        };
        let (low, mut high) = (self.number(first)?, self.number(last)?);
        // Sunday is both ends of a week: as an end it is 7.
        if self.kind == Kind::Weekday && high == 0 && low > 0 {
            high = 7;
        }
        if low > high {
            let around = if self.kind == Kind::Weekday { 6 } else { self.max };
            let bad = token.bad(format!("{}: the range ends before it starts", self.name));
            return Err(bad.hint(format!("to go around, write `{low}-{around},{}-{high}`", self.min)));
        }
        Ok(format!("{low}-{high}"))
    }

    /// A number or a name of this field.
    fn number(&self, token: Token) -> Result<u32, BadSchedule> {
        let Field { name, min, max, .. } = *self;
        if let Some(number) = parse_digits(token.text) {
            if (min..=max).contains(&number) {
                return Ok(number);
            }
            return Err(token.bad(format!("{name}: {} is not between {min} and {max}", token.text)));
        }
        let (names, first): (&[&str], u32) = match self.kind {
            Kind::Month => (&MONTHS, 1),
            Kind::Weekday => (&WEEKDAYS, 0),
            Kind::Plain | Kind::DayOfMonth => (&[], 0),
        };
        let found = (first..).zip(names).find(|(_, name)| name.eq_ignore_ascii_case(token.text));
        found.map(|(number, _)| number).ok_or_else(|| {
            let what = if token.text.is_empty() {
                "a number is missing".into()
            } else {
                format!("{:?} is not understood", token.text)
            };
            let or_names = match names {
                [one, .., last] => format!(", or a name from {one} to {last}"),
                _ => String::new(),
            };
            token.bad(format!("{name}: {what}")).hint(format!("use {min} to {max}{or_names}"))
        })
    }
}

/// A number of digits only: Rust's own parser would take `+5`.
fn parse_digits(text: &str) -> Option<u32> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
