use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::*;
use crate::scratch::Scratch;

/// Takes the claim; sets the flag when it is lost.
fn take(scratch: &Scratch, node: &str) -> Result<(Arc<Claim>, Arc<AtomicBool>), Error> {
    let lost = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&lost);
    let on_lost = move |_: &str| flag.store(true, Ordering::Relaxed);
    Claim::take_with(scratch.path(), node, Box::new(|_| {}), Box::new(on_lost)).map(|claim| (claim, lost))
}

/// Ends the renewals without a release, as a crash does.
fn crash(claim: &Claim) {
    *lock(&claim.stop.0) = true;
    claim.stop.1.notify_all();
    lock(&claim.thread).take().unwrap().join().unwrap();
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20));
        thread::sleep(PAUSE);
    }
}

/// Takes the claim without watching whether somebody renews it: a planted fault.
fn take_unwatched(scratch: &Scratch, node: &str) -> Result<Arc<Claim>, Error> {
    let claim = Claim::open(scratch.path(), node, Box::new(|_| {}))?;
    let last = claim.read().unwrap().unwrap().renewals;
    claim.hold(last)
}

/// Lets a machine take the claim that another one holds. Returns whether both may answer at once.
fn do_both_serve(take_second: impl FnOnce(&Scratch) -> Result<Arc<Claim>, Error>) -> bool {
    let scratch = Scratch::new();
    let (a, _) = take(&scratch, "a").unwrap();
    let b = take_second(&scratch);
    let both = b.as_ref().is_ok_and(|b| a.tenure() == Tenure::Held && b.tenure() == Tenure::Held);
    crash(&a);
    b.into_iter().for_each(|b| crash(&b));
    both
}

#[test]
fn two_machines_serve_at_once_only_if_nobody_watches() {
    assert!(!do_both_serve(|scratch| take(scratch, "b").map(|(b, _)| b)));
    assert!((0..10).any(|_| do_both_serve(|scratch| take_unwatched(scratch, "b"))));
}

#[test]
fn a_claim_that_is_renewed_is_not_given_to_another_machine() {
    let scratch = Scratch::new();
    let (a, lost) = take(&scratch, "a").unwrap();
    let error = take(&scratch, "b").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().contains("machine \"a\""), "{error}");
    assert_eq!((a.tenure(), lost.load(Ordering::Relaxed)), (Tenure::Held, false));
    crash(&a);
    let start = Instant::now();
    let (b, _) = take(&scratch, "b").unwrap();
    assert!(start.elapsed() >= WATCH);
    b.release().unwrap();
}

#[test]
fn a_released_claim_and_one_of_the_same_machine_are_taken_at_once() {
    let scratch = Scratch::new();
    let (a, _) = take(&scratch, "a").unwrap();
    a.release().unwrap();
    assert_eq!(a.tenure(), Tenure::Paused);
    let start = Instant::now();
    let (b, _) = take(&scratch, "b").unwrap();
    crash(&b);
    let (again, _) = take(&scratch, "b").unwrap();
    assert!(start.elapsed() < WATCH);
    assert!(*lock(&again.renewals) > *lock(&b.renewals));
}

#[test]
fn the_claim_of_a_process_that_ended_can_be_released() {
    let scratch = Scratch::new();
    let (a, _) = take(&scratch, "a").unwrap();
    crash(&a);
    Claim::release_for(scratch.path(), "b").unwrap();
    assert_eq!(a.read().unwrap().unwrap().state, State::Held, "it was another machine's");
    Claim::release_for(scratch.path(), "a").unwrap();
    assert_eq!(a.read().unwrap().unwrap().state, State::Released);
}

/// The superuser does it, in a directory where another user may have put anything.
#[test]
fn releasing_the_claim_of_another_process_makes_no_file_and_follows_no_link() {
    let scratch = Scratch::new();
    let [claim, elsewhere] = [NAME, "elsewhere"].map(|name| scratch.path().join(name));
    Claim::release_for(scratch.path(), "a").unwrap_err();
    assert!(!claim.exists());
    std::fs::write(&elsewhere, "short").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &claim).unwrap();
    Claim::release_for(scratch.path(), "a").unwrap_err();
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"short");
}

#[test]
fn who_finds_another_holder_in_the_block_has_lost_the_claim() {
    let scratch = Scratch::new();
    let (a, lost) = take(&scratch, "a").unwrap();
    let block = Block { node: "b".to_owned(), state: State::Held, renewals: 77 }.encode();
    std::fs::write(scratch.path().join(NAME), format!("{block}{}", "\0".repeat(4096 - block.len()))).unwrap();
    wait_until(|| lost.load(Ordering::Relaxed));
    assert_eq!(a.tenure(), Tenure::Lost);
    a.renew().unwrap_err();
    assert_eq!(a.tenure(), Tenure::Lost, "it does not come back");
}

/// Tells the child process of [`a_lost_claim_kills_the_process_at_once`] which directory to claim.
const CLAIMED_BY_CHILD: &str = "HOLDFAST_TEST_CLAIMED";

#[test]
fn a_lost_claim_kills_the_process_at_once() {
    use std::os::unix::process::ExitStatusExt as _;
    if let Some(root) = std::env::var_os(CLAIMED_BY_CHILD) {
        let renewed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&renewed);
        let _claim =
            Claim::take(Path::new(&root), "a", move |_| seen.store(true, Ordering::Relaxed)).unwrap();
        assert!(renewed.load(Ordering::Relaxed));
        thread::sleep(Duration::from_secs(20));
        return;
    }
    let scratch = Scratch::new();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "claim::tests::a_lost_claim_kills_the_process_at_once"])
        .env(CLAIMED_BY_CHILD, scratch.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let path = scratch.path().join(NAME);
    wait_until(|| std::fs::read(&path).is_ok_and(|bytes| Block::decode(&bytes).is_some()));
    let block = Block { node: "b".to_owned(), state: State::Held, renewals: u64::MAX }.encode();
    // Again and again, as a renewal may be under way.
    let status = loop {
        std::fs::write(&path, format!("{block}{}", "\0".repeat(4096 - block.len()))).unwrap();
        thread::sleep(RENEWAL);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "it must not run anything more");
}

#[test]
fn answers_are_paused_when_renewals_take_long_and_resume_after_one() {
    let scratch = Scratch::new();
    let (a, lost) = take(&scratch, "a").unwrap();
    crash(&a);
    assert_eq!(a.tenure(), Tenure::Held);
    thread::sleep(TERM);
    assert_eq!(a.tenure(), Tenure::Paused);
    a.renew().unwrap();
    a.wait();
    assert!(!lost.load(Ordering::Relaxed));
}

#[test]
fn a_failed_change_loses_the_claim_but_a_bad_sector_or_a_full_device_does_not() {
    let scratch = Scratch::new();
    let (claim, lost) = take(&scratch, "a").unwrap();
    let guard = Guard(Arc::clone(&claim));
    let failed = |kind: io::ErrorKind| -> io::Result<()> { Err(kind.into()) };
    let bad_sector = io::ErrorKind::Other;
    guard.read(|| failed(bad_sector)).unwrap_err();
    guard.change(|| failed(io::ErrorKind::StorageFull)).unwrap_err();
    guard.change(|| failed(io::ErrorKind::AlreadyExists)).unwrap_err();
    assert!(!lost.load(Ordering::Relaxed));
    assert_eq!(guard.tenure(Tenure::Held), Tenure::Held);
    guard.sync(|| failed(io::ErrorKind::Other)).unwrap_err();
    assert!(lost.load(Ordering::Relaxed));
    assert_eq!(guard.tenure(Tenure::Held), Tenure::Lost);
    crash(&claim);
}
