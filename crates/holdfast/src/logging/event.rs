//! An event as text: its message and its fields, bounded and not yet escaped.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};

/// Bytes of the text of one message or field; the longest path that MNT takes has 1024.
const TEXT_BYTES_MAX: usize = 512;

/// The value of a field.
#[derive(Debug, Hash, PartialEq, Eq)]
pub(super) enum Value {
    /// Text from anywhere.
    Text(String),
    /// A number or a boolean, which looks the same in every format.
    Literal(String),
}

/// What an event, or a span, says.
#[derive(Debug, Default, Hash)]
pub(super) struct Fields {
    pub(super) message: String,
    /// The other fields, in their order.
    pub(super) named: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Returns the text of a field.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.named.iter().find_map(|(field, value)| match value {
            Value::Text(text) if *field == name => Some(&text[..]),
            _ => None,
        })
    }

    fn literal(&mut self, field: &Field, value: impl fmt::Display) {
        self.named.push((field.name(), Value::Literal(value.to_string())));
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    /// Records all other values: `tracing` passes what is to be displayed as if it were to be debugged.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = bounded(value);
        match field.name() {
            "message" => self.message = text,
            name => self.named.push((name, Value::Text(text))),
        }
    }
}

/// Returns the beginning of a text, and how many bytes follow.
fn bounded(value: &dyn fmt::Debug) -> String {
    let mut begun = Beginning::default();
    // Only the formatting of the value itself could fail; what it wrote until then is shown.
    let _ = write!(begun, "{value:?}");
    let Beginning { mut text, dropped } = begun;
    if dropped > 0 {
        let _ = write!(text, "... ({dropped} more bytes)");
    }
    text
}

/// Takes [`TEXT_BYTES_MAX`] bytes, and counts the rest.
#[derive(Default)]
struct Beginning {
    text: String,
    dropped: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = if self.dropped > 0 { 0 } else { TEXT_BYTES_MAX - self.text.len() };
        let taken = (0..=room.min(more.len())).rev().find(|end| more.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&more[..taken]);
        self.dropped += more.len() - taken;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = "ä".repeat(400);
        assert_eq!(bounded(&format_args!("{text}")), format!("{}... (288 more bytes)", "ä".repeat(256)));
        assert_eq!(bounded(&format_args!("a{text}")), format!("a{}... (290 more bytes)", "ä".repeat(255)));
        let exactly = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(bounded(&format_args!("{exactly}")), exactly);
        // What comes in pieces is cut once, even if a later piece would fit.
        assert_eq!(bounded(&format_args!("{exactly}{}{}", "ä", "x")), format!("{exactly}... (3 more bytes)"));
    }
}
