//! Texts of other programs and hosts, made fit to be printed.

/// Replaces the characters that a terminal would obey, and cuts the text after `chars_max` characters.
pub(crate) fn printable(text: &str, chars_max: usize) -> String {
    // Besides control characters: line separators, and marks that reorder text.
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().take(chars_max).map(|c| if is_harmful(c) { '?' } else { c }).collect()
}
