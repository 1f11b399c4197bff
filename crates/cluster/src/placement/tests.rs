use super::*;
use crate::config::{ClusterConfig, GroupConfig};
use crate::membership::Command;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

struct Cluster {
    membership: Membership,
    observed: Observed,
}

impl Cluster {
    fn new(nodes: &[&str], groups: &[(&str, &[&str])]) -> Cluster {
        let mut cluster = Cluster { membership: Membership::default(), observed: Observed::default() };
        for node in nodes {
            cluster.execute(Command::Add(name(node)));
            cluster.see(node, Presence::Steady);
        }
        let group = |(group, nodes): &(&str, &[&str])| GroupConfig {
            name: name(group),
            addresses: vec!["10.0.0.1/24".parse().unwrap()],
            ports: vec![2049],
            nodes: nodes.iter().map(|node| name(node)).collect(),
            config: None,
        };
        cluster.execute(Command::Apply(ClusterConfig { groups: groups.iter().map(group).collect() }));
        cluster
    }

    fn execute(&mut self, command: Command) {
        self.membership.execute(command, &self.observed).unwrap();
    }

    fn see(&mut self, node: &str, presence: Presence) {
        self.observed.nodes.insert(name(node), presence);
    }

    fn plan(&self) -> Vec<Move> {
        plan(&self.membership, &self.observed)
    }

    /// Makes plans until there is nothing to move. Returns what moved, as text.
    fn settle(&mut self) -> Vec<String> {
        let mut moved = Vec::new();
        loop {
            let plan = self.plan();
            if plan.is_empty() {
                return moved;
            }
            for change in plan {
                moved.push(format!("{}>{} {:?}", change.group, change.to, change.why));
                self.observed.owners.insert(change.group, change.to);
            }
            assert!(moved.len() < 1000, "groups move for ever: {moved:?}");
        }
    }

    fn owner(&self, group: &str) -> &str {
        self.observed.owners[&name(group)].as_str()
    }
}

#[test]
fn groups_go_where_they_prefer_to_be_and_others_where_there_is_least() {
    let mut cluster =
        Cluster::new(&["a", "b", "c"], &[("g1", &[]), ("g2", &["c", "a"]), ("g3", &["c"]), ("g4", &[])]);
    let moved = cluster.settle();
    assert_eq!(moved, ["g1>a Unserved", "g2>c Unserved", "g3>c Unserved", "g4>b Unserved"]);
}

#[test]
fn a_lost_node_loses_its_groups_and_gets_preferred_ones_back_once_it_is_steady() {
    let mut cluster = Cluster::new(&["a", "b"], &[("g1", &["a"]), ("g2", &["b"]), ("g3", &["a", "b"])]);
    cluster.settle();
    cluster.see("a", Presence::Absent);
    assert_eq!(cluster.settle(), ["g1>b Unserved", "g3>b Unserved"]);
    cluster.see("a", Presence::Returning);
    assert_eq!(cluster.settle(), Vec::<String>::new());
    cluster.see("a", Presence::Steady);
    assert_eq!(cluster.plan().len(), 1, "one at a time");
    assert_eq!(cluster.settle(), ["g1>a Preferred", "g3>a Preferred"]);
    cluster.see("a", Presence::Absent);
    cluster.settle();
    cluster.see("b", Presence::Absent);
    cluster.see("a", Presence::Returning);
    assert_eq!(cluster.settle().len(), 3, "a node that has just come is better than none");
}

#[test]
fn a_new_node_takes_its_part_and_a_drained_one_gives_all_away() {
    let groups: [(&str, &[&str]); 6] =
        [("g1", &[]), ("g2", &[]), ("g3", &[]), ("g4", &[]), ("g5", &[]), ("g6", &[])];
    let mut cluster = Cluster::new(&["a", "b"], &groups);
    cluster.settle();
    cluster.execute(Command::Add(name("c")));
    cluster.see("c", Presence::Returning);
    assert!(cluster.plan().is_empty());
    cluster.see("c", Presence::Steady);
    assert_eq!(cluster.settle(), ["g5>c Balance", "g6>c Balance"]);
    cluster.execute(Command::Drain(name("a")));
    let plan = cluster.plan();
    assert!(plan.len() == 2 && plan.iter().all(|change| change.from == Some(name("a"))), "{plan:?}");
    assert_eq!(cluster.settle(), ["g1>b Drained", "g3>c Drained"]);
    cluster.execute(Command::Remove(name("a")));
    assert_eq!(cluster.settle(), Vec::<String>::new());
    cluster.see("b", Presence::Absent);
    assert!(cluster.settle().iter().all(|moved| moved.contains(">c Unserved")));
}

#[test]
fn an_administrator_has_the_first_word() {
    let mut cluster = Cluster::new(&["a", "b"], &[("g1", &["a"]), ("g2", &[])]);
    cluster.settle();
    cluster.see("b", Presence::Returning);
    cluster.execute(Command::Move(name("g1"), name("b")));
    assert_eq!(cluster.settle()[0], "g1>b Wanted");
    cluster.execute(Command::Fence(name("b")));
    cluster.settle();
    assert_eq!((cluster.owner("g1"), cluster.owner("g2")), ("a", "a"), "whatever is heard of b");
}

#[test]
fn a_node_that_is_to_be_emptied_is_better_than_nobody() {
    let mut cluster = Cluster::new(&["a", "b"], &[("g1", &[])]);
    cluster.settle();
    cluster.execute(Command::Drain(name("b")));
    cluster.see("a", Presence::Absent);
    assert_eq!(cluster.settle(), ["g1>b Unserved"]);
    cluster.see("a", Presence::Steady);
    assert_eq!(cluster.settle(), ["g1>a Drained"]);
}

#[test]
fn candidates_begin_with_the_target_and_hold_every_node_that_can_serve() {
    let mut cluster = Cluster::new(&["a", "b", "c", "d"], &[("g1", &["c", "b"]), ("g2", &[])]);
    cluster.see("d", Presence::Absent);
    let order = candidates(&cluster.membership, &cluster.observed, &name("g1"));
    assert_eq!(order, ["c", "b", "a"].map(name));
    cluster.execute(Command::Fence(name("c")));
    let order = candidates(&cluster.membership, &cluster.observed, &name("g1"));
    assert_eq!(order, ["b", "a"].map(name));
}

/// Returns a cluster of random nodes and groups, in any state.
fn random_cluster(random: &mut fastrand::Rng) -> Cluster {
    let nodes: Vec<String> = (0..random.usize(1..7)).map(|number| format!("n{number}")).collect();
    let groups: Vec<String> = (0..random.usize(0..12)).map(|number| format!("g{number}")).collect();
    let preferences: Vec<Vec<&str>> = groups
        .iter()
        .map(|_| {
            let mut some: Vec<&str> = nodes.iter().map(String::as_str).collect();
            random.shuffle(&mut some);
            let count = if random.bool() { 0 } else { random.usize(0..=some.len()) };
            some.truncate(count);
            some
        })
        .collect();
    let all: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let named: Vec<(&str, &[&str])> =
        groups.iter().zip(&preferences).map(|(group, nodes)| (group.as_str(), &nodes[..])).collect();
    let mut cluster = Cluster::new(&all, &named);
    for group in &groups {
        if random.u8(..4) > 0 {
            cluster.observed.owners.insert(name(group), name(random.choice(&all).unwrap()));
        }
    }
    for _ in 0..random.usize(0..5) {
        disturb(random, &mut cluster, &all, &groups);
    }
    cluster
}

/// Something changes.
fn disturb(random: &mut fastrand::Rng, cluster: &mut Cluster, nodes: &[&str], groups: &[String]) {
    let node = *random.choice(nodes).unwrap();
    let presences = [Presence::Steady, Presence::Returning, Presence::Absent];
    match random.u8(..6) {
        0 => cluster.execute(Command::Drain(name(node))),
        1 => cluster.execute(Command::Undrain(name(node))),
        2 => cluster.execute(Command::Fence(name(node))),
        3 if !groups.is_empty() => {
            let command = Command::Move(name(random.choice(groups).unwrap()), name(node));
            let _ = cluster.membership.execute(command, &cluster.observed);
        }
        _ => cluster.see(node, random.choice(presences).unwrap()),
    }
}

/// While nothing changes, plans come to an end, whichever moves of a plan are made first; no group moves twice; every group is
/// served if any node is there; nothing moves that need not.
#[test]
fn plans_come_to_rest_and_move_no_group_twice() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut moves, mut voluntary) = (0, 0);
    for round in 0..4000 {
        let mut cluster = random_cluster(&mut random);
        let before = cluster.observed.owners.clone();
        let mut moved = BTreeSet::new();
        while let Some(change) = {
            let plan = cluster.plan();
            let urgent = plan.iter().filter(|change| change.why.is_urgent()).count();
            assert!(urgent == plan.len() || plan.len() == 1, "round {round}: {plan:?}");
            random.choice(plan)
        } {
            assert_ne!(change.from.as_ref(), Some(&change.to));
            assert!(moved.insert(change.group.clone()), "round {round}: {} moves twice", change.group);
            voluntary += u32::from(!change.why.is_urgent());
            moves += 1;
            cluster.observed.owners.insert(change.group, change.to);
        }
        check_rest(&cluster, &before, &moved, round);
    }
    assert!(moves > 1000 && voluntary > 100, "{moves} moves, {voluntary} of them not urgent");
}

fn check_rest(cluster: &Cluster, before: &BTreeMap<Name, Name>, moved: &BTreeSet<Name>, round: u32) {
    let view = View { membership: &cluster.membership, observed: &cluster.observed };
    let takers = view.takers();
    for group in cluster.membership.groups() {
        let owner = view.owner(group);
        assert_eq!(owner.is_some(), !takers.is_empty(), "round {round}: {group}");
        let Some(owner) = owner else { continue };
        assert!(takers.contains(&owner), "round {round}: {group} is on {owner}");
        if !moved.contains(group) {
            assert_eq!(before.get(group), Some(owner));
        }
        // An active node that is there and first among the wishes has its groups.
        let first = view.wishes(group).find(|node| view.can_take(node));
        if let Some(first) = first.filter(|node| view.presence(node) == Presence::Steady) {
            assert_eq!(owner, first, "round {round}: {group}");
        }
        let candidates = candidates(&cluster.membership, &cluster.observed, group);
        assert_eq!(candidates.first(), Some(owner), "round {round}: {group}");
    }
    // Groups that could be anywhere are balanced over steady nodes.
    let load =
        |node: &Name| cluster.membership.groups().filter(|group| view.owner(group) == Some(node)).count();
    let steady: Vec<&Name> =
        takers.into_iter().filter(|node| view.presence(node) == Presence::Steady).collect();
    if let Some(least) = steady.iter().map(|node| load(node)).min() {
        for group in cluster.membership.groups().filter(|group| view.wish(group).is_none()) {
            let owner = view.owner(group).expect("it is served");
            assert!(load(owner) < least + 2, "round {round}: {group} stays on {owner}");
        }
    }
}
