//! A cron expression in words. croner has such a function too, but it calls `LW` the last day of the month.

const WEEKDAYS: [&str; 8] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 13] = [
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Puts the six fields of an expression in its plain form into words.
pub(super) fn describe(plain: &str, both_days: bool) -> String {
    let fields: Vec<&str> = plain.split(' ').collect();
    let [second, minute, hour, day, month, weekday] = fields[..] else { return String::new() };
    let mut parts = vec![time(second, minute, hour)];
    let days = match (day, weekday) {
        ("*", "*") => String::new(),
        (day, "*") => on_days(day),
        ("*", weekday) => on_weekdays(weekday),
        (day, weekday) if both_days => {
            format!("{}, if that is also {}", on_days(day), bare(&on_weekdays(weekday)))
        }
        (day, weekday) => format!("{}, and {}", on_days(day), on_weekdays(weekday)),
    };
    parts.push(days);
    if month != "*" {
        parts.push(format!("in {}", list(month, "month", |n| MONTHS[n % 13].into())));
    }
    parts.retain(|part| !part.is_empty());
    let text = parts.join(", ");
    let (first, rest) = text.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}

fn time(second: &str, minute: &str, hour: &str) -> String {
    let hours: Option<Vec<usize>> = hour.split(',').map(|item| item.parse().ok()).collect();
    if let (Ok(s), Ok(m), Some(hours)) = (second.parse::<usize>(), minute.parse::<usize>(), hours) {
        let clock =
            |h: usize| if s == 0 { format!("{h:02}:{m:02}") } else { format!("{h:02}:{m:02}:{s:02}") };
        return format!("at {}", join(&hours.into_iter().map(clock).collect::<Vec<_>>(), "and"));
    }
    let mut parts = Vec::new();
    if second != "0" {
        parts.push(unit("second", second, 60));
    }
    if second == "0" || minute != "*" {
        parts.push(unit("minute", minute, 60));
    }
    match hour {
        "*" if minute == "*" || minute.starts_with("*/") => {}
        "*" => parts.push("of every hour".into()),
        hour => match list(hour, "hour", |n| format!("{n:02}")) {
            every if every.starts_with("every") => parts.push(format!("in {every}")),
            hours => parts.push(format!("in the hours {hours}")),
        },
    }
    parts.join(", ")
}

/// A field of seconds or minutes.
fn unit(name: &str, field: &str, width: usize) -> String {
    if field == "*" {
        return format!("every {name}");
    }
    if let Some(step) = field.strip_prefix("*/").and_then(|step| step.parse::<usize>().ok())
        && width.is_multiple_of(step)
    {
        return if step == 1 { format!("every {name}") } else { format!("every {step} {name}s") };
    }
    let items = list(field, name, |n| n.to_string());
    if items.starts_with("every") { items } else { format!("at {name} {items}") }
}

fn on_days(field: &str) -> String {
    let item = |item: &str| match item {
        "L" => "the last day of the month".to_owned(),
        "LW" => "the last day of the month that is Monday to Friday".to_owned(),
        item => match item.strip_suffix('W') {
            Some(day) => format!("the day from Monday to Friday that is nearest to day {day}"),
            None => match one(item, "day of the month", &|n| n.to_string()) {
                every if every.starts_with("every") => every,
                number => format!("day {number}"),
            },
        },
    };
    format!("on {}", join(&field.split(',').map(item).collect::<Vec<_>>(), "and"))
}

fn on_weekdays(field: &str) -> String {
    let name = |n: usize| WEEKDAYS[n % 8].to_owned();
    let item = |item: &str| match item.split_once('#') {
        Some((day, nth)) => {
            let day = name(day.parse().unwrap_or(0));
            let nth = if nth == "L" { "last".into() } else { ordinal(nth.parse().unwrap_or(1)) };
            format!("the {nth} {day} of the month")
        }
        None => one(item, "day of the week, from Sunday", &name),
    };
    format!("on {}", join(&field.split(',').map(item).collect::<Vec<_>>(), "and"))
}

/// Without the `on`.
fn bare(text: &str) -> &str {
    text.strip_prefix("on ").unwrap_or(text)
}

/// A list of items, each a number, a range or a step.
fn list(field: &str, unit: &str, name: impl Fn(usize) -> String) -> String {
    join(&field.split(',').map(|item| one(item, unit, &name)).collect::<Vec<_>>(), "and")
}

fn one(item: &str, unit: &str, name: &dyn Fn(usize) -> String) -> String {
    let (range, step) = item.split_once('/').unwrap_or((item, "1"));
    let step: usize = step.parse().unwrap_or(1);
    let range = range.split_once('-').map(|(a, b)| [a, b].map(|n| name(n.parse().unwrap_or(0))));
    match (range, step) {
        (Some([a, b]), 1) => format!("{a} to {b}"),
        (Some([a, b]), step) => format!("every {} {unit} from {a} to {b}", ordinal(step)),
        (None, 1) => item.parse().map_or_else(|_| format!("every {unit}"), name),
        (None, step) => format!("every {} {unit}", ordinal(step)),
    }
}

fn ordinal(n: usize) -> String {
    let suffix = match (n % 10, n % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// `a, b and c`.
fn join(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schedule;

    #[test]
    fn expressions_are_put_into_words() {
        for (expression, words) in [
            ("30 2 * * *", "At 02:30."),
            ("0 6,18 * * *", "At 06:00 and 18:00."),
            ("15 30 2 * * *", "At 02:30:15."),
            ("@hourly", "At minute 0, of every hour."),
            ("* * * * *", "Every minute."),
            ("*/15 * * * *", "Every 15 minutes."),
            ("*/7 * * * *", "Every 7th minute."),
            ("*/10 * * * * *", "Every 10 seconds."),
            ("*/15 9-17 * * mon-fri", "Every 15 minutes, in the hours 09 to 17, on Monday to Friday."),
            ("0 */2 * * *", "At minute 0, in every 2nd hour."),
            ("5-20/5 * * * *", "Every 5th minute from 5 to 20, of every hour."),
            ("0 0 L * *", "At 00:00, on the last day of the month."),
            ("0 0 LW * *", "At 00:00, on the last day of the month that is Monday to Friday."),
            (
                "0 0 1,15W jan-mar *",
                "At 00:00, on day 1 and the day from Monday to Friday that is nearest to day 15, in January to March.",
            ),
            (
                "0 9 * * mon#1,7L",
                "At 09:00, on the 1st Monday of the month and the last Sunday of the month.",
            ),
            ("0 0 13 * fri", "At 00:00, on day 13, and on Friday."),
            ("0 0 1 */15 *", "At 00:00, on day 1, in January."),
            ("0 0 */2 * 1", "At 00:00, on every 2nd day of the month, if that is also Monday."),
        ] {
            let schedule = Schedule::cron(expression, "UTC").unwrap();
            assert_eq!(schedule.cron_in_words().unwrap(), words, "{expression}");
        }
    }
}
