//! Sizes with units: `4 GiB`, `256MiB`, `1048576`.

use std::fmt;
use std::str::FromStr;

use volume::count;

/// Units, the largest first, so that the first that fits is displayed.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = UNITS.iter().find(|(unit, bytes)| unit.contains('i') && self.0 >= *bytes);
        match binary {
            Some((unit, bytes)) if self.0.is_multiple_of(*bytes) => write!(f, "{} {unit}", self.0 / bytes),
            Some((unit, bytes)) => {
                let tenths = u128::from(self.0) * 10 / u128::from(*bytes);
                write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
            None => f.write_str(&count(self.0, "byte")),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("{text:?} is not a size: {}", advice(text));
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim();
        let factor = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() || unit == "B" => 1,
            None => return Err(wrong()),
        };
        number.checked_mul(factor).map(Size).ok_or_else(wrong)
    }
}

/// Says what to write instead of `text`.
fn advice(text: &str) -> String {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let letter = unit.trim().trim_end_matches(['i', 'I']);
    match UNITS.iter().find(|(name, _)| name.contains('i') && name[..1].eq_ignore_ascii_case(letter)) {
        Some((unit, _)) if !number.is_empty() => format!("write \"{number} {unit}\""),
        _ => "write a whole number and a unit, such as \"4 GiB\" or \"512 MiB\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        let cases = [
            ("4 GiB", 4 << 30, "4 GiB"),
            ("256MiB", 256 << 20, "256 MiB"),
            (" 1048576 ", 1 << 20, "1 MiB"),
            ("10 MB", 10_000_000, "9.5 MiB"),
            ("7", 7, "7 bytes"),
            ("1", 1, "1 byte"),
            ("2 tib", 2 << 40, "2 TiB"),
        ];
        for (text, bytes, shown) in cases {
            let size: Size = text.parse().unwrap();
            assert_eq!(size, Size(bytes), "{text}");
            assert_eq!(size.to_string(), shown);
        }
        let advised =
            [("4G", "write \"4 GiB\""), ("512 mi", "write \"512 MiB\""), ("much", "such as \"4 GiB\"")];
        for (text, advice) in advised {
            let said = text.parse::<Size>().unwrap_err();
            assert!(said.contains(advice), "{said}");
        }
        for text in ["", "GiB", "4 Gi", "-1", "1.5 GiB", "99999999999 TiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
