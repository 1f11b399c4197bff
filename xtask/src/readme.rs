//! Runs the commands of `README.md`, as a newcomer would. The first one must serve; the second one must be the command of the
//! stage `test`. Those on volumes must work while the first one serves.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{self, root, target_directory};

/// The command of the stage `test`, without `--locked`.
pub(crate) const TEST: [&str; 2] = ["test", "--workspace"];
/// The heading above the two commands.
const HEADING: &str = "## Start";
/// The heading above the commands on volumes.
const VOLUMES: &str = "## Volumes";
/// How each command of the binary that the first command built begins.
const BINARY: &str = "target/release/holdfast ";
/// Printed by the first command when it serves.
const READY: &str = "Stop with";
/// Mount commands that it must have printed by then.
const MOUNTS: [&str; 2] = ["sudo mount -t nfs -o vers=3", "sudo mount_nfs -o vers=3"];
/// Time limit from SIGTERM to exit.
const STOP: Duration = Duration::from_secs(20);

/// The beginning of the first command.
const RUN: &str = "cargo run ";

/// Runs the commands in an empty folder, which gets the data that a newcomer's clone would. The build takes most of `budget`.
pub(crate) fn check(budget: Duration) -> Result<String, String> {
    let end = Instant::now() + budget;
    let scratch = target_directory().join("readme");
    let _ = fs::remove_dir_all(&scratch);
    let folder = scratch.join("folder");
    fs::create_dir_all(&folder).map_err(process::at(&folder))?;
    let readme = root().join("README.md");
    let text = fs::read_to_string(&readme).map_err(process::at(&readme))?;
    let [serve, test] = commands(&text)?;
    if test != format!("cargo {}", TEST.join(" ")) {
        return Err(format!("README.md says `{test}`, but the stage `test` runs `cargo {}`", TEST.join(" ")));
    }
    let log = scratch.join("log");
    let mut server = start(&serve, &folder, &log)?;
    let outcome = wait_until_ready(&mut server, &log, end).and_then(|()| use_volumes(&text, &folder));
    let output = fs::read_to_string(&log).unwrap_or_default();
    let outcome = outcome.and_then(|()| stop(&mut server)).and_then(|()| {
        let missing = MOUNTS.iter().find(|mount| !output.contains(**mount));
        missing.map_or(Ok(()), |mount| Err(format!("does not print `{mount}`")))
    });
    if let Err(why) = outcome {
        process::stop(&mut server);
        return Err(format!("`{serve}`: {why}\n{output}"));
    }
    fs::remove_dir_all(&scratch).map_err(process::at(&scratch))?;
    Ok(format!("`{serve}` serves volumes that come and go, and stops on SIGTERM"))
}

/// Returns the two commands below the heading.
fn commands(readme: &str) -> Result<[String; 2], String> {
    let commands = blocks(readme, HEADING)?;
    commands.try_into().map_err(|_| "README.md must have two commands below \"Start\"".to_owned())
}

/// Returns the blocks of commands below a heading.
fn blocks(readme: &str, heading: &str) -> Result<Vec<String>, String> {
    let (_, section) =
        readme.split_once(heading).ok_or_else(|| format!("README.md has no heading \"{heading}\""))?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("\n```").next());
    Ok(blocks.map(str::to_owned).collect())
}

/// Runs the commands on volumes, while the server runs; `top` for one table.
fn use_volumes(readme: &str, folder: &Path) -> Result<(), String> {
    let blocks = blocks(readme, VOLUMES)?;
    let commands: Vec<&str> = blocks.iter().flat_map(|block| block.lines()).collect();
    for verb in ["create", "resize", "delete"] {
        let begin = format!("{BINARY}volume {verb} ");
        if !commands.iter().any(|command| command.starts_with(&begin)) {
            return Err(format!("README.md has no `{begin}` below \"{VOLUMES}\""));
        }
    }
    for command in commands {
        let arguments =
            command.strip_prefix(BINARY).ok_or_else(|| format!("`{command}` is not `{BINARY}`"))?;
        let once = if arguments.starts_with("top ") { " --count 1" } else { "" };
        let binary = target_directory().join("release/holdfast");
        let line = format!("exec \"$0\" {arguments}{once}");
        process::output(Command::new("sh").args(["-c", &line]).arg(binary).current_dir(folder))?;
    }
    Ok(())
}

/// Runs the command on the sources of this clone. As root it runs in a network namespace of its own, so that port 2049 is free.
fn start(command: &str, folder: &Path, log: &Path) -> Result<Child, String> {
    let rest = command.strip_prefix(RUN).ok_or_else(|| format!("`{command}` does not begin with `{RUN}`"))?;
    let manifest = root().join("Cargo.toml");
    let out = File::create(log).map_err(process::at(log))?;
    let errors = out.try_clone().map_err(process::at(log))?;
    let is_root = process::is_root();
    let set_up = if is_root { "ip link set lo up && " } else { "" };
    let mut shell = Command::new(if is_root { "unshare" } else { "sh" });
    if is_root {
        shell.args(["--net", "sh"]);
    } else if let Err(error) = TcpListener::bind(("127.0.0.1", 2049)) {
        return Err(format!("cannot bind port 2049, which README.md uses: {error}"));
    }
    let command = format!("{set_up}exec {RUN}--manifest-path \"$0\" {rest}");
    shell.args(["-c", &command]).arg(manifest).current_dir(folder);
    // Reuses the dependencies that are built already.
    shell.env("CARGO_TARGET_DIR", target_directory()).stdout(out).stderr(errors);
    process::start(&mut shell)
}

fn wait_until_ready(server: &mut Child, log: &Path, end: Instant) -> Result<(), String> {
    while Instant::now() < end {
        if fs::read_to_string(log).is_ok_and(|output| output.contains(READY)) {
            return Ok(());
        }
        if let Ok(Some(status)) = server.try_wait() {
            return Err(format!("exited at once: {status}"));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err("does not serve in time".to_owned())
}

fn stop(server: &mut Child) -> Result<(), String> {
    process::signal(server, "TERM");
    match process::wait(server, STOP) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("exits with {status} after SIGTERM")),
        None => Err(format!("still runs {} s after SIGTERM", STOP.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn exactly_two_commands_must_follow_the_heading() {
        let readme = "# X\n```sh\nno\n```\n## Start\nText\n```sh\none --flag\n```\nText\n```sh\ntwo\n```\n\n## More\n```sh\nno\n```\n";
        assert_eq!(commands(readme).unwrap(), ["one --flag", "two"]);
        assert!(commands("## Start\n```sh\none\n```\n").is_err());
        assert!(commands("# X\n```sh\none\n```\n").is_err());
    }
}
