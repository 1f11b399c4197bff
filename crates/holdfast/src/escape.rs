//! Text in the log, and in what commands print. Clients choose paths and names, so text is never trusted: whatever could end
//! a line, steer a terminal or look like another field is escaped. Characters that Unicode counts as printable stay readable.

use std::fmt::Write as _;

/// Appends a line: as it is, but without line breaks and with printable characters only.
pub(crate) fn line(text: &str, out: &mut String) {
    for char in text.chars() {
        if is_printable(char) { out.push(char) } else { out.extend(char.escape_debug()) }
    }
}

/// Appends the value of a field of the human format: as it is if it looks like one word, else in quotes.
pub(crate) fn value(text: &str, out: &mut String) {
    let is_of_word = |char: char| char.is_ascii_graphic() && !matches!(char, '"' | '\\' | '=');
    if !text.is_empty() && text.chars().all(is_of_word) {
        out.push_str(text);
    } else {
        let _ = write!(out, "{text:?}");
    }
}

/// Appends a string of JSON.
pub(crate) fn json(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            _ if is_printable(char) => out.push(char),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// Whether a character is neither a control character nor invisible, nor changes how its neighbours are shown.
fn is_printable(char: char) -> bool {
    matches!(char, '"' | '\'' | '\\') || char.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that would forge a line, clear the screen, in two ways, turn the direction of text, or hide.
    const HOSTILE: &str =
        "a\nERROR b\r\u{1b}[2J\u{9b}2J\u{202e}c\u{2066}\u{200b}\u{feff}\u{2028}\u{7f}\0\u{e0041}";

    fn written(write: fn(&str, &mut String), text: &str) -> String {
        let mut out = String::new();
        write(text, &mut out);
        out
    }

    #[test]
    fn no_format_contains_unprintable_characters() {
        for write in [line, value, json] {
            let out = written(write, HOSTILE);
            assert!(out.chars().all(|char| char.is_ascii_graphic() || char == ' '), "{out:?}");
        }
    }

    #[test]
    fn printable_text_stays_readable() {
        assert_eq!(
            written(line, "run `holdfast \"check\"`: größe 漢字"),
            "run `holdfast \"check\"`: größe 漢字"
        );
        assert_eq!(written(value, "/srv/data-1"), "/srv/data-1");
        assert_eq!(written(value, "größe"), "\"größe\"");
        assert_eq!(written(json, "a \"größe\" \\"), r#""a \"größe\" \\""#);
    }

    #[test]
    fn a_value_cannot_look_like_another_field() {
        assert_eq!(written(value, "/a client=192.0.2.1"), "\"/a client=192.0.2.1\"");
        assert_eq!(written(value, "/a\" client=b"), r#""/a\" client=b""#);
        assert_eq!(written(value, "a=b"), "\"a=b\"");
        assert_eq!(written(value, "\\"), r#""\\""#);
        assert_eq!(written(value, ""), "\"\"");
    }

    #[test]
    fn json_strings_keep_their_value() {
        for text in [HOSTILE, "plain", "größe", "\u{1f980}\u{e0041}\u{301}"] {
            let read: String = serde_json::from_str(&written(json, text)).unwrap();
            assert_eq!(read, text);
        }
    }
}
