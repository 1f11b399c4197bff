use super::*;
use crate::media::memory::{MemoryFile, Random};

const ID: [u8; 16] = *b"the-journal-here";
const LENGTH: usize = 64 << 10;

type Entries = Vec<(Seq, Vec<u8>)>;

fn new_ring(length: usize) -> (Arc<MemoryFile>, Anchor, Ring) {
    let file = MemoryFile::holding(vec![0xaa; length]);
    let anchor = Ring::format(&*file, ID).unwrap();
    let (ring, _) = open(&file, &anchor).unwrap();
    (file, anchor, ring)
}

fn open(file: &Arc<MemoryFile>, anchor: &Anchor) -> Result<(Ring, (Recovered, Entries)), RecoverError> {
    let mut entries = Vec::new();
    let (ring, recovered) =
        Ring::recover(Arc::clone(file) as Arc<dyn RandomFile>, anchor, &mut |seq, _, entry| {
            entries.push((seq, entry.to_vec()));
            Ok(())
        })?;
    Ok((ring, (recovered, entries)))
}

fn inspect(file: &MemoryFile, anchor: &Anchor) -> Result<(Recovered, Entries), RecoverError> {
    let mut entries = Vec::new();
    let recovered = Ring::inspect(file, anchor, &mut |_, seq, entry| {
        entries.push((seq, entry.to_vec()));
        Ok(())
    })?;
    Ok((recovered, entries))
}

/// Appends `entries` without a sync, recording that entries up to `durable` are durable.
fn append(
    ring: &mut Ring,
    generation: u32,
    durable: u64,
    entries: &[impl AsRef<[u8]>],
) -> Result<Seq, AppendError> {
    ring.append(&Batch {
        generation: Generation(generation),
        first_seq: Seq(ring.last_seq().0 + 1),
        entries,
        durable: Seq(durable),
        time_ceiling: Time::from_nanos(i64::from(generation) * 1000),
    })?;
    Ok(ring.last_seq())
}

/// Appends and syncs.
fn commit(ring: &mut Ring, generation: u32, entries: &[impl AsRef<[u8]>]) -> Result<Seq, AppendError> {
    let durable = ring.last_seq().0;
    let last = append(ring, generation, durable, entries)?;
    ring.sync().map_err(AppendError::Io)?;
    Ok(last)
}

/// Returns pseudo-random contents for the entry with this number.
fn numbered(seq: u64, bytes: usize) -> Vec<u8> {
    Random::new(seq).bytes(bytes)
}

#[test]
fn replay_returns_entries_in_order() {
    let (file, anchor, mut ring) = new_ring(LENGTH);
    commit(&mut ring, 1, &[b"one".to_vec(), Vec::new()]).unwrap();
    commit(&mut ring, 2, &[vec![7; 9000]]).unwrap();
    let (again, (recovered, entries)) = open(&file, &anchor).unwrap();
    assert_eq!(entries, [(Seq(1), b"one".to_vec()), (Seq(2), Vec::new()), (Seq(3), vec![7; 9000])]);
    assert_eq!(
        recovered,
        Recovered {
            last_seq: Seq(3),
            generation: Generation(2),
            time_ceiling: Time::from_nanos(2000),
            entries: 3,
            bytes: 9003,
            cut_bytes: 0
        }
    );
    assert_eq!(again.used_bytes(), 4 * BLOCK);
    let checkpoint = ring.anchor_at(Seq(3)).unwrap();
    assert_eq!(Anchor::from_bytes(&checkpoint.to_bytes()), Some(checkpoint));
    assert_eq!(ring.anchor_at(Seq(1)), None, "no batch ends there");
    let middle = ring.anchor_at(Seq(2)).unwrap();
    ring.trim(&middle);
    assert_eq!(ring.used_bytes(), 4 * BLOCK, "the anchor's batch is kept");
    ring.trim(&checkpoint);
    assert_eq!(ring.used_bytes(), 3 * BLOCK);
    let (_, (recovered, entries)) = open(&file, &checkpoint).unwrap();
    assert!(entries.is_empty());
    assert_eq!((recovered.last_seq, recovered.generation), (Seq(3), Generation(2)));
}

#[test]
fn a_full_ring_accepts_batches_once_trimmed() {
    let (file, mut anchor, mut ring) = new_ring(LENGTH);
    let mut kept = 0;
    let mut full = 0;
    for seq in 1..1000 {
        loop {
            match commit(&mut ring, 1, &[numbered(seq, 1000 + usize::try_from(seq % 7).unwrap() * 2000)]) {
                Ok(_) => break,
                Err(AppendError::Full) => {
                    full += 1;
                    kept = kept.max(ring.used_bytes());
                    anchor = ring.anchor_at(Seq(seq - 1 - seq % 2)).unwrap();
                    ring.trim(&anchor);
                }
                Err(AppendError::Io(error)) => panic!("{error}"),
            }
        }
        if seq % 50 == 0 {
            let (_, (_, entries)) = open(&file, &anchor).unwrap();
            let expected: Vec<u64> = (anchor.seq.0 + 1..=seq).collect();
            assert_eq!(entries.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), expected);
        }
    }
    assert!(full > 100 && kept > ring.capacity_bytes() / 2 && kept <= ring.capacity_bytes());
}

#[test]
fn the_largest_batch_fits_wherever_the_last_one_ended() {
    let (_, _, mut ring) = new_ring(LENGTH);
    let largest = usize::try_from(ring.largest_batch_bytes()).unwrap() - 4;
    for turn in 0..200 {
        let bytes = if turn % 2 == 0 { largest } else { turn * 50 };
        let last = commit(&mut ring, 1, &[vec![1; bytes]]).unwrap();
        let anchor = ring.anchor_at(last).unwrap();
        ring.trim(&anchor);
    }
    assert!(matches!(commit(&mut ring, 1, &[vec![1; largest + 1]]), Err(AppendError::Io(_))));
    commit(&mut ring, 1, &[[1]]).expect("the ring accepts batches after refusing one");
}

#[test]
fn every_tear_of_the_last_batch_is_cut() {
    let (file, anchor, mut ring) = new_ring(LENGTH);
    commit(&mut ring, 1, &[numbered(1, 5000)]).unwrap();
    commit(&mut ring, 1, &[numbered(2, 100)]).unwrap();
    let before = file.bytes();
    let start = usize::try_from(ring.head().end).unwrap();
    commit(&mut ring, 1, &[numbered(3, 6000)]).unwrap();
    let after = file.bytes();
    let sectors: Vec<usize> = (start..start + 8192).step_by(512).collect();
    for (n, cut) in sectors.iter().enumerate() {
        let kept: [&dyn Fn(usize) -> bool; 3] = [&|m| m < n, &|m| m == n, &|m| m != n];
        for keep in kept {
            let mut torn = before.clone();
            for (_, at) in sectors.iter().enumerate().filter(|(m, _)| keep(*m)) {
                torn[*at..at + 512].copy_from_slice(&after[*at..at + 512]);
            }
            let whole = torn == after;
            let file = MemoryFile::holding(torn);
            let (mut ring, (recovered, entries)) = open(&file, &anchor).unwrap();
            let last = if whole { 3 } else { 2 };
            assert_eq!(
                (recovered.last_seq, entries.len()),
                (Seq(last), usize::try_from(last).unwrap()),
                "{cut}"
            );
            // Entries that were cut stay cut after new ones are written in their place.
            commit(&mut ring, 2, &[b"new"]).unwrap();
            let (_, (recovered, entries)) = open(&file, &anchor).unwrap();
            assert_eq!(recovered.cut_bytes, 0);
            assert_eq!(entries.last().unwrap(), &(Seq(last + 1), b"new".to_vec()));
        }
    }
}

#[test]
fn damage_before_the_last_durable_entry_is_refused() {
    let (file, anchor, mut ring) = new_ring(LENGTH);
    for seq in 1..=4 {
        commit(&mut ring, 1, &[numbered(seq, 3000)]).unwrap();
    }
    for damaged in 1..=3_u64 {
        let broken = MemoryFile::holding(file.bytes());
        broken.flip(usize::try_from(damaged * BLOCK).unwrap() + 2000, 1);
        let error = open(&broken, &anchor).unwrap_err();
        let RecoverError::Damaged { seq, position, witness } = error else { panic!("{error}") };
        assert_eq!((seq, position), (Seq(damaged), damaged * BLOCK));
        assert!(witness > position);
        assert_eq!(inspect(&broken, &anchor).unwrap_err().to_string(), error.to_string());
    }
    // The first sector of a torn batch is enough to prove that its predecessor was durable.
    let broken = MemoryFile::holding(file.bytes());
    broken.flip(3 * 4096 + 2000, 1);
    broken.flip(4 * 4096 + 2000, 1);
    assert!(matches!(open(&broken, &anchor), Err(RecoverError::Damaged { seq: Seq(3), .. })));
}

#[test]
fn batches_written_without_a_sync_between_them_prove_nothing() {
    let (file, anchor, mut ring) = new_ring(LENGTH);
    commit(&mut ring, 1, &[numbered(1, 100)]).unwrap();
    append(&mut ring, 1, 1, &[numbered(2, 100)]).unwrap();
    append(&mut ring, 1, 1, &[numbered(3, 100)]).unwrap();
    append(&mut ring, 1, 1, &[numbered(4, 100)]).unwrap();
    let mut image = file.bytes();
    image[2 * 4096..3 * 4096].fill(0);
    let torn = MemoryFile::holding(image);
    let (mut ring, (recovered, _)) = open(&torn, &anchor).unwrap();
    assert_eq!((recovered.last_seq, recovered.cut_bytes), (Seq(1), 2 * BLOCK));
    // A new batch with the sequence of the lost one must not bring its old successors back.
    commit(&mut ring, 2, &[numbered(2, 100)]).unwrap();
    let (_, (recovered, _)) = open(&torn, &anchor).unwrap();
    assert_eq!((recovered.last_seq, recovered.cut_bytes), (Seq(2), 0), "the old successors are gone");
}

#[test]
fn a_journal_that_does_not_belong_to_the_index_is_refused() {
    let (file, fresh, mut ring) = new_ring(LENGTH);
    let old_copy = file.bytes();
    for seq in 1..=40 {
        let last = commit(&mut ring, 1, &[numbered(seq, 3000)]).unwrap();
        let anchor = ring.anchor_at(last).unwrap();
        ring.trim(&anchor);
    }
    let anchor = ring.anchor_at(Seq(40)).unwrap();
    open(&file, &anchor).unwrap();
    let stale = MemoryFile::holding(old_copy);
    assert!(matches!(open(&stale, &anchor), Err(RecoverError::Stale { seq: Seq(40), .. })));
    let old_index = open(&file, &fresh).unwrap_err();
    assert!(matches!(old_index, RecoverError::IndexStale { seq: Seq(0), covered: Seq(39) }), "{old_index}");
    let other = Anchor { journal: [1; 16], ..anchor };
    assert!(matches!(open(&file, &other), Err(RecoverError::Foreign)));
    let grown = MemoryFile::holding([file.bytes(), vec![0; 4096]].concat());
    assert!(matches!(open(&grown, &anchor), Err(RecoverError::Foreign)));
    let empty = MemoryFile::holding(vec![0; LENGTH]);
    assert!(matches!(open(&empty, &anchor), Err(RecoverError::Missing(_))));
    let short = MemoryFile::holding(Vec::new());
    assert!(matches!(open(&short, &anchor), Err(RecoverError::Io(_))));
}

#[test]
fn a_batch_image_inside_an_entry_is_not_replayed() {
    let (file, _, mut ring) = new_ring(LENGTH);
    commit(&mut ring, 1, &[numbered(1, 100)]).unwrap();
    commit(&mut ring, 1, &[numbered(2, 100)]).unwrap();
    commit(&mut ring, 1, &[numbered(3, 100)]).unwrap();
    let image = file.bytes();
    let (file, anchor, mut ring) = new_ring(LENGTH);
    // The copy of the third batch starts at a block boundary.
    let mut entry = vec![0; 4096 - format::HEADER_BYTES - 4];
    entry.extend_from_slice(&image[3 * 4096..4 * 4096]);
    append(&mut ring, 1, 0, &[entry]).unwrap();
    ring.sync().unwrap();
    file.flip(4096, 1);
    let (_, (recovered, _)) = open(&file, &anchor).unwrap();
    assert_eq!((recovered.last_seq, recovered.cut_bytes), (Seq(0), 0));
}

#[test]
fn no_flipped_bit_changes_replayed_entries() {
    let (file, _, mut ring) = new_ring(LENGTH);
    let mut written = Vec::new();
    let mut anchor = ring.anchor_at(Seq(0)).unwrap();
    for seq in 1..=30 {
        let entries = [numbered(seq * 2 - 1, 50), numbered(seq * 2, 150)];
        written.extend((seq * 2 - 1..).map(Seq).zip(entries.clone()));
        let last = commit(&mut ring, 1, &entries).unwrap();
        if seq == 22 {
            anchor = ring.anchor_at(last).unwrap();
        }
        if seq < 22 {
            let covered = ring.anchor_at(last).unwrap();
            ring.trim(&covered);
        }
    }
    let expected: Entries = written.split_off(44);
    assert_eq!(inspect(&file, &anchor).unwrap().1, expected);
    let last_batch = ring.head().start..ring.head().end;
    let mut refused = 0;
    // All written bytes, and a sample of the padding.
    for at in (0..LENGTH).filter(|at| at % 4096 < 320 || at % 64 == 0) {
        let bit = 1 << (at % 8);
        file.flip(at, bit);
        match inspect(&file, &anchor) {
            Ok((_, entries)) if entries == expected => {}
            Ok((_, entries)) => {
                assert_eq!(entries, expected[..expected.len() - 2], "byte {at}");
                assert!(last_batch.contains(&(at as u64)), "byte {at}");
            }
            Err(_) => refused += 1,
        }
        file.flip(at, bit);
    }
    assert!(refused > 7 * 288, "{refused}");
}

#[test]
fn a_failed_ring_accepts_nothing_more() {
    let (file, anchor, mut ring) = new_ring(LENGTH);
    commit(&mut ring, 1, &[b"kept"]).unwrap();
    append(&mut ring, 1, 1, &[b"lost"]).unwrap();
    file.fail_from(Some(file.steps()));
    ring.sync().unwrap_err();
    file.fail_from(None);
    ring.sync().unwrap_err();
    assert!(matches!(append(&mut ring, 1, 1, &[b"more"]), Err(AppendError::Io(_))));
    let (mut ring, _) = open(&file, &anchor).unwrap();
    file.fail_from(Some(file.steps()));
    assert!(matches!(append(&mut ring, 2, 2, &[b"failed"]), Err(AppendError::Io(_))));
    file.fail_from(None);
    ring.sync().unwrap_err();
    file.fail_from(Some(file.steps()));
    assert!(matches!(open(&file, &anchor), Err(RecoverError::Io(_))));
}

#[test]
fn an_entry_that_the_engine_refuses_stops_replay() {
    let (file, anchor, mut ring) = new_ring(LENGTH);
    commit(&mut ring, 1, &[b"a", b"b"]).unwrap();
    let error = Ring::recover(file, &anchor, &mut |seq, _, _| {
        if seq == Seq(2) { Err("because".into()) } else { Ok(()) }
    });
    assert!(matches!(error, Err(RecoverError::Refused { seq: Seq(2), .. })));
}

#[test]
fn random_crashes_lose_nothing_that_was_synced() {
    let seeds = std::env::var("JOURNAL_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seeds.map_or(0..300, |seed: u64| seed..seed + 1) {
        println!("JOURNAL_SEED={seed}");
        random_crashes(seed);
    }
}

/// Appends, syncs, trims and crashes at random, also during recovery.
fn random_crashes(seed: u64) {
    let random = &mut Random::new(seed);
    let (mut file, mut anchor, mut ring) =
        new_ring(LENGTH + 4096 * usize::try_from(random.below(20)).unwrap());
    let mut model: Entries = Vec::new();
    for generation in 1..=12 {
        let mut durable = ring.last_seq();
        for _ in 0..random.below(40) {
            let count = random.below(4) + 1;
            let entries: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let bytes = if random.below(5) == 0 { 4500 } else { 300 };
                    let bytes = usize::try_from(random.below(bytes)).unwrap();
                    random.bytes(bytes)
                })
                .collect();
            let first = ring.last_seq().0 + 1;
            match append(&mut ring, generation, durable.0, &entries) {
                Ok(_) => model.extend((first..).map(Seq).zip(entries)),
                Err(AppendError::Full) => {
                    ring.sync().unwrap();
                    durable = ring.last_seq();
                }
                Err(AppendError::Io(error)) => panic!("{error}"),
            }
            if random.below(3) > 0 {
                ring.sync().unwrap();
                durable = ring.last_seq();
            }
            // The engine trims at any rate; only a durable batch may become the anchor.
            let due = random.below(8) == 0 || ring.used_bytes() > ring.capacity_bytes() / 2;
            if let (true, Some(newer)) = (due, ring.anchor_at(durable)) {
                anchor = newer;
                ring.trim(&anchor);
            }
        }
        // Sometimes only the process dies: its unsynced writes are visible, and a later power loss may drop them.
        if random.below(3) > 0 {
            file = file.after_power_loss(random);
        }
        // Recovery itself may crash repeatedly.
        while random.below(2) == 0 {
            file.fail_from(Some(file.steps() + random.below(4)));
            let result = open(&file, &anchor);
            assert!(matches!(result, Ok(_) | Err(RecoverError::Io(_))), "{result:?}");
            file = file.after_power_loss(random);
        }
        let (_, (recovered, entries)) = open(&file, &anchor).unwrap_or_else(|error| panic!("{error}"));
        assert!(recovered.last_seq >= durable, "lost {} of {durable}", recovered.last_seq);
        model.truncate(usize::try_from(recovered.last_seq.0).unwrap());
        assert_eq!(entries, model[usize::try_from(anchor.seq.0).unwrap()..]);
        // Recovered entries are durable.
        file = file.after_power_loss(random);
        let (again, (_, same)) = open(&file, &anchor).unwrap();
        assert_eq!(same, entries);
        ring = again;
    }
}
