//! Random mutations of inputs; a seed always makes the same ones.

use sim::random::Random;

/// Numbers at the edges of common limits.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    1023,
    1024,
    1025,
    4095,
    4096,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffc,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// The maximum length of an input.
const BYTES_MAX: usize = 8192;

/// Mutates `input` in one to six places; parts of `other` may be inserted.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.index(6) {
        once(input, other, random);
    }
    input.truncate(BYTES_MAX);
}

fn once(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.index(input.len() + 1);
    match random.index(9) {
        0 => flip(input, at, random),
        1 => set_number::<4>(input, at / 4 * 4, random),
        2 => set_number::<8>(input, at / 4 * 4, random),
        3 => set_number::<4>(input, at, random),
        4 => input.truncate(at),
        5 => {
            let count = random.index(16);
            input.splice(at..at, (0..count).map(|_| u8::try_from(random.next() & 255).expect("one byte")));
        }
        6 => {
            let end = (at + random.index(32)).min(input.len());
            input.drain(at..end);
        }
        7 => {
            let from = random.index(other.len() + 1);
            let part = &other[from..(from + random.index(64)).min(other.len())];
            input.splice(at..at, part.iter().copied());
        }
        _ => {
            let from = random.index(input.len() + 1);
            let part = input[from..(from + random.index(64)).min(input.len())].to_vec();
            for (target, byte) in input.iter_mut().skip(at).zip(part) {
                *target = byte;
            }
        }
    }
}

fn flip(input: &mut [u8], at: usize, random: &mut Random) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.index(8);
    }
}

/// Overwrites the bytes at `at` with an edge, or a number next to one.
fn set_number<const N: usize>(input: &mut [u8], at: usize, random: &mut Random) {
    let near = u64::try_from(random.index(3)).expect("a small number");
    let number = EDGES[random.index(EDGES.len())].wrapping_add(near).wrapping_sub(1);
    let bytes = number.to_be_bytes();
    if let Some(target) = input.get_mut(at..at + N) {
        target.copy_from_slice(&bytes[8 - N..]);
    }
}
