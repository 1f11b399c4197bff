//! Payloads that are received apart from their records.

use super::*;

/// A call with data, and what follows it in its record.
fn write(xid: u32, length: usize, behind: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_record(&mut bytes, |out| {
        out.raw(&call(xid, PAYLOAD, u32::try_from(length).unwrap(), 0)[MARK_BYTES..]);
        out.raw(&data(xid, length));
        out.raw(&vec![9; behind]);
    });
    bytes
}

fn data(xid: u32, length: usize) -> Vec<u8> {
    (0..).take(length).map(|at: u32| (at.wrapping_mul(7) ^ at >> 9 ^ xid).to_le_bytes()[0]).collect()
}

/// Checks the data of a call, and whether it was received apart.
fn assert_payload(harness: &Harness, xid: u32, length: usize, behind: usize, apart: Option<bool>) {
    let (found, was_apart) = harness.fake.payloads.lock().remove(&xid).unwrap();
    let mut expected = data(xid, length);
    if !was_apart {
        expected.extend(vec![9; behind]);
    }
    assert!(found == expected, "{xid}");
    assert!(apart.is_none_or(|apart| was_apart == apart), "{xid}");
}

#[test]
fn payloads_are_received_apart_one_after_another() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    let lengths = [100_000, 1 << 20, 1_000_003, 131_072, 65_537, 65_536, 10];
    let calls: Vec<(u32, usize, usize)> =
        (0..70).map(|xid: u32| (xid, lengths[xid as usize % lengths.len()], xid as usize % 50)).collect();
    let mut sender = client.stream.try_clone().unwrap();
    let stream: Vec<u8> =
        calls.iter().flat_map(|(xid, length, behind)| write(*xid, *length, *behind)).collect();
    let sending = std::thread::spawn(move || sender.write_all(&stream).unwrap());
    for _ in &calls {
        client.reply();
    }
    sending.join().unwrap();
    for (xid, length, behind) in calls {
        // Of a short record, all may have arrived with the end of the one before.
        let apart = (length > 200_000).then_some(true).or((length <= 65_536).then_some(false));
        assert_payload(&harness, xid, length, behind, apart);
    }
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < 100_000);
    harness.loops.stop();
}

#[test]
fn a_payload_may_arrive_in_small_parts() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    client.stream.set_nodelay(true).unwrap();
    let record = write(1, 900_000, 3);
    for (number, part) in record.chunks(7001).enumerate() {
        for part in if number < 2 { part.chunks(50) } else { part.chunks(7001) } {
            client.stream.write_all(part).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(client.reply(), (1, 900_000, 0));
    assert_payload(&harness, 1, 900_000, 3, Some(true));
    harness.loops.stop();
}

#[test]
fn payloads_that_never_end_are_given_back() {
    let harness = Harness::new(1);
    for sent in [30, 48, 49, 2000, 700_000] {
        let mut client = harness.client();
        client.stream.write_all(&write(1, 1 << 20, 0)[..sent]).unwrap();
        harness.wait_until("receiving", |harness| harness.held_bytes() >= sent || sent < 100);
        drop(client);
        harness.wait_until("giving memory back", |harness| {
            harness.loops.counters[0].connections.load(Ordering::Relaxed) == 0 && harness.held_bytes() == 0
        });
    }
    harness.loops.stop();
}

#[test]
fn payloads_wait_for_memory_like_other_records() {
    let harness = Harness::new(1);
    let mut clients: Vec<Client> = (0..24).map(|_| harness.client()).collect();
    let sending: Vec<_> = (0..24)
        .zip(&clients)
        .map(|(client, Client { stream })| {
            let mut sender = stream.try_clone().unwrap();
            std::thread::spawn(move || {
                for number in 0..3 {
                    sender.write_all(&write(client * 3 + number, 1 << 20, 20)).unwrap();
                }
            })
        })
        .collect();
    for client in &mut clients {
        for _ in 0..3 {
            client.reply();
        }
    }
    sending.into_iter().for_each(|sending| sending.join().unwrap());
    for xid in 0..72 {
        assert_payload(&harness, xid, 1 << 20, 20, Some(true));
    }
    let highest = harness.loops.counters[0].held_bytes_highest.load(Ordering::Relaxed);
    assert!(highest <= LOOP_BYTES_MIN, "{highest} bytes were held");
    harness.loops.stop();
}
