//! Numbers of things in sentences.

/// Writes a number of things: `1 object`, `2 objects`, `2 entries`. A final `y` must follow a consonant.
#[must_use]
pub fn count(number: u64, thing: &str) -> String {
    match thing.strip_suffix('y') {
        _ if number == 1 => format!("1 {thing}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(|number| count(number, "object")), ["0 objects", "1 object", "2 objects"]);
        assert_eq!([1, 5].map(|number| count(number, "more entry")), ["1 more entry", "5 more entries"]);
    }
}
