use super::*;

fn random_record(random: &mut fastrand::Rng) -> LeaseRecord {
    let name = |random: &mut fastrand::Rng| {
        let length = random.usize(1..=NAME_BYTES_MAX);
        Name::new(&(0..length).map(|_| random.alphanumeric()).collect::<String>()).unwrap()
    };
    let length = random.usize(0..=ADDRESSES_BYTES_MAX);
    let addresses: String = (0..length).map(|_| random.char(' '..='~')).collect();
    let state = match random.u8(0..3) {
        0 => LeaseState::Held,
        1 => LeaseState::Released,
        _ => LeaseState::OfferedTo(name(random)),
    };
    LeaseRecord {
        epoch: Epoch(random.u32(0..u32::MAX)),
        counter: random.u64(..),
        owner: Identity::new(name(random), random.u64(..), &addresses).unwrap(),
        state,
    }
}

/// Makes the checksum that of the bytes.
fn checked(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..]);
    bytes[CHECKED_FROM - 4..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let owner = Identity::new(Name::new("a").unwrap(), 0x0102_0304_0506_0708, "192.0.2.1:0/77").unwrap();
    let state = LeaseState::OfferedTo(Name::new("b2").unwrap());
    let record = LeaseRecord { epoch: Epoch(3), counter: 258, owner, state };
    let bytes = record.encode();
    assert_eq!(bytes.len(), LEASE_BYTES);
    let mut expected = b"hf-lease\x00\x00\x00\x01".to_vec();
    expected.extend(crc32c::crc32c(&bytes[16..]).to_be_bytes());
    expected.extend(b"\x00\x00\x00\x00\x00\x00\x01\x02");
    expected.extend(b"\x01\x02\x03\x04\x05\x06\x07\x08");
    expected.extend(b"\x00\x00\x00\x03\x02\x01\x02\x00\x00\x0e\x00\x00\x00\x00\x00\x00");
    expected.extend(b"ab2192.0.2.1:0/77");
    assert_eq!(&bytes[..expected.len()], expected);
    assert!(bytes[expected.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(LeaseRecord::decode(&bytes), Ok(record));
}

#[test]
fn encoded_leases_are_read_back() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..2000 {
        let record = random_record(&mut random);
        assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
    }
}

#[test]
fn damaged_leases_are_refused() {
    let mut random = fastrand::Rng::with_seed(1);
    let bytes = random_record(&mut random).encode();
    for at in 0..LEASE_BYTES {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.u32(0..8);
        assert!(LeaseRecord::decode(&damaged).is_err(), "byte {at}");
    }
    assert_eq!(LeaseRecord::decode(&[0; LEASE_BYTES]), Err(Damage::NoLease));
    assert_eq!(LeaseRecord::decode(&bytes[..LEASE_BYTES - 1]), Err(Damage::NoLease));
    let mut later = bytes;
    later[11] = 2;
    assert_eq!(LeaseRecord::decode(&later), Err(Damage::Version(2)));
}

/// Bytes with the right checksum are either exactly what a record is encoded as, or refused.
#[test]
fn no_bytes_panic_or_decode_to_something_else() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..5000 {
        let mut bytes = random_record(&mut random).encode();
        for _ in 0..random.u32(0..4) {
            let at = if random.bool() { random.usize(16..56) } else { random.usize(16..LEASE_BYTES) };
            bytes[at] = random.u8(..);
        }
        let bytes = checked(bytes);
        match LeaseRecord::decode(&bytes) {
            Ok(record) => {
                assert_eq!(record.encode(), bytes);
                good += 1;
            }
            Err(_) => bad += 1,
        }
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
    for _ in 0..2000 {
        let length = random.usize(0..LEASE_BYTES + 2);
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        assert!(LeaseRecord::decode(&bytes).is_err());
    }
}
