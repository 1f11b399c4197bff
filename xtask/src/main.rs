//! Project chores. People and continuous integration run the same commands: see `cargo xtask help`.
//!
//! | module | holds |
//! |---|---|
//! | [`ci`] | the stages of continuous integration and their time budgets |
//! | [`tidy`] | rules about the tree that no compiler checks |
//! | [`readme`] | runs the commands of `README.md` |
//! | [`guided`] | coverage-guided fuzzing with libFuzzer |
//! | [`e2e`] | a real Linux client in User-Mode-Linux guests, against the release binary |
//! | [`conformance`] | pynfs against the release binary |
//! | [`package`] | the Debian package and the container image |
//! | [`perf`] | the cost of operations |
//! | [`soak`] | long runs of the simulations, fuzzers and scenarios |
//! | [`document`] | the blocks of documents that chores follow |
//! | [`server`], [`ceph`], [`nfs`] | servers and clusters started by chores, and the client that calls them |
//! | [`work`] | the workload of a guest whose server is killed, and its verification |

use std::process::ExitCode;

mod ceph;
mod ci;
mod conformance;
mod document;
mod e2e;
mod guided;
mod nfs;
mod package;
mod perf;
mod process;
mod readme;
mod report;
mod server;
mod soak;
mod tidy;
mod work;

const HELP: &str = "\
Chores of the Holdfast project.

  cargo xtask tidy                 check the rules that no compiler checks
  cargo xtask ci STAGE...|all      run stages as continuous integration does
  cargo xtask e2e [SCENARIO...]    a real Linux client against the release binary (root, Debian)
  cargo xtask conformance [OPTION...]   pynfs against the release binary
  cargo xtask soak TEST            long runs of the simulations, fuzzers and scenarios
  cargo xtask perf [OPTION...]     measure the cost of operations
  cargo xtask package [deb|image]  make the Debian package and the container image
  cargo xtask help [COMMAND]       describe one of these commands
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::command(),
        ["ci", stages @ ..] => ci::command(stages),
        ["e2e", rest @ ..] => e2e::command(rest),
        ["conformance", rest @ ..] => conformance::command(rest),
        ["perf", rest @ ..] => perf::command(rest),
        ["package", rest @ ..] => package::command(rest),
        ["soak", rest @ ..] => soak::command(rest),
        ["guest-work", rest @ ..] => work::command(rest),
        ["help", command] => help(command),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => report::usage(HELP),
    }
}

fn help(command: &str) -> ExitCode {
    let text = match command {
        "tidy" => tidy::HELP,
        "ci" => ci::HELP,
        "e2e" => e2e::HELP,
        "conformance" => conformance::HELP,
        "perf" => perf::HELP,
        "package" => package::HELP,
        "soak" => soak::HELP,
        _ => return report::usage(HELP),
    };
    print!("{text}");
    ExitCode::SUCCESS
}
