//! The engine and the reference model in lockstep: fixed seeds, and a new one each time.

use sim::call::{Call, CreateHow, Name, Obj, Operation, User};
use sim::proofs::model;
use sim::workload::{Event, Profile};
use volume::attributes::SetAttributes;

mod seeds;

#[test]
fn replies_and_trees_agree_with_the_model() {
    for seed in seeds::seeds(1, 6) {
        if let Err(failure) = model::run(seed, 700, Profile::default()) {
            panic!("{}", model::minimize(&failure, 600));
        }
    }
}

/// A random run found that the model took a file for a child of the directory that it was created in.
#[test]
fn a_file_has_no_parent() {
    let (root, directory, file) = (Obj(0), Obj(1), Obj(2));
    let (name, other, dots) = (Name(0), Name(1), Name(11));
    let set = SetAttributes::default();
    let calls = [
        Call::MakeDirectory { directory: root, name, set },
        Call::Create { directory, name, how: CreateHow::Guarded(set) },
        Call::Rename { from: directory, name, to: root, as_name: other },
        Call::RemoveDirectory { directory: root, name },
        Call::Create { directory: file, name: dots, how: CreateHow::Unchecked(set) },
    ];
    let operations = (1..).zip(calls).map(|(id, call)| Operation { id, client: 0, user: User::ROOT, call });
    let events: Vec<Event> = operations.map(Event::Call).collect();
    model::replay(1, &events).unwrap();
}
