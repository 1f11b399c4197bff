//! A fixed stream of calls whose instructions are counted: no network, no threads, no clock, and the same numbers each
//! time. `cargo xtask perf instructions` runs it under callgrind and compares the counts with `docs/instructions.json`.
//!
//! Everything to be counted runs in [`counted`], once for each operation; everything else prepares it. Then [`print_count`]
//! prints the operation's name and count. Callgrind knows both functions by name: it counts within the first, and dumps
//! and resets its counters after the second.
//!
//! | module | holds |
//! |---|---|
//! | [`stream`] | the operations and their calls |
//! | [`nfs4`] | the operations of NFSv4 |
//! | [`server`] | the NFS service, and the steps of the server's threads |

mod nfs4;
mod server;
mod stream;

use std::process::ExitCode;

use server::{Record, Server};
use stream::{After, OPERATIONS, Prepared, Tree};

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1) {
        None => run(),
        Some(_) => Err("the program takes no arguments".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("instructions: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut server = Server::new()?;
    let tree = Tree::make(&mut server)?;
    for operation in OPERATIONS {
        let failed = |why: String| format!("{}: {why}", operation.name);
        // No operation pays for the work that an earlier one left.
        server.write_back();
        server.checkpoint();
        if operation.is_cold {
            server = server.reopened().map_err(failed)?;
        }
        let prepared = (operation.prepare)(&mut server, &tree).map_err(failed)?;
        counted(&mut server, &prepared).map_err(failed)?;
        if !server.succeeded() {
            return Err(failed("the last call did not succeed".to_owned()));
        }
        print_count(operation.name, prepared.count);
    }
    Ok(())
}

/// Executes what is counted.
#[inline(never)]
fn counted(server: &mut Server, prepared: &Prepared) -> Result<(), String> {
    for group in &prepared.groups {
        server.serve(group)?;
    }
    match prepared.after {
        After::Nothing => {}
        After::WriteBack => server.write_back(),
        After::Checkpoint => server.checkpoint(),
    }
    Ok(())
}

/// Prints how many operations were counted.
#[inline(never)]
fn print_count(name: &str, count: usize) {
    println!("{name}\t{count}");
}
