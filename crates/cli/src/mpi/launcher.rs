//! Launchers: whose they are, and where the program stands in their arguments.

use super::Family;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A launcher, as its `--version` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    pub path: PathBuf,
    /// Whose MPI it comes with; `None` for those of a resource manager.
    pub family: Option<Family>,
    pub version: Option<String>,
}

/// Whether a command of this name starts the processes of a job.
pub fn is_launcher(command: &OsStr) -> bool {
    let name = Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    let stem = name.split('.').next().unwrap_or_default();
    matches!(stem, "mpirun" | "mpiexec" | "orterun" | "prterun" | "prun" | "srun")
}

impl Launcher {
    /// Asks the launcher at `path` what it is.
    pub fn ask(path: &Path) -> Launcher {
        let output = Command::new(path).arg("--version").env("LC_ALL", "C").output();
        let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        let (family, version) = parse_version(&String::from_utf8_lossy(&text));
        Launcher { path: path.to_owned(), family, version }
    }

    /// The launchers that PATH leads to, each once.
    pub fn installed() -> Vec<Launcher> {
        let names = ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra"];
        let mut seen = Vec::new();
        let mut found = Vec::new();
        for path in names.iter().filter_map(|name| find(OsStr::new(name))) {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if !seen.contains(&real) {
                seen.push(real);
                found.push(Launcher::ask(&path));
            }
        }
        found
    }

    /// The launcher that starts programs of an MPI: beside its library, else in PATH.
    pub fn of(family: Family, library: Option<&Path>) -> Option<Launcher> {
        // Intel MPI's mpirun is a script that finds the other in PATH alone.
        let own: &[&str] = match family {
            Family::IntelMpi => &["mpiexec.hydra", "mpirun"],
            _ => &["mpirun"],
        };
        let bin = library.and_then(|library| Some(library.parent()?.parent()?.join("bin")));
        let beside = bin.iter().flat_map(|bin| own.iter().map(|name| bin.join(name)));
        let beside = beside.filter(|path| is_executable(path));
        let names: &[&str] = match family {
            Family::OpenMpi => &["mpirun", "mpirun.openmpi", "orterun"],
            _ => &["mpiexec.hydra", "mpirun", "mpirun.mpich", "mpiexec"],
        };
        let in_path = names.iter().filter_map(|name| find(OsStr::new(name)));
        beside
            .into_iter()
            .chain(in_path)
            .map(|path| Launcher::ask(&path))
            .find(|launcher| launcher.family.is_some_and(|own| own.starts(family)))
    }
}

/// Family and version in the words of a launcher.
fn parse_version(text: &str) -> (Option<Family>, Option<String>) {
    let family = if text.contains("(Open MPI)") || text.contains("OpenRTE") || text.contains("prte")
    {
        Some(Family::OpenMpi)
    } else if text.contains("Intel(R) MPI") {
        Some(Family::IntelMpi)
    } else if text.contains("HYDRA") {
        Some(Family::Mpich)
    } else {
        None
    };
    let word = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()));
    (family, word.map(str::to_owned))
}

/// Options that take one value as a word of its own, of all launchers.
const ONE_VALUE: &[&str] = &[
    "n",
    "np",
    "c",
    "N",
    "npernode",
    "npersocket",
    "ppn",
    "map-by",
    "rank-by",
    "bind-to",
    "x",
    "H",
    "host",
    "hosts",
    "hostfile",
    "machinefile",
    "default-hostfile",
    "f",
    "wdir",
    "wd",
    "path",
    "prefix",
    "output-filename",
    "output",
    "timeout",
    "app",
    "rf",
    "rankfile",
    "cpu-set",
    "cpu-list",
    "tune",
    "am",
    "genvlist",
    "envlist",
    "iface",
    "launcher",
    "rmk",
    "runtime-options",
    "display",
    "personality",
    "report-uri",
    "stdin",
    "p",
    "A",
    "J",
    "t",
    "w",
    "mpi",
    "cpu-bind",
    "ntasks",
    "nodes",
    "partition",
    "account",
    "cpus-per-task",
];
/// Options that take two.
const TWO_VALUES: &[&str] =
    &["mca", "gmca", "omca", "prtemca", "gprtemca", "pmixmca", "gpmixmca", "env", "genv"];

/// Where in the arguments of a launcher its programs stand, one for each part between
/// colons. An option that is not known here may have a value: then the first word
/// counts that is an executable.
pub fn programs(args: &[OsString]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < args.len() {
        match program_from(args, index) {
            Some(at) => {
                found.push(at);
                let colon = args[at..].iter().position(|word| word == ":");
                index = colon.map_or(args.len(), |colon| at + colon + 1);
            }
            None => break,
        }
    }
    found
}

fn program_from(args: &[OsString], mut index: usize) -> Option<usize> {
    let mut doubtful = false;
    while index < args.len() {
        let word = args[index].as_bytes();
        let Some(option) = word.strip_prefix(b"-") else {
            if !doubtful || find(&args[index]).is_some() {
                return Some(index);
            }
            index += 1;
            continue;
        };
        let option = option.strip_prefix(b"-").unwrap_or(option);
        if option.is_empty() {
            return (index + 1 < args.len()).then_some(index + 1);
        }
        let is = |name: &&str| name.as_bytes() == option;
        let values = if ONE_VALUE.iter().any(is) {
            1
        } else if TWO_VALUES.iter().any(is) {
            2
        } else {
            doubtful |= !option.contains(&b'=');
            0
        };
        index += 1 + values;
    }
    None
}

/// What the arguments of a launcher set a parameter of Open MPI to.
pub fn parameter(args: &[OsString], name: &str) -> Option<String> {
    let options = ["--mca", "-mca", "--gmca", "-gmca", "--omca"];
    let mut found = args
        .windows(3)
        .filter(|words| options.iter().any(|option| words[0] == *option) && words[1] == name);
    found.next().map(|words| words[2].to_string_lossy().into_owned())
}

/// The executable that a command leads to.
pub fn find(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return is_executable(&path).then_some(path);
    }
    if command.is_empty() {
        return None;
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(command)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn programs_stand_in_any_arguments_in_order(
            words in prop::collection::vec("-{0,2}(n|mca|x|new|=)?|:|[a-z0-9]{1,3}|\\PC{0,4}", 0..12),
        ) {
            let args: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let found = programs(&args);
            prop_assert!(found.iter().all(|&at| at < args.len()));
            prop_assert!(found.is_sorted_by(|one, other| one < other));
        }
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn program(text: &str) -> Option<String> {
        let args = words(text);
        programs(&args).first().map(|&at| args[at].to_string_lossy().into_owned())
    }

    #[test]
    fn the_program_stands_after_the_options_and_their_values() {
        for text in [
            "app --mca pml cm",
            "-n 2 app",
            "-np 2 --mca pml cm --mca btl self -x FI_LOG_LEVEL=info app",
            "--bind-to none --map-by core --host a,b -n 4 app -n 3",
            "--bind-to=none -n 2 app",
            "-genv FI_PROVIDER sluice -ppn 2 app",
            "-n 2 -- app",
        ] {
            assert_eq!(program(text).as_deref(), Some("app"), "{text}");
        }
        assert_eq!(program("-n 2"), None);
        assert_eq!(program(""), None);
    }

    #[test]
    fn after_an_unknown_option_the_first_executable_counts() {
        assert_eq!(program("--oversubscribe -n 2 sh -c true").as_deref(), Some("sh"));
        assert_eq!(program("--new-option some-value sh").as_deref(), Some("sh"));
    }

    #[test]
    fn each_part_between_colons_has_a_program() {
        let args = words("-n 1 one : -n 2 two x : three");
        let names: Vec<_> = programs(&args).into_iter().map(|at| args[at].clone()).collect();
        assert_eq!(names, ["one", "two", "three"]);
    }

    #[test]
    fn launchers_say_whose_they_are() {
        let ompi = Some(Family::OpenMpi);
        for (text, family, version) in [
            ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/", ompi, "4.1.4"),
            ("mpirun.openmpi (OpenRTE) 4.1.4\n", ompi, "4.1.4"),
            ("mpirun (Open MPI) 5.0.7\n", ompi, "5.0.7"),
            (
                "HYDRA build details:\n    Version:                                 4.0.2\n",
                Some(Family::Mpich),
                "4.0.2",
            ),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005",
                Some(Family::IntelMpi),
                "2021.11",
            ),
            ("slurm-wlm 22.05.8", None, "22.05.8"),
        ] {
            assert_eq!(parse_version(text), (family, Some(version.to_owned())), "{text}");
        }
        assert_eq!(parse_version("no such option"), (None, None));
    }

    #[test]
    fn names_of_launchers() {
        for name in ["mpirun", "/opt/bin/mpiexec.hydra", "mpirun.openmpi", "srun"] {
            assert!(is_launcher(OsStr::new(name)), "{name}");
        }
        for name in ["mpirunner", "python3", "./app", ""] {
            assert!(!is_launcher(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_parameter_of_the_command_line() {
        let args = words("-n 2 --mca pml ob1 app");
        assert_eq!(parameter(&args, "pml").as_deref(), Some("ob1"));
        assert_eq!(parameter(&args, "btl"), None);
    }
}
