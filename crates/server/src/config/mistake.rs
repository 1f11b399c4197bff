//! Mistakes in a configuration file, shown with the lines that they are in.

use std::fmt::Write as _;
use std::ops::Range;

/// The longest line that is shown, in characters.
const LINE_CHARS_MAX: usize = 200;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Where it is, in bytes of the file.
    pub(crate) span: Range<usize>,
    /// What is wrong and what to write instead.
    pub(crate) sentence: String,
}

/// Shows mistakes in the order of the file, as compilers do: `NAME:LINE:COLUMN: SENTENCE`, the line, and a mark beneath it.
pub(crate) fn show(name: &str, text: &str, mistakes: &[Mistake]) -> String {
    let mut sorted: Vec<&Mistake> = mistakes.iter().collect();
    sorted.sort_by_key(|mistake| mistake.span.start);
    sorted.iter().map(|mistake| show_one(name, text, mistake)).collect::<Vec<_>>().join("\n")
}

fn show_one(name: &str, text: &str, mistake: &Mistake) -> String {
    let start = boundary(text, mistake.span.start);
    let before = &text[..start];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let number = before.matches('\n').count() + 1;
    let indent = text[line_start..start].chars().count();
    let mut shown = format!("{name}:{number}:{}: {}", indent + 1, mistake.sentence);
    let line = text[line_start..].lines().next().unwrap_or_default();
    if line.is_empty() || line.chars().count() > LINE_CHARS_MAX {
        return shown;
    }
    // Each character takes one column; a terminal must not interpret any.
    let plain: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = boundary(text, mistake.span.end.min(line_start + line.len()).max(start));
    let width = text[start..end].chars().count().max(1);
    let gutter = number.to_string();
    let blank = " ".repeat(gutter.len());
    write!(shown, "\n{blank} |\n{gutter} | {plain}\n{blank} | {}{}", " ".repeat(indent), "^".repeat(width))
        .expect("a String takes any text");
    shown
}

/// Returns the place of the last character of `text` that begins at `offset` or before, or the end of `text`.
pub(crate) fn boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_shown_with_their_lines() {
        let text = "a = 1\n\u{e9}\t= [\"b\"]\r\n";
        let at = text.find("[\"b").unwrap();
        let second = Mistake { span: at..at + 5, sentence: "wrong".to_owned() };
        let first = Mistake { span: 0..1, sentence: "unknown".to_owned() };
        let last = Mistake { span: text.len()..text.len() + 9, sentence: "more".to_owned() };
        assert_eq!(
            show("f", text, &[second, first, last]),
            "f:1:1: unknown\n  |\n1 | a = 1\n  | ^\n\
             f:2:5: wrong\n  |\n2 | \u{e9} = [\"b\"]\n  |     ^^^^^\n\
             f:3:1: more"
        );
    }
}
