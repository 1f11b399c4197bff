//! Project chores, so that a person and a machine run the same commands: `cargo xtask help`.
//!
//! | module | holds |
//! |---|---|
//! | [`ci`] | the stages and their time budgets |
//! | [`tidy`] | rules about the tree that no compiler checks |
//! | [`readme`] | the commands of `README.md`, tried in a clean clone |
//! | [`guided`] | libFuzzer on the fuzz targets |
//! | [`e2e`] | a real Linux client in User-Mode-Linux guests, against the release binary |
//! | [`conformance`] | pynfs against the release binary |
//! | [`perf`] | what operations cost |
//! | [`soak`] | the same proofs, for as long as one likes |
//! | [`work`] | what a guest does while its server is killed, and how that is judged |

use std::process::ExitCode;

mod ci;
mod conformance;
mod e2e;
mod guided;
mod perf;
mod process;
mod readme;
mod report;
mod soak;
mod tidy;
mod work;

const HELP: &str = "\
Chores of the Holdfast project.

  cargo xtask tidy                 check the rules that no compiler checks
  cargo xtask ci STAGE...|all      run stages as continuous integration does
  cargo xtask e2e [SCENARIO...]    a real Linux client against the release binary (root, Debian)
  cargo xtask conformance [OPTION...]   pynfs against the release binary
  cargo xtask soak PROOF           the long versions of the proofs
  cargo xtask perf [OPTION...]     what operations cost
  cargo xtask help [COMMAND]       more about one of these
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
        "soak" => soak::HELP,
        _ => return report::usage(HELP),
    };
    print!("{text}");
    ExitCode::SUCCESS
}
