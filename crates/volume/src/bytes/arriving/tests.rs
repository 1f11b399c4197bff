use super::*;
use crate::media::memory::Random;

fn length(random: &mut Random) -> usize {
    let max = [10, 5_000, 70_000, 300_000, 1 << 20][usize::try_from(random.below(5)).unwrap()];
    usize::try_from(random.below(max + 1)).unwrap()
}

fn offset(random: &mut Random) -> u64 {
    random.below(3) * EXTENT_BYTES_MAX as u64 + random.below(2) * random.below(EXTENT_BYTES_MAX as u64)
}

/// Lets `data` arrive in random parts, by both ways.
fn arrive(random: &mut Random, pool: &Arc<Pool>, offset: u64, data: &[u8]) -> Received {
    let mut arriving = Arriving::new(pool, offset, data.len());
    assert_eq!(arriving.memory_bytes(), 0);
    let mut rest = data;
    while !rest.is_empty() {
        assert_eq!(arriving.missing(), rest.len());
        let most = usize::try_from(1 + random.below(300_000)).unwrap();
        if random.below(3) == 0 {
            let (now, later) = rest.split_at(most.min(rest.len()));
            arriving.take(now);
            rest = later;
            continue;
        }
        let mut count = 0;
        let mut spaces = arriving.spaces(most);
        let offered: usize = spaces.iter().map(|space| space.len()).sum();
        assert!((1..most + EXTENT_BYTES_MAX).contains(&offered) && offered <= rest.len());
        let wanted = most.min(offered);
        for space in &mut spaces {
            let here = space.len().min(wanted - count);
            space[..here].copy_from_slice(&rest[count..count + here]);
            // What lies behind is arbitrary.
            space[here..].fill(0xaa);
            count += here;
        }
        arriving.received(count);
        rest = &rest[count..];
        let pieces = arriving.memory_bytes() / EXTENT_BYTES_MAX;
        assert!(pieces * EXTENT_BYTES_MAX <= data.len() - rest.len() + most + 3 * EXTENT_BYTES_MAX);
    }
    assert!(arriving.spaces(1).is_empty());
    arriving.finish()
}

fn pieces(data: WriteData<'_>, pool: &Arc<Pool>, offset: u64) -> Vec<(u64, Bytes)> {
    let mut pieces = Vec::new();
    data.for_each_piece(pool, offset, |at, piece| pieces.push((at, piece)));
    pieces
}

fn check_pieces(pieces: &[(u64, Bytes)], offset: u64, data: &[u8]) {
    let mut rest = data;
    for (at, piece) in pieces {
        assert_eq!(*at, offset + (data.len() - rest.len()) as u64);
        assert_eq!(at / EXTENT_BYTES_MAX as u64, (at + piece.len() as u64 - 1) / EXTENT_BYTES_MAX as u64);
        assert_eq!(**piece, rest[..piece.len()]);
        rest = &rest[piece.len()..];
        let checksums: Vec<u32> = match is_checksummed(data.len()) {
            true => piece.chunks(BLOCK).map(crc32c::crc32c).collect(),
            false => Vec::new(),
        };
        assert_eq!(piece.checksums(), checksums);
    }
    assert!(rest.is_empty());
}

#[test]
fn data_arrives_in_any_parts_and_is_cut_and_checksummed_as_if_it_were_copied() {
    let pool = Arc::new(Pool::default());
    for seed in 0..150 {
        println!("seed {seed}");
        let random = &mut Random::new(seed);
        let (length, offset) = (length(random), offset(random));
        let data = random.bytes(length);
        let received = arrive(random, &pool, offset, &data);
        assert_eq!((received.len(), received.is_empty()), (length, length == 0));
        assert_eq!(received.slices().collect::<Vec<_>>().concat(), data);
        assert_eq!(*WriteData::from(&received).contiguous(), data);
        for data_of in [WriteData::from(&data), WriteData::from(&received.clone())] {
            check_pieces(&pieces(data_of, &pool, offset), offset, &data);
        }
        let other = offset + random.below(100_000);
        check_pieces(&pieces(WriteData::from(&received), &pool, other), other, &data);
    }
}

#[test]
fn received_data_is_shared_and_what_does_not_arrive_gives_its_memory_back() {
    let pool = Arc::new(Pool::default());
    let mut arriving = Arriving::new(&pool, 0, 2 * EXTENT_BYTES_MAX);
    arriving.take(&[1; EXTENT_BYTES_MAX]);
    assert_eq!(arriving.spaces(1).len(), 1);
    arriving.received(5);
    drop(arriving);
    assert_eq!(pool.unused(), 2);
    let random = &mut Random::new(1);
    let data = random.bytes(2 * EXTENT_BYTES_MAX);
    let received = arrive(random, &pool, 0, &data);
    assert_eq!(pool.unused(), 0);
    let again = received.clone();
    let first = pieces(WriteData::from(&received), &pool, 0);
    let second = pieces(WriteData::from(&again), &pool, 0);
    assert_eq!(first[1].1.as_ptr(), second[1].1.as_ptr(), "the bytes are not copied");
    drop((received, again, first));
    assert_eq!(pool.unused(), 0, "somebody still has them");
    drop(second);
    assert_eq!(pool.unused(), 2);
}

#[test]
#[should_panic(expected = "all bytes have been received")]
fn data_is_not_finished_before_all_of_it_arrived() {
    let mut arriving = Arriving::new(&Arc::new(Pool::default()), 0, 10);
    arriving.take(&[1; 9]);
    let _ = arriving.finish();
}

#[test]
fn large_buffers_are_aligned_for_direct_io() {
    let pool = Arc::new(Pool::default());
    for offset in [0, 64 << 10, 1000] {
        for (_, piece) in pieces(WriteData::from(&vec![1; 256 << 10]), &pool, offset) {
            assert!(piece.len() < 50_000 || piece.as_ptr().addr().is_multiple_of(BLOCK), "{}", piece.len());
        }
    }
}
