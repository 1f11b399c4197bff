//! Decimal numbers without allocation.

use wire::xdr::{Block, padding};

/// Digits of the largest 32-bit number.
const DIGITS_MAX: usize = 10;
/// Bytes of the longest string with its padding.
const STRING_BYTES_MAX: usize = DIGITS_MAX + padding(DIGITS_MAX);
/// Bytes of the longest encoded number: the length of the string, and the string.
pub(super) const ENCODED_BYTES_MAX: usize = 4 + STRING_BYTES_MAX;

/// A number that is sent as a string of its decimal digits, as owners and groups are (RFC 8881 section 5.9).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal(pub(crate) u32);

impl Decimal {
    /// Writes the string.
    #[inline]
    pub(crate) fn put(self, fields: &mut Block<'_>) {
        let count = self.0.checked_ilog10().map_or(1, |power| power + 1);
        let digits = count as usize;
        let mut string = [0; STRING_BYTES_MAX];
        let mut rest = self.0;
        for digit in string.iter_mut().take(digits).rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
        }
        fields.u32(count);
        fields.put_start(string, digits + padding(digits));
    }
}

#[cfg(test)]
mod tests {
    use wire::xdr::Encoder;

    use super::*;

    #[test]
    fn numbers_are_strings_of_digits() {
        let powers = (0..10).map(|power| 10u32.pow(power)).flat_map(|power| [power - 1, power]);
        for number in powers.chain([7, 65534, u32::MAX]) {
            let (mut encoded, mut expected) = (vec![0x5a], vec![0x5a]);
            Encoder::new(&mut encoded).fields::<ENCODED_BYTES_MAX>(|fields| Decimal(number).put(fields));
            Encoder::new(&mut expected).opaque(number.to_string().as_bytes());
            assert_eq!(encoded, expected, "{number}");
        }
    }
}
