//! Tags: words to find jobs by. A job has its own, or those that its manifest gave it when it was accepted.

use crate::{Name, manifest::BadField};

/// Most tags of a job or a manifest.
pub const TAGS_MAX: usize = 16;

/// Most bytes of all of them, with the spaces between.
pub const TAGS_BYTES_MAX: usize = 512;

/// Tags as they are stored: one text, with a space between. `None`: there are none.
pub fn text(tags: &[Name]) -> Option<String> {
    let words: Vec<&str> = tags.iter().map(Name::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Checks tags as they are stored.
pub fn check(text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split(' ').collect();
    if words.len() > TAGS_MAX || text.len() > TAGS_BYTES_MAX {
        return Err(format!("must have at most {TAGS_MAX} tags and {TAGS_BYTES_MAX} bytes"));
    }
    for word in words {
        Name::new(word).map_err(|bad| format!("tags must be names, separated by one space: {bad}"))?;
    }
    Ok(())
}

pub(crate) fn check_field(tags: &[Name]) -> Result<(), BadField> {
    text(tags).map_or(Ok(()), |text| check(&text)).map_err(|why| BadField::new("tags", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_names_with_a_space_between() {
        assert!(check("a b-c").is_ok());
        let (many, long) = (["x"; 17].join(" "), ["x".repeat(128).as_str(); 5].join(" "));
        for bad in ["", " a", "a ", "a  b", "A", "a,b", &many, &long] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        let name = |text: &str| Name::new(text).unwrap();
        assert_eq!(text(&[name("a"), name("b")]).as_deref(), Some("a b"));
        assert_eq!(text(&[]), None);
    }
}
