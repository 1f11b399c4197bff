//! Decimal numbers without allocation.

/// Digits of the largest 32-bit number.
const DIGITS_MAX: usize = 10;

/// A number in decimal digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal {
    digits: [u8; DIGITS_MAX],
    first: usize,
}

impl Decimal {
    /// Formats `number`.
    pub(crate) fn new(number: u32) -> Decimal {
        let (mut digits, mut first, mut rest) = ([b'0'; DIGITS_MAX], DIGITS_MAX, number);
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
            first = at;
            if rest == 0 {
                break;
            }
        }
        Decimal { digits, first }
    }

    /// Returns the digits.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.first..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_format_as_decimal() {
        for number in [0, 7, 10, 1000, 65534, u32::MAX] {
            assert_eq!(Decimal::new(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
