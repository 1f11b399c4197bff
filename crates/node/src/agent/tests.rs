use std::fs;

use super::*;
use crate::config::Group;
use crate::network::noted::Noted;

/// An agent with one group, `home`, whose server is a script.
struct World {
    directory: PathBuf,
    network: Arc<Noted>,
    agent: Arc<Agent>,
}

impl World {
    fn new(name: &str, fence: &[&str]) -> World {
        let directory = std::env::temp_dir().join(format!("holdfast-agent-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let group = Group {
            name: "home".to_owned(),
            addresses: vec!["10.0.0.5/24".parse().unwrap()],
            ports: vec![2049],
            data: directory.clone(),
            config: None,
        };
        let shown = directory.display().to_string();
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let config = Config {
            node: "a".to_owned(),
            interface: "eth0".to_owned(),
            store: None,
            socket: directory.join("run/node.sock"),
            metrics: None,
            fence_command: words(fence),
            mount_command: words(&[
                "sh",
                "-c",
                "! test -e $1/broken && : >$1/mounted-$2",
                "sh",
                &shown,
                "{group}",
            ]),
            move_command: words(&["sh", "-c", "test \"$1 $2\" = 'home b'", "sh", "{group}", "{node}"]),
            group: vec![group],
        };
        let serves =
            ["sh", "-c", "trap '' HUP; printf '\"claimed\"' >&0; printf '\"ready\"' >&0; exec sleep 60"];
        let network = Arc::new(Noted::default());
        let program = serves.map(OsString::from).to_vec();
        let agent =
            Agent::start_with(config, program, Arc::clone(&network) as Arc<dyn Network>, None).unwrap();
        World { directory, network, agent }
    }

    fn ask(&self, command: Command) -> Answer {
        control::ask(&self.agent.socket, &command).unwrap()
    }

    fn state(&self) -> State {
        let Answer::Status(status) = self.ask(Command::Status) else { panic!("no status") };
        assert_eq!((&*status.node, &*status.groups[0].name), ("a", "home"));
        status.groups[0].state
    }

    fn config(&self) -> Config {
        Config::clone(&self.agent.config())
    }

    fn end(self) {
        self.agent.stop();
        fs::remove_dir_all(self.directory).unwrap();
    }
}

fn home() -> String {
    "home".to_owned()
}

#[test]
fn groups_are_started_shown_and_stopped_by_commands() {
    let world = World::new("commands", &[]);
    assert_eq!(world.ask(Command::Monitor { group: home() }), Answer::Stopped);
    assert_eq!(world.ask(Command::Start { group: home() }), Answer::Done);
    assert_eq!(world.state(), State::Serving);
    assert_eq!(world.ask(Command::Stop { group: home() }), Answer::Done);
    assert_eq!(world.ask(Command::Stop { group: home() }), Answer::Done, "again");
    assert_eq!(world.state(), State::Stopped);
    assert_eq!(world.ask(Command::Move { group: home(), to: "b".to_owned() }), Answer::Done);
    let Answer::Failed(reason) = world.ask(Command::Move { group: home(), to: "c".to_owned() }) else {
        panic!()
    };
    assert!(reason.contains("sh failed"), "{reason}");
    let Answer::Failed(reason) = world.ask(Command::Start { group: "other".to_owned() }) else { panic!() };
    assert!(reason.contains("no group \"other\""), "{reason}");
    world.end();
}

#[test]
fn a_link_that_is_gone_is_shown() {
    let world = World::new("link", &[]);
    for has_link in [true, false, true] {
        world.network.tell_link(has_link);
        assert_eq!(world.agent.status().has_link, has_link);
    }
    world.end();
}

#[test]
fn nothing_is_taken_over_without_fencing() {
    let take_over = |from: &str| Command::Takeover { group: home(), from: from.to_owned() };
    for (name, fence, part) in [
        ("unfenced", &[][..], "no `fence_command`"),
        ("fails", &["sh", "-c", "exit 1"][..], "was not fenced"),
        ("missing", &["/nonexistent/fence"][..], "cannot run /nonexistent/fence"),
    ] {
        let world = World::new(name, fence);
        let Answer::Failed(reason) = world.ask(take_over("b")) else { panic!("{name}") };
        assert!(reason.contains(part), "{reason}");
        assert_eq!((world.state(), world.network.take()), (State::Stopped, Vec::new()));
        assert!(!world.directory.join("mounted-home").exists(), "nothing is mounted either");
        world.end();
    }
    let world = World::new("fenced", &["sh", "-c", "test $1 = b", "sh", "{node}"]);
    let Answer::Failed(reason) = world.ask(take_over("a")) else { panic!() };
    assert!(reason.contains("is this machine"), "{reason}");
    fs::write(world.directory.join("broken"), "").unwrap();
    let Answer::Failed(reason) = world.ask(take_over("b")) else { panic!() };
    assert!(reason.contains("was not mounted"), "{reason}");
    assert_eq!(world.state(), State::Stopped);
    fs::remove_file(world.directory.join("broken")).unwrap();
    assert_eq!(world.ask(take_over("b")), Answer::Done);
    assert_eq!(world.state(), State::Serving);
    assert!(world.directory.join("mounted-home").exists());
    world.end();
}

#[test]
fn a_second_agent_is_refused_and_commands_that_make_no_sense_are_dropped() {
    let world = World::new("second", &[]);
    let second =
        Agent::start_with(world.config(), Vec::new(), Arc::clone(&world.network) as Arc<dyn Network>, None);
    assert!(second.err().unwrap().contains("another agent"));
    let mut stream = UnixStream::connect(&world.agent.socket).unwrap();
    io::Write::write_all(&mut stream, b"{\"start\": 7}\n").unwrap();
    assert_eq!(io::Read::read(&mut stream, &mut [0; 10]).unwrap(), 0);
    assert_eq!(world.state(), State::Stopped);
    world.end();
}

#[test]
fn commands_and_groups_that_are_not_served_follow_the_file_when_it_is_read_again() {
    let world = World::new("reload", &[]);
    let move_to = |to: &str| world.ask(Command::Move { group: home(), to: to.to_owned() });
    assert_eq!(world.ask(Command::Start { group: home() }), Answer::Done);
    let mut config = world.config();
    config.move_command = vec!["true".to_owned()];
    let other = Group {
        name: "other".to_owned(),
        addresses: vec!["10.0.0.6/24".parse().unwrap()],
        data: "/srv/other".into(),
        ..config.group[0].clone()
    };
    config.group.push(other);
    assert!(matches!(move_to("c"), Answer::Failed(_)));
    world.agent.reload(Ok(config.clone())).unwrap();
    assert_eq!(move_to("c"), Answer::Done);
    assert_eq!(world.ask(Command::Monitor { group: "other".to_owned() }), Answer::Stopped);
    assert_eq!(world.state(), State::Serving, "it was not stopped");

    let refused = |config: Config, part: &str| {
        let why = world.agent.reload(Ok(config)).unwrap_err();
        assert!(why.contains(part), "{why}");
    };
    refused(Config { group: Vec::new(), ..config.clone() }, "\"home\" is being served");
    assert!(matches!(world.ask(Command::Monitor { group: "other".to_owned() }), Answer::Failed(_)));
    world.agent.reload(Ok(config.clone())).unwrap();
    refused(Config { interface: "eth1".to_owned(), ..config.clone() }, "`interface` cannot change");
    assert_eq!(world.agent.reload(Err("line 3".to_owned())), Err("line 3".to_owned()));
    assert_eq!((world.config(), world.state()), (config.clone(), State::Serving));

    config.group.truncate(1);
    world.agent.reload(Ok(config.clone())).unwrap();
    let Answer::Failed(why) = world.ask(Command::Monitor { group: "other".to_owned() }) else { panic!() };
    assert!(why.contains("no group \"other\""), "{why}");
    assert_eq!(world.ask(Command::Stop { group: home() }), Answer::Done);
    config.group[0].addresses = vec!["10.0.0.7/24".parse().unwrap()];
    world.agent.reload(Ok(config)).unwrap();
    let Answer::Status(status) = world.ask(Command::Status) else { panic!() };
    assert_eq!(status.groups[0].addresses, ["10.0.0.7/24"]);
    world.end();
}

#[test]
fn all_else_is_applied_if_a_group_has_no_sockets() {
    let world = World::new("unbound", &[]);
    let mut config = world.config();
    config.mount_command = Vec::new();
    let group = |name: &str, address: &str| Group {
        name: name.to_owned(),
        addresses: vec![address.parse().unwrap()],
        ..world.config().group[0].clone()
    };
    config.group.extend([group("taken", Noted::TAKEN), group("free", "10.0.0.6/24")]);
    let why = world.agent.reload(Ok(config.clone())).unwrap_err();
    assert!(why.contains("cannot listen on 10.0.0.99:2049 for the group \"taken\""), "{why}");
    let names = |config: &Config| config.group.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (world.config().mount_command.len(), &*names(&world.config())),
        (0, &["home", "free"].map(str::to_owned)[..])
    );
    // A change that cannot be applied leaves the group as it was.
    config.group = vec![group("home", Noted::TAKEN)];
    world.agent.reload(Ok(config)).unwrap_err();
    assert_eq!(names(&world.config()), ["home"]);
    assert_eq!(world.config().group[0].addresses, ["10.0.0.5/24".parse().unwrap()]);
    assert_eq!(world.ask(Command::Start { group: home() }), Answer::Done);
    world.end();
}
