//! Names in sentences: a few of however many there are, and the one that was probably meant.

/// Most names that an error lists.
pub(crate) const LISTED_MAX: usize = 10;

/// Lists names, separated by commas: the first `most`, and how many more there are.
#[must_use]
pub fn list<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Says which names there are in place of `wanted`, the one that was probably meant first: `, only a, b`. Says nothing if there
/// are none.
pub(crate) fn others<S: AsRef<str>>(names: &[S], wanted: &str) -> String {
    let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    if let Some(close) = closest(&names, wanted) {
        names.retain(|name| *name != close);
        names.insert(0, close);
    }
    if names.is_empty() { String::new() } else { format!(", only {}", list(&names, LISTED_MAX)) }
}

/// Returns the word of `known` that `word` probably is, if it is a few letters away from one.
pub(crate) fn closest<'k>(known: &[&'k str], word: &str) -> Option<&'k str> {
    let word = word.to_lowercase();
    let is_beginning = |known: &str| {
        known.len().min(word.len()) >= 3 && (known.starts_with(&*word) || word.starts_with(known))
    };
    let best = known.iter().min_by_key(|known| (!is_beginning(known), distance(known, &word)))?;
    let errors_max = (best.len() / 3).clamp(1, 3);
    (is_beginning(best) || distance(best, &word) <= errors_max).then_some(*best)
}

/// Returns how many letters must be inserted, removed or replaced to turn `a` into `b` (Levenshtein's distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }

    #[test]
    fn few_names_are_listed_the_closest_first() {
        assert_eq!(others::<&str>(&[], "a"), "");
        assert_eq!(others(&["main", "build", "home"], "hom"), ", only home, build, main");
        let many: Vec<String> = (0..1003).map(|number| format!("volume-{number:04}")).collect();
        let said = others(&many, "volum-0999");
        assert!(
            said.starts_with(", only volume-0999, volume-0000, ") && said.ends_with(" and 993 more"),
            "{said}"
        );
        assert_eq!(list(&many[..3], 2), "volume-0000, volume-0001 and 1 more");
    }
}
