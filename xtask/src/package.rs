//! Makes what operators install: a Debian package, and a container image. Both hold the same files, which come from `package/`
//! and from the program itself, and both are the same bytes whenever they are made of the same program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::process::{self, cargo, root, target_directory};
use crate::report::usage;

mod debian;
pub(crate) mod image;

/// What `cargo xtask help package` prints.
pub(crate) const HELP: &str = "\
cargo xtask package [--revision N] [deb|image]...: make the Debian package, the container image, or both, in the folder
`package` of the target directory, and print their paths.

  deb     needs dpkg-deb, strip and objdump
  image   an OCI archive with a static program; needs GNU tar, and libc.a of libc6-dev

  --revision N   the package's revision, 1 by default

The same program gives the same bytes: times of files are SOURCE_DATE_EPOCH, by default the time of the last commit.
";

/// The data directory of the package and of the image.
const DATA: &str = "/var/lib/holdfast";

/// Where both keep the configuration.
const CONFIGURATION: &str = "etc/holdfast/holdfast.toml";

/// The profile of the programs that packages hold.
const PROFILE: &str = "dist";

/// Time limit of a build.
const BUILD: Duration = Duration::from_secs(1800);

/// `cargo xtask package`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    let (mut revision, mut wanted) = (1, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--revision" => match words.next().and_then(|number| number.parse().ok()) {
                Some(number) => revision = number,
                None => return usage(HELP),
            },
            "deb" | "image" => wanted.push(*word),
            _ => return usage(HELP),
        }
    }
    if wanted.is_empty() {
        wanted = vec!["deb", "image"];
    }
    let folder = target_directory().join("package");
    for kind in wanted {
        let made = match kind {
            "deb" => build().and_then(|program| deb(&program, &folder, revision)),
            _ => image(&folder),
        };
        match made {
            Ok(path) => println!("{}", path.display()),
            Err(why) => {
                eprintln!("package: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Builds `holdfast` with the profile of packages, and returns the path of the program.
fn build() -> Result<PathBuf, String> {
    process::run(cargo(&["build", "--profile", PROFILE, "--locked", "--package", "holdfast"]), BUILD)?;
    Ok(target_directory().join(PROFILE).join("holdfast"))
}

/// Builds `holdfast` linked statically, and puts the program at `to`. Only the program itself is compiled for that: what it consists
/// of is the same as in other builds of the profile.
pub(crate) fn build_static(profile: &str, to: &Path) -> Result<(), String> {
    // glibc's allocator is the one whose settings and memory were measured, so this is not musl.
    let program = ["rustc", "--profile", profile, "--locked", "--package", "holdfast", "--bin", "holdfast"];
    process::run(cargo(&[&program[..], &["--", "-C", "target-feature=+crt-static"]].concat()), BUILD)?;
    let built = target_directory().join(profile).join("holdfast");
    fs::copy(&built, to).map(drop).map_err(process::at(&built))
}

/// Makes the Debian package of a build of `holdfast` in `folder`.
pub(crate) fn deb(program: &Path, folder: &Path, revision: u32) -> Result<PathBuf, String> {
    debian::make(program, folder, &format!("{}-{revision}", env!("CARGO_PKG_VERSION")))
}

/// Builds a static program, and makes the container image in `folder`.
fn image(folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(process::at(folder))?;
    let program = folder.join("holdfast.static");
    build_static(PROFILE, &program)?;
    let image = image::make(&program, folder)?;
    fs::remove_file(&program).map_err(process::at(&program))?;
    Ok(image)
}

/// Seconds since 1970 that all files of a package have as their time.
fn epoch() -> Result<String, String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut log = Command::new("git");
    process::output(log.args(["log", "-1", "--format=%ct"]).current_dir(root()))
        .map(|time| time.trim().to_owned())
}

/// Writes a file below `tree`, with its folders.
fn write(tree: &Path, name: &str, content: impl AsRef<[u8]>) -> Result<(), String> {
    let path = tree.join(name);
    let folder = path.parent().expect("the name is that of a file below the tree");
    fs::create_dir_all(folder).map_err(process::at(folder))?;
    fs::write(&path, content).map_err(process::at(&path))
}

/// Copies a file of the repository below `tree`.
fn copy(tree: &Path, name: &str, from: &str) -> Result<(), String> {
    let source = root().join(from);
    write(tree, name, fs::read(&source).map_err(process::at(&source))?)
}

/// Compresses a file as `gzip -9` does, without its time. The result has the suffix `.gz`.
fn compress(path: &Path) -> Result<(), String> {
    process::output(Command::new("gzip").args(["-9", "-n", "-f"]).arg(path)).map(|_| ())
}

/// Removes what debuggers need. The names of functions stay, for backtraces.
fn strip(program: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().expect("the program lies in a folder");
    fs::create_dir_all(folder).map_err(process::at(folder))?;
    process::output(Command::new("strip").arg("--strip-debug").arg(program).arg("-o").arg(to)).map(|_| ())
}

/// The example of the configuration with the data directory of packages, and perhaps other addresses to listen on.
fn configuration(program: &Path, listen: Option<&str>) -> Result<String, String> {
    let example = process::output(Command::new(program).args(["config", "example"]))?;
    let text = replace(&example, "#data = ", &format!("data = \"{DATA}\""))?;
    match listen {
        Some(listen) => replace(&text, "listen = ", &format!("listen = {listen}")),
        None => Ok(text),
    }
}

/// Replaces the first line that begins so.
fn replace(text: &str, beginning: &str, line: &str) -> Result<String, String> {
    let old = text.lines().find(|line| line.starts_with(beginning));
    let old = old.ok_or_else(|| format!("the example of the configuration has no line {beginning:?}"))?;
    Ok(text.replacen(old, line, 1))
}

/// Gives everything below `tree` the modes of installed files, and one time.
fn settle(tree: &Path, epoch: &str) -> Result<(), String> {
    let modes = "u=rwX,go=rX";
    process::output(Command::new("chmod").args(["-R", modes]).arg(tree))?;
    let mut touch = Command::new("find");
    touch.arg(tree).args(["-exec", "touch", "--no-dereference", "--date", &format!("@{epoch}"), "{}", "+"]);
    process::output(&mut touch).map(|_| ())
}

/// Empties a folder, and creates it if need be.
fn fresh(folder: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(process::at(folder))
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn a_line_of_the_example_is_replaced_once() {
        assert_eq!(
            replace("a\n#data = 1\n#data = 2\n", "#data = ", "data = 3").unwrap(),
            "a\ndata = 3\n#data = 2\n"
        );
        assert!(replace("a\n", "#data = ", "data = 3").is_err());
    }
}
