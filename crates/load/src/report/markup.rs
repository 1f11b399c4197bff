//! Text inside HTML and SVG. All text of a report passes through [`escape`].

/// Escapes text for the content of an element or a quoted attribute. Characters that markup cannot contain become
/// `\u{FFFD}`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            // These marks reverse the direction of text and could make a figure read as another one.
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

/// Formats a coordinate to hundredths.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_contain_markup() {
        assert_eq!(escape("<a href='x'>\"&\""), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;");
        assert_eq!(escape("a\0b\u{7}c\u{202E}d"), "a\u{FFFD}b\u{FFFD}c\u{FFFD}d");
        assert_eq!(escape("µs – 4 KiB ×"), "µs – 4 KiB ×");
    }

    #[test]
    fn coordinates_are_numbers() {
        assert_eq!(coordinate(12.0), "12");
        assert_eq!(coordinate(12.34), "12.3");
        assert_eq!(coordinate(f64::NAN), "0");
    }
}
