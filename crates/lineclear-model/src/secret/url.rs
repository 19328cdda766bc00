//! Passwords in URLs: `postgres://ann:hunter2@db/` in a text that all users may see, such as an error.

use std::borrow::Cow;

use super::{MASK, is_secret_name};

/// Replaces the passwords of the URLs in a text by dots: before the `@`, and in parameters with telling names.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut places = Vec::new();
    for (sign, _) in text.match_indices("://") {
        let start = sign + 3;
        let url = &text[start..start + end_of(&text[start..], |_| false)];
        places.extend(secrets(url).into_iter().map(|(from, to)| (start + from, start + to)));
    }
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    // A URL inside another one is found twice.
    places.sort_unstable();
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (from, to) in places {
        if from >= copied {
            out.push_str(&text[copied..from]);
            out.push_str(MASK);
        }
        copied = copied.max(to);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Whether a text has a URL with a masked password.
pub(super) fn has_dots(text: &str) -> bool {
    text.contains("://") && (text.contains(&format!(":{MASK}@")) || text.contains(&format!("={MASK}")))
}

/// Where it ends: at white space, quotes and brackets, and where `also` says so.
fn end_of(text: &str, also: fn(char) -> bool) -> usize {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>') || also(c);
    text.find(ends).unwrap_or(text.len())
}

/// The places of unmasked secrets after `://`, in their order.
fn secrets(url: &str) -> Vec<(usize, usize)> {
    let password = password(url);
    let after = password.map_or(0, |(_, to)| to);
    let query = url[after..].find('?').map_or(url.len(), |at| after + at);
    let mut all: Vec<(usize, usize)> = password.into_iter().collect();
    for (at, sign) in url.match_indices(['?', '&', ';']).filter(|(at, _)| *at >= query) {
        let pair = &url[at + sign.len()..];
        let pair = &pair[..end_of(pair, |c| matches!(c, '&' | ';' | '#'))];
        if let Some((name, value)) = pair.split_once('=').filter(|(name, _)| is_secret_name(name)) {
            let from = at + sign.len() + name.len() + 1;
            all.push((from, from + value.len()));
        }
    }
    all.retain(|&(from, to)| from < to && &url[from..to] != MASK);
    all
}

/// The place of the password before the `@`.
fn password(url: &str) -> Option<(usize, usize)> {
    let authority = &url[..end_of(url, |c| matches!(c, '/' | '?' | '#'))];
    let colon = authority.find(':')?;
    let at = match authority.rfind('@') {
        Some(at) => at,
        // A password with a slash makes a URL invalid, and an error may quote it. A port is no password, nor is an IPv6 address.
        None if authority.starts_with('[') || is_port(&authority[colon + 1..]) => return None,
        None => url.rfind('@')?,
    };
    (colon < at).then_some((colon + 1, at))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_become_dots() {
        for (text, shown) in [
            ("postgres://ann:hunter2@db:5432/x", "postgres://ann:•••@db:5432/x"),
            (
                "cannot reach postgres://ann:hunter2@db: refused",
                "cannot reach postgres://ann:•••@db: refused",
            ),
            ("redis://:hunter2@cache/0", "redis://:•••@cache/0"),
            ("url=\"amqp://a:p@ss@h\" n=1", "url=\"amqp://a:•••@h\" n=1"),
            ("a://b:c@d,e://f:g@h", "a://b:•••@d,e://f:•••@h"),
            ("bad port in postgres://u:pa/ss?w#rd@h/db", "bad port in postgres://u:•••@h/db"),
            ("https://h/x?api_key=k&n=1", "https://h/x?api_key=•••&n=1"),
            ("https://h/?to=http://u:p@h&token=t", "https://h/?to=http://u:•••@h&token=•••"),
            ("https://u:p@h/x?n=1&token=t#top", "https://u:•••@h/x?n=1&token=•••#top"),
        ] {
            assert_eq!(without_passwords(text), shown);
            assert_eq!(without_passwords(shown), shown, "masked twice is masked once");
            assert!(has_dots(shown), "{shown}");
        }
    }

    #[test]
    fn urls_without_passwords_stay_as_they_are() {
        for text in [
            "",
            "://",
            "https://h:8080/a@b?n=1",
            "https://ann@h/",
            "ssh://git@h:22/x",
            "http://[::1]:80/a@b",
            "http://u:@h",
            "12:30 by ann@x.org",
            "see https://h/?q=password and ask bob:carol@x",
            "é://é",
            "https://h/?password=",
        ] {
            assert!(matches!(without_passwords(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
