use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Instant;

use parking_lot::Mutex;
use wire::record::{MARK_BYTES, write_record};

use super::*;

/// Has some callbacks to send, and notes what becomes of them.
#[derive(Default)]
struct Fake {
    waiting: Mutex<Vec<Callback>>,
    answers: Mutex<Vec<Vec<u8>>>,
    failed: Mutex<Vec<u64>>,
    notify: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Caller for Fake {
    fn tick(&self) -> Duration {
        Duration::from_secs(60)
    }
    fn take(&self) -> Vec<Callback> {
        std::mem::take(&mut self.waiting.lock())
    }
    fn failed(&self, callback: u64) {
        self.failed.lock().push(callback);
    }
    fn answered(&self, record: &[u8]) {
        self.answers.lock().push(record.to_vec());
    }
    fn on_callbacks(&self, notify: Box<dyn Fn() + Send + Sync>) {
        *self.notify.lock() = Some(notify);
    }
}

impl Fake {
    fn send(&self, id: u64, to: SocketAddr) {
        let mut record = Vec::new();
        write_record(&mut record, |out| out.u32(u32::try_from(id).unwrap()));
        self.waiting.lock().push(Callback { id, to: Destination::Address(to), record });
        self.notify.lock().as_ref().unwrap()();
    }

    fn wait_until(&self, condition: impl Fn(&Fake) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
    }
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
fn answers_come_back_and_connections_are_used_again() {
    let fake = Arc::new(Fake::default());
    let callbacks = Callbacks::start(Arc::<Fake>::clone(&fake), Vec::new()).unwrap();
    // Closes each connection after two calls, so that a kept one fails once.
    let (address, thread) = client(2, 2);
    for number in 1..=4_u32 {
        fake.send(number.into(), address);
        fake.wait_until(|fake| fake.answers.lock().len() == usize::try_from(number).unwrap());
        assert_eq!(fake.answers.lock().last().unwrap(), &number.to_be_bytes());
    }
    thread.join().unwrap();
    assert!(fake.failed.lock().is_empty());
    callbacks.stop();
}

#[test]
fn one_who_cannot_be_reached_is_told_of() {
    let fake = Arc::new(Fake::default());
    let callbacks = Callbacks::start(Arc::<Fake>::clone(&fake), Vec::new()).unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fake.send(5, nobody);
    fake.wait_until(|fake| *fake.failed.lock() == [5]);
    callbacks.stop();
}
