//! A small generator of pseudo-random numbers (splitmix64): the same seed gives the same run.

/// The generator's state.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Every seed is a good one.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A seed that differs from run to run; whoever uses it prints it.
    pub(crate) fn fresh_seed() -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |elapsed| u64::from(elapsed.subsec_nanos()) ^ (elapsed.as_secs() << 20))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize fits 64 bits");
        usize::try_from(self.next() % bound).expect("below a usize")
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}
