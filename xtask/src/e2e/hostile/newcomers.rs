//! Clients that come while the server is attacked, or afterwards. Each does a little of everything and leaves.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use super::compound::op;
use super::nfs3::{self, LockOwner, nlm};
use super::nfs4::{NO_DELEGATION, Session, patiently};
use super::places;
use super::rpc::{Caller, Failure, Link};

/// Within this time a newcomer must have been served.
pub(super) const SERVED: Duration = Duration::from_secs(5);
/// Their addresses among those of well-behaved clients.
const NUMBERS: std::ops::Range<u8> = 100..250;

/// How many have come, in all attacks: one who left a moment ago is no newcomer.
static COME: AtomicU8 = AtomicU8::new(0);

/// Newcomers one after another, each from another address.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// The longest time that one needed.
    pub(super) longest: Duration,
    pub(super) count: usize,
}

impl Newcomers {
    /// Serves one newcomer of each version.
    pub(super) fn come(&mut self) -> Result<(), String> {
        for (version, visit) in [("NFSv3", visit_3 as fn(u8) -> Result<(), Failure>), ("NFSv4.2", visit_4)] {
            let number = next_number();
            let began = Instant::now();
            let outcome = visit(number);
            let took = began.elapsed();
            self.longest = self.longest.max(took);
            self.count += 1;
            let seconds = took.as_secs_f64();
            if let Err(why) = outcome {
                return Err(format!("a newcomer with {version} is not served: {why}, after {seconds:.1} s"));
            }
            if took > SERVED {
                return Err(format!("a newcomer with {version} waits for {seconds:.1} s"));
            }
        }
        Ok(())
    }
}

/// The number of the next one. Each comes again only when all others have come.
fn next_number() -> u8 {
    let next = |come: u8| Some(if NUMBERS.start + come + 1 < NUMBERS.end { come + 1 } else { 0 });
    let come = COME.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    NUMBERS.start + come.unwrap_or_else(|come| come)
}

fn visit_3(number: u8) -> Result<(), Failure> {
    let name = format!("newcomer-{number}");
    let name = name.as_bytes();
    let mut link = Link::open_within(Caller::host(places::client(number)), SERVED)?;
    let folder = nfs3::mount(&mut link, b"/main")?;
    let file = patiently(|| nfs3::create(&mut link, &folder, name))?;
    patiently(|| nfs3::write(&mut link, &file, 0, name))?;
    let read = patiently(|| nfs3::read(&mut link, &file, 0, 100))?;
    if read != name {
        return Err(Failure::Wrong("READ returns something else".to_owned()));
    }
    let owner = LockOwner { host: name, process: 1 };
    for procedure in [nlm::LOCK, nlm::UNLOCK] {
        match nfs3::lock_call(&mut link, procedure, owner, &file, 0, false)? {
            0 => {}
            status => return Err(Failure::Status("LOCK of NLM", status)),
        }
    }
    Ok(())
}

fn visit_4(number: u8) -> Result<(), Failure> {
    let name = format!("newcomer-{number}");
    let name = name.as_bytes();
    let link = Link::open_within(Caller::host(places::client(number)), SERVED)?;
    let mut session = Session::open(link, name, 1, false)?;
    let folder = session.folder()?;
    let (opened, file) = session.open_file(&folder, b"owner", NO_DELEGATION, name)?;
    let lock = session.lock(&file, &opened.stateid, b"owner", (0, 10))?;
    session.ask(
        |compound| compound.put(&file).write(&lock, 0, name),
        |answer| answer.put()?.next("WRITE", op::WRITE).map(|_| ()),
    )?;
    session.ask(
        |compound| compound.put(&file).close(0, &opened.stateid),
        |answer| answer.put()?.next("CLOSE", op::CLOSE).map(|_| ()),
    )?;
    session.destroy()
}
