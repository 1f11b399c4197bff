//! Random messages from a seed, and the checks that each type of message must pass.

use std::fmt::Debug;

use crate::xdr::{Decode, Decoder, Encode, Encoder, decode_all};

/// A deterministic generator (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    /// Returns at most `limit` random bytes, which leak.
    pub(crate) fn bytes(&mut self, limit: usize) -> &'static [u8] {
        let length = self.below(limit + 1);
        let bytes: Vec<u8> = (0..length).map(|_| self.next().to_be_bytes()[0]).collect();
        bytes.leak()
    }
}

/// A type with random values.
pub(crate) trait Sample {
    fn sample(rng: &mut Rng) -> Self;
}

impl Sample for () {
    fn sample(_: &mut Rng) {}
}

impl Sample for u32 {
    fn sample(rng: &mut Rng) -> Self {
        let value = u32::try_from(rng.next() >> 32).unwrap();
        if rng.below(4) == 0 { value % 4 } else { value }
    }
}

impl Sample for u64 {
    fn sample(rng: &mut Rng) -> Self {
        rng.next()
    }
}

impl Sample for i32 {
    fn sample(rng: &mut Rng) -> Self {
        u32::sample(rng).cast_signed()
    }
}

impl Sample for i64 {
    fn sample(rng: &mut Rng) -> Self {
        u64::sample(rng).cast_signed()
    }
}

impl Sample for bool {
    fn sample(rng: &mut Rng) -> Self {
        rng.below(2) == 1
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(rng: &mut Rng) -> Self {
        std::array::from_fn(|_| rng.next().to_be_bytes()[0])
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(rng: &mut Rng) -> Self {
        bool::sample(rng).then(|| T::sample(rng))
    }
}

pub(crate) fn encode(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// Checks a type of message: an encoded message decodes to the same value; a truncated one is an error; whatever else
/// decodes, from damaged or random bytes, encodes to bytes that decode to the same value.
pub(crate) fn check<T>()
where
    T: Sample + Encode + Decode<'static> + PartialEq + Debug,
{
    check_seeds::<T>(0..40, |again, read| again == read);
}

/// The same for messages with bitmaps, which may have trailing zeros that are not encoded again.
pub(crate) fn check_shortened<T>(seeds: std::ops::Range<u64>)
where
    T: Sample + Encode + Decode<'static> + PartialEq + Debug,
{
    check_seeds::<T>(seeds, |again, read| again <= read);
}

fn check_seeds<T>(seeds: std::ops::Range<u64>, length_fits: fn(usize, usize) -> bool)
where
    T: Sample + Encode + Decode<'static> + PartialEq + Debug,
{
    for seed in seeds {
        println!("{} seed {seed}", std::any::type_name::<T>());
        let mut rng = Rng::new(seed);
        let value = T::sample(&mut rng);
        let bytes: &'static [u8] = encode(&value).leak();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(decode_all::<T>(bytes).as_ref(), Ok(&value));
        for cut in 0..bytes.len() {
            assert!(T::decode(&mut Decoder::new(&bytes[..cut])).is_err(), "cut at {cut} of {}", bytes.len());
        }
        for _ in 0..20 {
            let mut damaged = bytes.to_vec();
            for _ in 0..=rng.below(3) {
                if !damaged.is_empty() {
                    let at = rng.below(damaged.len());
                    damaged[at] = if rng.below(2) == 0 { 0xff } else { rng.next().to_be_bytes()[0] };
                }
            }
            read_anything::<T>(length_fits, damaged.leak());
        }
        read_anything::<T>(length_fits, rng.bytes(300));
        // Small numbers look like lengths, booleans and enumerations, and get further than noise.
        let words: Vec<u8> = (0..64).flat_map(|_| [0, 0, 0, rng.next().to_be_bytes()[0] % 9]).collect();
        read_anything::<T>(length_fits, words.leak());
    }
}

fn read_anything<T>(length_fits: fn(usize, usize) -> bool, bytes: &'static [u8])
where
    T: Encode + Decode<'static> + PartialEq + Debug,
{
    let mut input = Decoder::new(bytes);
    if let Ok(value) = T::decode(&mut input) {
        let again: &'static [u8] = encode(&value).leak();
        assert!(length_fits(again.len(), bytes.len() - input.rest().len()));
        assert_eq!(decode_all::<T>(again).as_ref(), Ok(&value));
    }
}
