//! Traps of state: what a server keeps of its clients, and whether it is alone.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::super::super::client::nfs3::{self, LockOwner, NLM_DENIED, nlm};
use super::super::super::client::rpc::{Caller, Link, PATIENCE};
use super::super::{Pair, process};
use super::ways;

/// The first pool, which has the records of all clients.
const FIRST: &str = "default";

/// A client holds a lock in a pool; the pool with the records of clients is missing when the group is started. It must not be served,
/// and nothing of what the client holds may be forgotten.
pub(super) fn halves(pair: &mut Pair<'_>) -> Result<String, String> {
    let [(own, _), _] = ways();
    let mut link = Link::open(Caller::host(own))?;
    let folder = nfs3::mount(&mut link, b"/other")?;
    let file = nfs3::create(&mut link, &folder, b"held")?;
    let lock = |link: &mut Link, host: &[u8], procedure| {
        nfs3::lock_call(link, procedure, LockOwner { host, process: 1 }, &file, 0, false)
    };
    let granted = lock(&mut link, b"holder", nlm::LOCK)?;
    if granted != 0 {
        return Err(format!("the status of LOCK is {granted}"));
    }
    drop(link);
    let serving = pair.serving;
    pair.machines[serving].cluster(&["stop", "home"])?;
    let pool = pair.lab.data().join("pools").join(FIRST);
    let away = pair.lab.folder.join("away");
    fs::rename(&pool, &away).map_err(process::at(&pool))?;
    let started = pair.machines[serving].cluster(&["start", "home"]);
    fs::rename(&away, &pool).map_err(process::at(&away))?;
    if started.is_ok() {
        return Err("the group is served without one of its pools".to_owned());
    }
    pair.machines[serving].cluster(&["start", "home"])?;
    let mut link = Link::open(Caller::host(own))?;
    match lock(&mut link, b"other", nlm::LOCK)? {
        NLM_DENIED => {}
        status => return Err(format!("the lock is forgotten: the status of another LOCK is {status}")),
    }
    lock(&mut link, b"holder", nlm::UNLOCK)?;
    Ok("refused, and the lock is kept".to_owned())
}

/// The agent is killed: its server goes with it, since nothing refreshes the addresses any more and the next agent starts another one.
/// Then the server loses its claim: it is killed before it answers anything more.
pub(super) fn survivors(pair: &mut Pair<'_>) -> Result<String, String> {
    let serving = pair.serving;
    let server = pair.server_id()?.ok_or("no server runs")?;
    let mut agent = pair.machines[serving].agent.take().ok_or("no agent runs")?;
    // The agent alone, and not its process group.
    agent.kill().and_then(|()| agent.wait()).map_err(|error| format!("the agent: {error}"))?;
    let begun = Instant::now();
    while is_alive(server) {
        if begun.elapsed() > PATIENCE {
            return Err("the server outlives its agent".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let took = begun.elapsed();
    pair.boot(serving)?;
    pair.machines[serving].cluster(&["start", "home"])?;
    loses_its_claim(pair)?;
    Ok(format!("it was gone within {} ms", took.as_millis()))
}

/// Whether a thread of a process runs: it may hold sockets and files of the process after the first thread has ended.
fn is_alive(process: u64) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    })
}

/// Another machine's name in the block of the claim. A client asks all the time; the last thing that it hears is a good answer.
fn loses_its_claim(pair: &mut Pair<'_>) -> Result<(), String> {
    let server = pair.server_id()?.ok_or("no server runs")?;
    let [way, _] = ways();
    let mut link = super::call(way, super::OWN_PORT)?;
    let claim = pair.lab.data().join("claim");
    let text = format!("{:\0<4096}", "holdfast claim 1\nnode c\nstate held\nrenewals 4000000000\n");
    fs::write(&claim, text).map_err(process::at(&claim))?;
    let begun = Instant::now();
    while is_alive(server) {
        if begun.elapsed() > PATIENCE {
            return Err("a server without its claim goes on".to_owned());
        }
        // It may be gone; what it says must make sense.
        if let Err(why) = super::null(&mut link)
            && !why.contains("Connection reset")
            && !why.contains("Broken pipe")
        {
            return Err(format!("the last answer: {why}"));
        }
    }
    // The next server watched the block of a machine that does not renew it.
    let end = Instant::now() + PATIENCE;
    while pair.serving().cluster(&["monitor", "home"]).is_err() {
        if Instant::now() > end {
            return Err("no server claims what nobody renews".to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    }
    let mut log = Command::new("grep");
    log.args(["-c", "stopping at once, for another machine to go on"]).arg(pair.lab.log());
    process::output(&mut log).map(drop).map_err(|_| "the log does not say why the server ended".to_owned())
}
