use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use wire::record::{MARK_BYTES, write_record};

use super::*;
use crate::limits::{OUTBOUND_CALLS_MAX, OUTBOUND_QUEUED_PER_HOST_MAX};

/// What became of callbacks.
#[derive(Default)]
struct Ended {
    answers: Mutex<Vec<Vec<u8>>>,
    failed: Mutex<Vec<u64>>,
}

impl Ended {
    fn start() -> (Arc<Ended>, Outbound) {
        Ended::start_with(OUTBOUND_CALL_MAX)
    }

    fn start_with(call_max: Duration) -> (Arc<Ended>, Outbound) {
        let ended = Arc::new(Ended::default());
        let noted = Arc::clone(&ended);
        let note = move |callback, reply: io::Result<Vec<u8>>| match reply {
            Ok(record) => noted.answers.lock().push(record),
            Err(_) => noted.failed.lock().push(callback),
        };
        let outbound = Outbound::start_with(Arc::new(note), &[], call_max);
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
    let mut callback = Callback { id, to: Destination::Address(to), record };
    while let Err(refused) = outbound.queue().push(callback) {
        // The thread has yet to take others.
        callback = refused;
        thread::sleep(Duration::from_millis(1));
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
fn an_answer_to_another_call_is_a_failure_and_ends_the_connection() {
    let (ended, outbound) = Ended::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || {
        for answered in [8_u32, 6] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = [0; MARK_BYTES + 4];
            stream.read_exact(&mut call).unwrap();
            call[MARK_BYTES..].copy_from_slice(&answered.to_be_bytes());
            stream.write_all(&call).unwrap();
        }
    });
    send(&outbound, 5, address);
    ended.wait_until(|ended| *ended.failed.lock() == [5]);
    send(&outbound, 6, address);
    ended.wait_until(|ended| *ended.answers.lock() == [6_u32.to_be_bytes()]);
    client.join().unwrap();
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

/// Accepts connections at this address of the loopback network, and answers each with a byte of an answer that never ends,
/// every 50 ms, for `time`.
fn trickle(host: &str, time: Duration) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut answer = vec![0x80, 0, 0x0f, 0xff].into_iter().chain(std::iter::repeat(0));
        let end = Instant::now() + time;
        while Instant::now() < end && stream.write_all(&[answer.next().unwrap()]).is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    (address, thread)
}

#[test]
fn slow_clients_delay_nobody_else() {
    let (ended, outbound) = Ended::start_with(Duration::from_secs(60));
    let slow: Vec<_> =
        (2..12).map(|host| trickle(&format!("127.0.0.{host}"), Duration::from_secs(1))).collect();
    for (number, (address, _)) in (100..).zip(&slow) {
        send(&outbound, number, *address);
        send(&outbound, number + 100, *address);
    }
    let (address, thread) = client(1, 3);
    let start = Instant::now();
    (1..=3).for_each(|number| send(&outbound, number, address));
    ended.wait_until(|ended| ended.answers.lock().len() == 3);
    assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
    assert_eq!(*ended.answers.lock(), (1..=3_u32).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>());
    thread.join().unwrap();
    slow.into_iter().for_each(|(_, thread)| thread.join().unwrap());
    outbound.stop();
}

#[test]
fn a_call_and_those_waiting_for_it_fail_at_their_deadline_though_bytes_arrive() {
    let (ended, outbound) = Ended::start_with(Duration::from_millis(400));
    let (address, thread) = trickle("127.0.0.1", Duration::from_secs(2));
    let start = Instant::now();
    (1..=3).for_each(|number| send(&outbound, number, address));
    ended.wait_until(|ended| ended.failed.lock().len() == 3);
    assert!((400..1500).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    outbound.stop();
    thread.join().unwrap();
}

#[test]
fn calls_to_one_host_are_bounded_and_others_find_room() {
    let (ended, outbound) = Ended::start_with(Duration::from_secs(60));
    let (address, slow) = trickle("127.0.0.2", Duration::from_millis(300));
    // One is in flight when the rest arrive; the last one finds the line full.
    send(&outbound, 1, address);
    thread::sleep(Duration::from_millis(100));
    (2..).take(OUTBOUND_QUEUED_PER_HOST_MAX + 1).for_each(|number| send(&outbound, number, address));
    let last = u64::try_from(OUTBOUND_QUEUED_PER_HOST_MAX).unwrap() + 2;
    ended.wait_until(|ended| *ended.failed.lock() == [last]);
    let (address, thread) = client(1, 1);
    send(&outbound, 7, address);
    ended.wait_until(|ended| ended.answers.lock().len() == 1);
    thread.join().unwrap();
    outbound.stop();
    slow.join().unwrap();
}

#[test]
fn hosts_that_do_not_answer_leave_room_for_others() {
    let (ended, outbound) = Ended::start_with(Duration::from_secs(60));
    let silent: Vec<_> =
        (2..32).map(|host| TcpListener::bind(format!("127.0.0.{host}:0")).unwrap()).collect();
    let (address, thread) = client(1, 3);
    for (turn, host) in (1..).zip(&silent) {
        let to = host.local_addr().unwrap();
        (0..100).for_each(|number| send(&outbound, 1000 * turn + number, to));
        // The thread takes them in time.
        thread::sleep(Duration::from_millis(5));
    }
    // More, if the thread took all calls of some hosts before it began the first one.
    let refused = 3000 - OUTBOUND_QUEUED_MAX - silent.len();
    ended.wait_until(|ended| ended.failed.lock().len() >= refused);
    (1..=3).for_each(|number| send(&outbound, number, address));
    ended.wait_until(|ended| ended.answers.lock().len() == 3);
    let failed = ended.failed.lock();
    for turn in 1..=30 {
        // Each has as much of the queue as any other.
        let calls = failed.iter().filter(|id| **id / 1000 == turn).count();
        assert!((64..70).contains(&calls), "{calls}");
    }
    drop(failed);
    thread.join().unwrap();
    outbound.stop();
}

/// They hold all slots, and none of them ever answers.
#[test]
fn very_many_silent_hosts_make_no_call_to_others_fail() {
    let (ended, outbound) = Ended::start_with(Duration::from_secs(60));
    let (known, first) = client(1, 2);
    send(&outbound, 1, known);
    ended.wait_until(|ended| ended.answers.lock().len() == 1);
    let silent: Vec<_> = (0..2 * OUTBOUND_CALLS_MAX)
        .map(|host| TcpListener::bind(format!("127.1.{}.{}:0", host / 256, host % 256)).unwrap())
        .collect();
    for (number, host) in (1000..).zip(&silent) {
        (0..2).for_each(|_| send(&outbound, number, host.local_addr().unwrap()));
    }
    send(&outbound, 2, known);
    ended.wait_until(|ended| ended.answers.lock().len() == 2);
    let (unknown, second) = client(1, 1);
    send(&outbound, 3, unknown);
    ended.wait_until(|ended| ended.answers.lock().len() == 3);
    assert!(ended.failed.lock().iter().all(|id| *id >= 1000));
    [first, second].into_iter().for_each(|thread| thread.join().unwrap());
    outbound.stop();
}

#[test]
fn calls_leave_from_the_listen_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listen: SocketAddr = "127.0.0.9:2049".parse().unwrap();
    let outbound = Outbound::start(Arc::new(|_, _| {}), &[listen]).unwrap();
    send(&outbound, 1, address);
    let (_, source) = listener.accept().unwrap();
    assert_eq!(source.ip(), listen.ip());
    outbound.stop();
}

/// Calls to one host must not fill the queue before the thread has looked at it.
#[test]
fn others_have_room_however_many_calls_there_are_to_some_hosts() {
    let poll = Poll::new().unwrap();
    let queue = Queue { waker: Waker::new(poll.registry(), WAKER).unwrap(), state: Mutex::default() };
    let push = |host: u8| {
        let to = Destination::Address(SocketAddr::from(([192, 0, 2, host], 700)));
        queue.push(Callback { id: 0, to, record: Vec::new() }).is_ok()
    };
    for host in 1..=30 {
        let queued = (0..OUTBOUND_QUEUED_MAX).filter(|_| push(host)).count();
        assert!((1..=OUTBOUND_QUEUED_MAX / 8).contains(&queued), "{queued} to host {host}");
    }
    queue.take().unwrap();
    assert!((0..100).all(|_| push(1)), "it has the room of one host again");
}
