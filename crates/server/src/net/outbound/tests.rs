use std::net::TcpListener;

use wire::record::{MARK_BYTES, write_record};

use super::*;

/// What became of callbacks.
#[derive(Default)]
struct Ended {
    answers: Mutex<Vec<Vec<u8>>>,
    failed: Mutex<Vec<u64>>,
}

impl Ended {
    fn start() -> (Arc<Ended>, Outbound) {
        let ended = Arc::new(Ended::default());
        let noted = Arc::clone(&ended);
        let outbound = Outbound::start(Arc::new(move |callback, reply: io::Result<Vec<u8>>| match reply {
            Ok(record) => noted.answers.lock().push(record),
            Err(_) => noted.failed.lock().push(callback),
        }));
        (ended, outbound.unwrap())
    }

    fn wait_until(&self, condition: impl Fn(&Ended) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn send(outbound: &Outbound, id: u64, to: SocketAddr) {
    let mut record = Vec::new();
    write_record(&mut record, |out| out.u32(u32::try_from(id).unwrap()));
    outbound.queue().push(Callback { id, to: Destination::Address(to), record }).unwrap();
}

/// Answers each call with itself, `calls` times for each of `connections`.
fn client(connections: usize, calls: usize) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..calls {
                let mut record = [0; MARK_BYTES + 4];
                stream.read_exact(&mut record).unwrap();
                stream.write_all(&record).unwrap();
            }
        }
    });
    (address, thread)
}

#[test]
fn replies_arrive_and_connections_are_reused() {
    let (ended, outbound) = Ended::start();
    // Closes each connection after two calls, so that a kept one fails once.
    let (address, thread) = client(2, 2);
    for number in 1..=4_u32 {
        send(&outbound, number.into(), address);
        ended.wait_until(|ended| ended.answers.lock().len() == usize::try_from(number).unwrap());
        assert_eq!(ended.answers.lock().last().unwrap(), &number.to_be_bytes());
    }
    thread.join().unwrap();
    assert!(ended.failed.lock().is_empty());
    outbound.stop();
}

#[test]
fn callbacks_to_unreachable_addresses_fail() {
    let (ended, outbound) = Ended::start();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    send(&outbound, 5, nobody);
    ended.wait_until(|ended| *ended.failed.lock() == [5]);
    outbound.stop();
}
