use std::fs;
use std::path::PathBuf;

use super::*;
use crate::limits::{ADDRESS_LIFETIME, LINK_GONE_MIN, REFRESH};
use crate::network::noted::Noted;

/// A group whose server is a script.
struct World {
    data: PathBuf,
    network: Arc<Noted>,
    handle: Handle,
}

impl World {
    /// Runs `script` in place of a server; in it, `$1` is the data directory. It is ready when it writes that to its link.
    fn new(name: &str, script: &str) -> World {
        let data = std::env::temp_dir().join(format!("holdfast-group-{name}-{}", std::process::id()));
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("connections"), "10.0.0.5:2049 10.0.0.9:700\n").unwrap();
        let config = Group {
            name: "home".to_owned(),
            addresses: vec!["10.0.0.5/24".parse().unwrap()],
            ports: vec![2049],
            data: data.clone(),
            config: None,
        };
        let script = format!("for data; do :; done; {script}");
        let program = ["sh", "-c", &script, "sh"].map(OsString::from).to_vec();
        let network = Arc::new(Noted::default());
        let launch = Launch { node: "a".to_owned(), groups: Arc::new(1.into()), program };
        let shared = Shared::Directory(data.clone());
        let handle =
            Handle::start(&config, shared, &launch, Arc::clone(&network) as Arc<dyn Network>).unwrap();
        World { data, network, handle }
    }

    fn wait_until(&self, condition: impl Fn(&GroupStatus) -> bool) {
        let begun = Instant::now();
        while !condition(&self.handle.status()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", self.handle.status());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until this list of connections is stored.
    fn await_list(&self, list: &str) {
        let begun = Instant::now();
        let stored = || fs::read_to_string(self.data.join("connections")).unwrap();
        while stored() != list {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", stored());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) {
        self.handle.stop().unwrap();
        fs::remove_dir_all(self.data).unwrap();
    }
}

/// Serves until it is told to stop.
const SERVES: &str = "printf '\"claimed\"' >&0; printf '\"ready\"' >&0; exec sleep 60";

#[test]
fn a_start_ends_old_connections_before_it_takes_the_address_and_a_stop_gives_it_up_first() {
    let world = World::new("order", SERVES);
    world.handle.serve(Phases { fence_ms: 7, ..Phases::default() }).unwrap();
    let status = world.handle.status();
    assert_eq!((status.state, status.restarts), (State::Serving, 0));
    assert!(status.pid.is_some());
    assert_eq!(status.last_start.unwrap().fence_ms, 7);
    let start = ["end 10.0.0.5:2049", "hold 10.0.0.5/24", "announce 10.0.0.5", "tickle 10.0.0.9:700"];
    assert_eq!(world.network.take()[..4], start);
    world.handle.serve(Phases::default()).unwrap();
    world.wait_until(|_| world.network.did("hold 10.0.0.5/24"));
    world.network.take();
    world.handle.stop().unwrap();
    assert_eq!(world.network.take()[..2], ["give up 10.0.0.5/24", "end 10.0.0.5:2049"]);
    assert_eq!((world.handle.status().state, world.handle.status().pid), (State::Stopped, None));
    world.end();
}

#[test]
fn the_next_machine_learns_of_new_connections_and_of_those_to_the_previous_one() {
    let world = World::new("list", SERVES);
    world.handle.serve(Phases::default()).unwrap();
    world.await_list("10.0.0.5:2049 10.0.0.8:800\n10.0.0.5:2049 10.0.0.9:700\n");
    world.end();
}

#[test]
fn the_next_machine_learns_of_clients_that_connected_before_they_were_served() {
    let world = World::new("early", "printf '\"claimed\"' >&0; exec sleep 60");
    world.handle.stand(Candidate::default());
    world.await_list("10.0.0.5:2049 10.0.0.8:800\n10.0.0.5:2049 10.0.0.9:700\n");
    assert_eq!(world.handle.status().state, State::Starting);
    world.end();
}

#[test]
fn a_stop_stores_the_connections_first() {
    let world = World::new("last", SERVES);
    world.handle.serve(Phases::default()).unwrap();
    world.handle.stop().unwrap();
    let stored = fs::read_to_string(world.data.join("connections")).unwrap();
    assert!(stored.starts_with("10.0.0.5:2049 10.0.0.8:800\n"), "{stored}");
    world.end();
}

#[test]
fn a_server_that_dies_is_replaced_while_the_address_stays() {
    let world = World::new("restart", SERVES);
    world.handle.serve(Phases::default()).unwrap();
    let first = world.handle.status().pid.unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    world.wait_until(|status| status.state == State::Serving && status.pid != Some(first));
    assert_eq!(world.handle.status().restarts, 1);
    assert!(!world.network.take().iter().any(|did| did.starts_with("give up")));
    world.end();
}

#[test]
fn a_server_that_keeps_dying_or_refuses_to_start_is_given_up() {
    let dies = World::new(
        "dies",
        // A socket that is closed with a message unread discards what was sent through it.
        "dd bs=4096 count=1 >/dev/null 2>&1; printf '\"claimed\"' >&0; exit 1",
    );
    let reason = dies.handle.serve(Phases::default()).unwrap_err();
    assert!(reason.contains("4 times within a minute"), "{reason}");
    assert_eq!(dies.handle.status().reason, Some(reason));
    assert!(dies.network.take().contains(&"give up 10.0.0.5/24".to_owned()));
    dies.end();
    let refuses = World::new("refuses", "sleep 0.8; exit 3");
    let reason = refuses.handle.serve(Phases::default()).unwrap_err();
    assert!(reason.contains("refused to start"), "{reason}");
    assert_eq!((refuses.handle.status().state, refuses.handle.status().restarts), (State::Failed, 1));
    assert_eq!(
        refuses.network.take(),
        [""; 0],
        "clients of the machine that has the directory notice nothing"
    );
    refuses.end();
}

#[test]
fn a_server_that_does_not_stop_is_killed_and_its_claim_released() {
    let world = World::new(
        "stubborn",
        "trap '' TERM; printf '\"claimed\"' >&0; printf '\"ready\"' >&0; while :; do sleep 1; done",
    );
    fs::write(
        world.data.join("claim"),
        format!("{:\0<4096}", "holdfast claim 1\nnode a\nstate held\nrenewals 7\n"),
    )
    .unwrap();
    world.handle.serve(Phases::default()).unwrap();
    world.handle.stop().unwrap();
    let claim = fs::read_to_string(world.data.join("claim")).unwrap();
    assert!(claim.starts_with("holdfast claim 1\nnode a\nstate released\nrenewals 8\n"), "{claim}");
    world.end();
}

/// Serves, and renews its claim again and again, each time later than any clock shows.
const RENEWS: &str = "printf '\"claimed\"' >&0; printf '\"ready\"' >&0; while :; do
    printf '{\"renewed\":{\"at\":9000000000000000000}}' >&0; sleep 0.1; done";

#[test]
fn a_server_reads_its_configuration_again_but_not_before_it_serves() {
    let script = "printf '\"claimed\"' >&0; sleep 0.4; trap 'echo again >> \"$data/heard\"' HUP; printf '\"ready\"' >&0;
        while :; do sleep 0.02; done";
    let world = World::new("reload", script);
    world.handle.reload();
    let heard = |times: usize| {
        let begun = Instant::now();
        let text = || fs::read_to_string(world.data.join("heard")).unwrap_or_default();
        while text().lines().count() < times {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", text());
            thread::sleep(Duration::from_millis(5));
        }
    };
    thread::scope(|scope| {
        let served = scope.spawn(|| world.handle.serve(Phases::default()));
        world.wait_until(|status| status.state == State::Starting);
        world.handle.reload();
        served.join().unwrap().unwrap();
    });
    heard(1);
    world.handle.reload();
    heard(2);
    assert_eq!(world.handle.status().restarts, 0);
    world.end();
}

#[test]
fn clients_connect_again_when_a_link_that_was_gone_for_long_is_back() {
    let world = World::new("link", SERVES);
    world.handle.serve(Phases::default()).unwrap();
    world.handle.tell_link(false);
    world.handle.tell_link(true);
    thread::sleep(REFRESH * 5);
    world.network.take();
    world.handle.tell_link(false);
    thread::sleep(LINK_GONE_MIN);
    assert!(!world.network.did("end 10.0.0.5:2049"), "what may still arrive is not given up");
    world.handle.tell_link(true);
    world.wait_until(|status| status.reconnections_total == 1);
    let did = world.network.take();
    let reset = did.iter().position(|did| did == "end 10.0.0.5:2049").unwrap();
    assert_eq!(did[reset + 1..reset + 3], ["announce 10.0.0.5", "tickle 10.0.0.8:800"]);
    world.wait_until(|_| world.network.did("tickle 10.0.0.8:800"));
    world.end();
}

#[test]
fn addresses_that_lapsed_are_taken_again_only_when_the_claim_was_renewed_since() {
    for (name, script, is_taken) in [("lapsed", SERVES, false), ("renewed", RENEWS, true)] {
        let world = World::new(name, script);
        world.handle.serve(Phases::default()).unwrap();
        world.network.delay(ADDRESS_LIFETIME);
        world.wait_until(|_| world.network.did("give up 10.0.0.5/24"));
        thread::sleep(REFRESH * 2);
        let did = world.network.take();
        let gone = did.iter().position(|did| did == "give up 10.0.0.5/24").unwrap();
        let taken = did[gone..].iter().any(|did| did == "hold 10.0.0.5/24");
        assert_eq!((taken, world.handle.status().reconnections_total), (is_taken, u64::from(is_taken)));
        world.end();
    }
}

#[test]
fn a_group_whose_claim_is_not_renewed_is_shown_as_paused() {
    let renewed = boot_time() - u64::try_from(CLAIM_TERM.as_nanos()).unwrap();
    let script = format!(
        "printf '\"claimed\"' >&0; printf '\"ready\"' >&0; printf '{{\"renewed\":{{\"at\":{renewed}}}}}' >&0; exec sleep 60"
    );
    let world = World::new("paused", &script);
    world.handle.serve(Phases::default()).unwrap();
    world.wait_until(|status| status.state == State::Paused);
    let status = world.handle.status();
    assert!(status.reason.unwrap().contains("no renewal of the claim for"));
    assert!(status.claim_age_ms.unwrap() >= milliseconds(CLAIM_TERM));
    world.end();
}
