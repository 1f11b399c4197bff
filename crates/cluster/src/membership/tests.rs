use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn config(groups: &[(&str, &[&str])]) -> ClusterConfig {
    let group = |(number, (group, nodes)): (usize, &(&str, &[&str]))| GroupConfig {
        name: name(group),
        addresses: vec![format!("10.0.0.{}/24", number + 1).parse().unwrap()],
        ports: vec![2049],
        nodes: nodes.iter().map(|node| name(node)).collect(),
        config: None,
    };
    ClusterConfig { groups: groups.iter().enumerate().map(group).collect() }
}

fn cluster() -> (Membership, Observed) {
    let (mut membership, observed) = (Membership::default(), Observed::default());
    for node in ["a", "b"] {
        membership.execute(Command::Add(name(node)), &observed).unwrap();
    }
    let config = config(&[("home", &["a", "b"]), ("work", &[])]);
    membership.execute(Command::Apply(config), &observed).unwrap();
    (membership, observed)
}

/// Executes a command that must be refused, and change nothing.
fn refused(membership: &mut Membership, command: Command, observed: &Observed) -> Refusal {
    let before = membership.clone();
    let refusal = membership.execute(command, observed).unwrap_err();
    assert_eq!(*membership, before);
    assert!(!refusal.to_string().is_empty());
    refusal
}

#[test]
fn nodes_come_go_and_change_their_duty() {
    let (mut membership, observed) = cluster();
    let again = refused(&mut membership, Command::Add(name("a")), &observed);
    assert_eq!(again, Refusal::AlreadyMember(name("a")));
    for command in [Command::Drain(name("c")), Command::Remove(name("c")), Command::Fence(name("c"))] {
        assert_eq!(refused(&mut membership, command, &observed), Refusal::UnknownNode(name("c")));
    }
    membership.execute(Command::Drain(name("a")), &observed).unwrap();
    assert_eq!(membership.duty(&name("a")), Some(Duty::Draining));
    membership.execute(Command::Undrain(name("a")), &observed).unwrap();
    assert_eq!(membership.duty(&name("a")), Some(Duty::Active));
    for number in 2..NODES_MAX {
        membership.execute(Command::Add(name(&format!("node{number}"))), &observed).unwrap();
    }
    assert_eq!(refused(&mut membership, Command::Add(name("c")), &observed), Refusal::TooManyNodes);
}

#[test]
fn a_node_that_serves_is_removed_only_if_it_is_fenced() {
    let (mut membership, mut observed) = cluster();
    observed.owners.insert(name("work"), name("b"));
    let serves = refused(&mut membership, Command::Remove(name("b")), &observed);
    assert_eq!(serves, Refusal::StillServes(name("b"), name("work")));
    membership.execute(Command::Fence(name("b")), &observed).unwrap();
    membership.execute(Command::Remove(name("b")), &observed).unwrap();
    assert_eq!(membership.duty(&name("b")), None);
}

#[test]
fn groups_are_moved_to_active_nodes_only() {
    let (mut membership, observed) = cluster();
    let mut refuse =
        |group: &str, node: &str| refused(&mut membership, Command::Move(name(group), name(node)), &observed);
    assert_eq!(refuse("other", "a"), Refusal::UnknownGroup(name("other")));
    assert_eq!(refuse("home", "c"), Refusal::UnknownNode(name("c")));
    membership.execute(Command::Drain(name("b")), &observed).unwrap();
    let refusal = refused(&mut membership, Command::Move(name("home"), name("b")), &observed);
    assert_eq!(refusal, Refusal::NotActive(name("b")));
    membership.execute(Command::Move(name("home"), name("a")), &observed).unwrap();
    assert_eq!(membership.wanted(&name("home")), Some(&name("a")));
    membership.execute(Command::Drain(name("a")), &observed).unwrap();
    assert_eq!(membership.wanted(&name("home")), None, "a drained node is wanted no more");
}

#[test]
fn a_new_configuration_keeps_what_goes_on() {
    let (mut membership, mut observed) = cluster();
    membership.execute(Command::Move(name("work"), name("b")), &observed).unwrap();
    observed.owners.insert(name("work"), name("b"));
    let without_work = config(&[("home", &[])]);
    let served = refused(&mut membership, Command::Apply(without_work), &observed);
    assert_eq!(served, Refusal::ServedGroups(vec![name("work")]));
    let stranger = config(&[("home", &["c", "a", "c"]), ("work", &[])]);
    let unknown = refused(&mut membership, Command::Apply(stranger), &observed);
    assert_eq!(unknown, Refusal::UnknownPreferences(vec![name("c")]));
    let other = config(&[("more", &[]), ("work", &["a"])]);
    membership.execute(Command::Apply(other), &observed).unwrap();
    assert_eq!(membership.groups().collect::<Vec<_>>(), [&name("more"), &name("work")]);
    assert_eq!(membership.wanted(&name("work")), Some(&name("b")));
    assert_eq!(membership.preferred(&name("work")).collect::<Vec<_>>(), [&name("a")]);
    assert_eq!(membership.group(&name("more")).unwrap().ports, [2049]);
}
