//! Keys, from the bytes that a terminal sends for them.

/// A key that has a meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    /// Control-C.
    Interrupt,
}

/// Decodes the bytes of one read. Ignores bytes without a meaning here, and the sequences of other keys.
pub(super) fn decode(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let (mut keys, mut chars) = (Vec::new(), text.chars().peekable());
    while let Some(char) = chars.next() {
        let key = match char {
            '\r' | '\n' => Key::Enter,
            '\x03' => Key::Interrupt,
            '\x08' | '\x7f' => Key::Backspace,
            // The key itself, or a sequence: ESC, `[` or `O`, parameters, a letter or `~` (ECMA-48 section 5.4).
            '\x1b' => match chars.next_if(|next| matches!(next, '[' | 'O')) {
                None => Key::Escape,
                Some(_) => match chars.find(|next| ('\x40'..='\x7e').contains(next)) {
                    Some('A') => Key::Up,
                    Some('B') => Key::Down,
                    _ => continue,
                },
            },
            char if char.is_control() || char == char::REPLACEMENT_CHARACTER => continue,
            char => Key::Char(char),
        };
        keys.push(key);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_sequences() {
        assert_eq!(decode(b"q"), [Key::Char('q')]);
        assert_eq!(decode(b"\x1b[A\x1bOB\x1b[5~x"), [Key::Up, Key::Down, Key::Char('x')]);
        assert_eq!(decode(b"\x1b"), [Key::Escape]);
        assert_eq!(decode(b"\x03\x7f\r"), [Key::Interrupt, Key::Backspace, Key::Enter]);
        assert_eq!(decode("\u{e9}\x01\u{1b}[".as_bytes()), [Key::Char('\u{e9}')]);
        assert_eq!(decode(b"\xff\xfe"), []);
    }
}
