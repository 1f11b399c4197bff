//! Texts of other programs and hosts, made fit to be printed; sizes and counts.

/// Replaces the characters that a terminal would obey, and cuts the text after `chars_max` characters.
pub(crate) fn printable(text: &str, chars_max: usize) -> String {
    // Besides control characters: line separators, and marks that reorder text.
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().take(chars_max).map(|c| if is_harmful(c) { '?' } else { c }).collect()
}

/// Formats the size of a block or file in binary units: `4 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{} {unit}", count(bytes / size)),
        None => format!("{} B", count(bytes)),
    }
}

/// Formats a size of a few digits, rounded up.
pub(crate) fn rounded_size(bytes: u64) -> String {
    let unit =
        [40, 30, 20, 10].into_iter().find(|shift| bytes >> shift >= 8).map_or(1, |shift| 1u64 << shift);
    size(bytes.div_ceil(unit).saturating_mul(unit))
}

/// Formats a whole number with separators: `581,734`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
