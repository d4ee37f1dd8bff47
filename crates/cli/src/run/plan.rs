//! What is to be started, and with which environment.

use super::carried::Carried;
use crate::mpi::launcher::{self, Launcher};
use crate::mpi::program::{self, Linked};
use crate::mpi::{Family, Mpi};
use crate::provider::{self, Provider};
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use sluice_runtime::Rails;
use sluice_runtime::settings::VARIABLES;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// What the user asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub ranks: Option<u32>,
    pub provider_path: Option<&'a str>,
    pub command: &'a [OsString],
}

/// What is done about it.
#[derive(Debug)]
pub struct Plan {
    /// The MPI that is used; none if the program calls libfabric or Portals itself.
    pub mpi: Option<Mpi>,
    /// Whether it calls Portals, whose library counts nothing for this command.
    pub is_portals: bool,
    /// How many ranks the launcher was told to start.
    ranks: Option<u32>,
    /// Variables and their values.
    pub environment: Vec<(&'static str, String)>,
    pub command: Vec<OsString>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Whether the launcher is told which variables ranks on other hosts get, by `-x`.
    pub forwards: bool,
    launcher: Option<Launcher>,
    /// Whether the launcher was told that root may use it.
    root_is_told: bool,
}

const ALLOW_ROOT: [&str; 2] = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];

impl Plan {
    /// Decides, or says why it cannot work. `lookup` knows the environment.
    pub fn make(request: &Request, lookup: impl Fn(&str) -> Option<String>) -> Result<Plan> {
        let words = request.command;
        let is_launcher = launcher::is_launcher(&words[0]);
        ensure!(
            !(is_launcher && request.ranks.is_some()),
            "-n is for a program; {} has an option of its own for the number of ranks",
            words[0].to_string_lossy()
        );
        let mut notes = Vec::new();
        let mut launcher = is_launcher.then(|| given_launcher(words)).transpose()?;
        let linked = seen(words, is_launcher)?;
        let is_portals = matches!(linked, Linked::Portals);
        let mpi = match linked {
            Linked::Mpi(mpi) => Some(mpi),
            Linked::Libfabric | Linked::Portals => None,
            Linked::Never(why) => bail!("{why}"),
            Linked::Unknown(why) => {
                let (mpi, assumed) = assume(launcher.as_ref());
                notes.push(format!("which MPI it uses cannot be seen, as {why}; {assumed}"));
                Some(mpi)
            }
        };
        if let Some(why) = mpi.as_ref().and_then(Mpi::refusal) {
            bail!("{why}");
        }
        let mut command = words.to_vec();
        if let Some(ranks) = request.ranks {
            let found = own_launcher(mpi.as_ref())?;
            let mut start = vec![found.path.clone().into(), "-n".into(), ranks.to_string().into()];
            if found.family == Some(Family::OpenMpi) && exceeds(ranks) && !is_told_slots(&lookup) {
                start.extend(OVERSUBSCRIBE.map(OsString::from));
                notes.push(format!(
                    "{ranks} ranks are more than this host has cores: they take turns"
                ));
            }
            command.splice(0..0, start);
            launcher = Some(found);
        }
        check_match(launcher.as_ref(), mpi.as_ref())?;
        let provider = find_provider(request.provider_path, &lookup, &mut notes)?;
        if let Some(mpi) = &mpi {
            notes.extend(provider.check(mpi).map_err(|why| anyhow::anyhow!("{why}"))?);
        }
        let forwards = launcher.as_ref().is_some_and(|own| own.family == Some(Family::OpenMpi))
            && may_forward(words, &lookup);
        if forwards {
            let names = forwarded(words, &lookup);
            command.splice(1..1, names.into_iter().flat_map(|name| ["-x".into(), name.into()]));
        }
        let environment = environment(mpi.as_ref(), &provider, &lookup, &mut notes);
        if is_launcher {
            notes.extend(contradictions(words));
        }
        let root_is_told = words.iter().any(|word| word == "--allow-run-as-root")
            || ALLOW_ROOT.iter().all(|name| lookup(name).is_some_and(|value| value == "1"));
        let ranks = request.ranks;
        Ok(Plan {
            mpi,
            is_portals,
            ranks,
            environment,
            command,
            notes,
            forwards,
            launcher,
            root_is_told,
        })
    }

    /// What was set, in a line.
    pub fn said(&self) -> String {
        let whose = match &self.mpi {
            None if self.is_portals => "Portals without an MPI".to_owned(),
            None => "libfabric without an MPI".to_owned(),
            Some(mpi) => match &mpi.library {
                Some(library) => format!("{mpi} ({})", library.display()),
                None => mpi.to_string(),
            },
        };
        let set: Vec<String> = self.assignments().collect();
        format!("{whose}, with {}", set.join(" "))
    }

    /// A command for a shell that does the same.
    pub fn to_shell(&self) -> String {
        let mut text = String::from("env");
        for assignment in self.assignments() {
            text.push_str(" \\\n    ");
            text.push_str(&assignment);
        }
        text.push_str(" \\\n    ");
        let words: Vec<String> =
            self.command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        text.push_str(&words.join(" "));
        text.push('\n');
        text
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let environment: serde_json::Map<String, Value> = self
            .environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let mpi = self.mpi.as_ref().map(|mpi| {
            json!({ "family": mpi.family.name(), "version": mpi.version, "library": mpi.library })
        });
        let command: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        json!({
            "mpi": mpi, "environment": environment, "command": command, "notes": self.notes,
        })
    }

    /// What may help, if Sluice carried nothing.
    pub fn hint(&self, code: u8, carried: &Carried) -> Option<String> {
        if carried.ranks > 0 {
            return None;
        }
        let open_mpi =
            self.launcher.as_ref().is_some_and(|own| own.family == Some(Family::OpenMpi));
        if code != 0 && open_mpi && rustix::process::geteuid().is_root() && !self.root_is_told {
            let [allow, confirm] = ALLOW_ROOT;
            return Some(format!(
                "mpirun starts nothing for root unless {allow}=1 and {confirm}=1 are set, or \
                 --allow-run-as-root is given"
            ));
        }
        let is_told = self.command.iter().any(|word| word == OVERSUBSCRIBE[1]);
        let lacks_slots = |ranks: &u32| code != 0 && open_mpi && !is_told && exceeds(*ranks);
        if let Some(ranks) = self.ranks.filter(lacks_slots) {
            let (mpirun, told) = (self.command[0].to_string_lossy(), OVERSUBSCRIBE.join(" "));
            return Some(format!(
                "mpirun starts one rank for each core of this host, unless it is told otherwise: \
                 sluice run -- {} -n {ranks} {told} PROGRAM",
                quoted(&mpirun)
            ));
        }
        let text = if self.is_portals {
            "what a Portals program sends is not counted here; PTL_TRACE=DIR keeps the last steps of \
             its messages"
        } else if code == 0 {
            "the program sent no message or has no MPI, or its MPI was told otherwise on the way"
        } else {
            "it ended before its MPI was ready; sluice doctor looks for the usual causes"
        };
        Some(text.to_owned())
    }

    fn assignments(&self) -> impl Iterator<Item = String> {
        self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)))
    }
}

/// Has Open MPI start more ranks than there are cores.
const OVERSUBSCRIBE: [&str; 2] = ["--map-by", ":OVERSUBSCRIBE"];

/// Whether Open MPI has been told otherwise how many ranks it may start: by the settings of its mapping, by
/// a list of hosts, or by the scheduler of whose job this is a part.
fn is_told_slots(lookup: &impl Fn(&str) -> Option<String>) -> bool {
    const NAMES: [&str; 9] = [
        "OMPI_MCA_rmaps_base_oversubscribe",
        "OMPI_MCA_rmaps_base_mapping_policy",
        "PRTE_MCA_rmaps_default_mapping_policy",
        "OMPI_MCA_orte_default_hostfile",
        "PRTE_MCA_prte_default_hostfile",
        "SLURM_JOB_ID",
        "PBS_JOBID",
        "LSB_JOBID",
        "PE_HOSTFILE",
    ];
    NAMES.iter().any(|name| lookup(name).is_some())
}

/// Whether so many ranks are more than this host has cores.
fn exceeds(ranks: u32) -> bool {
    let threads = std::thread::available_parallelism().map_or(usize::MAX, NonZero::get);
    let cores = cores_below(Path::new("/sys/devices/system/cpu")).unwrap_or(threads);
    ranks as usize > cores.min(threads)
}

/// Cores of the processors that the system shows in this directory: Open MPI starts one rank for each, however
/// many threads of hardware it has.
fn cores_below(dir: &Path) -> Option<usize> {
    let processors = fs::read_dir(dir).ok()?.flatten();
    let siblings = processors.filter_map(|processor| {
        fs::read_to_string(processor.path().join("topology/thread_siblings_list")).ok()
    });
    let cores: HashSet<String> = siblings.collect();
    (!cores.is_empty()).then_some(cores.len())
}

/// What the programs of a command are linked with: all the same, or a refusal.
fn seen(words: &[OsString], is_launcher: bool) -> Result<Linked> {
    if !is_launcher {
        return Ok(program::look(words, false));
    }
    let args = &words[1..];
    let programs = launcher::programs(args);
    let Some(&first) = programs.first() else {
        let name = words[0].to_string_lossy();
        return Ok(Linked::Unknown(format!("no program is named after {name}")));
    };
    let found = program::look(&args[first..], true);
    for &at in &programs[1..] {
        let other = program::look(&args[at..], true);
        if let (Linked::Mpi(one), Linked::Mpi(two)) = (&found, &other) {
            ensure!(one.family == two.family, "its programs use {one} and {two}, which never meet");
        }
        if let Linked::Never(why) = other {
            bail!("{why}");
        }
    }
    Ok(found)
}

fn given_launcher(words: &[OsString]) -> Result<Launcher> {
    let Some(path) = launcher::find(&words[0]) else {
        let name = words[0].to_string_lossy();
        bail!("{name} is not there; install the MPI of the program (Debian: openmpi-bin)");
    };
    Ok(Launcher::ask(&path))
}

/// The MPI if the program does not show it: that of the launcher, else Open MPI.
fn assume(launcher: Option<&Launcher>) -> (Mpi, String) {
    let from = launcher.and_then(|own| Some((own, own.family?)));
    let (family, version, assumed) = match from {
        Some((own, family)) => {
            let path = own.path.display();
            (family, own.version.clone(), format!("that of {path} is assumed"))
        }
        None => (Family::OpenMpi, None, "Open MPI is assumed".to_owned()),
    };
    // What transports it has is not known without its library.
    let libfabric = crate::mpi::Libfabric::Unknown;
    (Mpi { family, version, libfabric, library: None }, assumed)
}

fn own_launcher(mpi: Option<&Mpi>) -> Result<Launcher> {
    let (family, library) = match mpi {
        Some(mpi) => (mpi.family, mpi.library.as_deref()),
        None => (Family::OpenMpi, None),
    };
    let Some(found) = Launcher::of(family, library) else {
        let name = family.name();
        bail!(
            "no launcher of {name} is in PATH; install it (Debian: openmpi-bin), or name one: \
             sluice run -- /path/to/mpirun -n …"
        );
    };
    Ok(found)
}

/// A launcher of another MPI would start as many jobs of one rank as there are ranks.
fn check_match(launcher: Option<&Launcher>, mpi: Option<&Mpi>) -> Result<()> {
    let (Some(launcher), Some(mpi)) = (launcher, mpi) else { return Ok(()) };
    let Some(family) = launcher.family else { return Ok(()) };
    ensure!(
        family.starts(mpi.family),
        "{} is the launcher of {}, but the program uses {mpi}: each rank would be a job of its \
         own; use the launcher of {}",
        launcher.path.display(),
        family.name(),
        mpi.family.name()
    );
    Ok(())
}

fn find_provider(
    asked: Option<&str>,
    lookup: &impl Fn(&str) -> Option<String>,
    notes: &mut Vec<String>,
) -> Result<Provider> {
    if let Some(asked) = asked {
        return provider::find(&[PathBuf::from(asked)]).map_err(|why| anyhow::anyhow!("{why}"));
    }
    let set = lookup("FI_PROVIDER_PATH").filter(|path| !path.is_empty());
    let found = provider::find(&provider::directories(set.as_deref()));
    let found = found.map_err(|why| anyhow::anyhow!("{why}"))?;
    if let Some(set) = set
        && !provider::named(Some(&set)).iter().any(|dir| is_same_dir(dir, &found.dir))
    {
        let (file, dir) = (provider::FILE, found.dir.display());
        notes.push(format!("FI_PROVIDER_PATH={set} has no {file}; {dir} has"));
    }
    Ok(found)
}

fn is_same_dir(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The variables that lead messages to Sluice, and a note for each that said otherwise.
fn environment(
    mpi: Option<&Mpi>,
    provider: &Provider,
    lookup: &impl Fn(&str) -> Option<String>,
    notes: &mut Vec<String>,
) -> Vec<(&'static str, String)> {
    // libfabric hides all providers that are not named.
    let rails = lookup("FI_SLUICE_RAILS").and_then(|rails| rails.parse::<Rails>().ok());
    let rails = rails.unwrap_or_default();
    let providers: Vec<&str> = std::iter::once(provider::NAME).chain(rails.providers()).collect();
    let mut set = vec![
        ("FI_PROVIDER", providers.join(",")),
        ("FI_PROVIDER_PATH", provider.dir.display().to_string()),
    ];
    let parameters: &[(&str, &str)] = match mpi.map(|mpi| mpi.family) {
        None => &[],
        Some(Family::OpenMpi) => OPEN_MPI,
        Some(Family::Mpich | Family::Mvapich) => MPICH,
        Some(Family::IntelMpi) => INTEL_MPI,
    };
    set.extend(parameters.iter().map(|&(name, value)| (name, value.to_owned())));
    for (name, value) in set.iter().filter(|(name, _)| *name != "FI_PROVIDER_PATH") {
        if let Some(old) = lookup(name).filter(|old| old != value && !old.is_empty()) {
            notes.push(format!("{name} was {old}"));
        }
    }
    set
}

/// Names variables that Open MPI's launcher passes to ranks on other hosts. It passes its
/// own by itself, and refuses this beside `-x`.
const FORWARD: &str = "mca_base_env_list";

fn may_forward(words: &[OsString], lookup: &impl Fn(&str) -> Option<String>) -> bool {
    lookup(&format!("OMPI_MCA_{FORWARD}")).is_none() && !words.iter().any(|word| word == FORWARD)
}

/// What ranks on other hosts need of this environment, in addition to what the words of the
/// command pass to them already.
fn forwarded(words: &[OsString], lookup: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let given: Vec<String> = words
        .windows(2)
        .filter(|pair| pair[0] == "-x")
        .filter_map(|pair| Some(pair[1].to_str()?.split('=').next()?.to_owned()))
        .collect();
    let needed = ["FI_PROVIDER", "FI_PROVIDER_PATH"].map(str::to_owned);
    let logs = ["FI_LOG_LEVEL", "FI_LOG_PROV", "FI_LOG_SUBSYS"].map(str::to_owned);
    // The report is named when the command starts.
    let settings = VARIABLES.iter().map(|variable| variable.env());
    let settings = settings.filter(|name| name != super::carried::VARIABLE);
    let set = logs.into_iter().chain(settings).filter(|name| lookup(name).is_some());
    needed.into_iter().chain(set).filter(|name| !given.contains(name)).collect()
}

/// What leads the messages of each MPI to libfabric, those between ranks of one host too.
const OPEN_MPI: &[(&str, &str)] = &[
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_mtl_ofi_provider_include", provider::NAME),
];
const MPICH: &[(&str, &str)] = &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")];
const INTEL_MPI: &[(&str, &str)] = &[("I_MPI_FABRICS", "ofi")];

/// What the arguments of a launcher say against Sluice: they outdo the environment.
fn contradictions(words: &[OsString]) -> Vec<String> {
    let wanted = [("pml", "cm"), ("mtl", "ofi"), ("mtl_ofi_provider_include", provider::NAME)];
    let said = wanted.iter().filter_map(|(name, value)| {
        let given = launcher::parameter(words, name).filter(|given| given != value)?;
        Some(format!("--mca {name} {given} on the command line keeps its messages from Sluice"))
    });
    said.collect()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::Libfabric;

    fn mpi(family: Family) -> Mpi {
        Mpi { family, version: None, libfabric: Libfabric::Yes, library: None }
    }

    fn launcher(family: Option<Family>) -> Launcher {
        Launcher { path: "/usr/bin/mpirun".into(), family, version: Some("4.1.4".into()) }
    }

    fn provider() -> Provider {
        Provider { dir: "/opt/sluice".into(), libfabric: Some("/lib/libfabric.so.1".into()) }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a-b_c./d=1"), "a-b_c./d=1");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_launcher_of_another_mpi_is_refused() {
        let why = check_match(Some(&launcher(Some(Family::OpenMpi))), Some(&mpi(Family::Mpich)));
        assert!(why.expect_err("refused").to_string().contains("job of its own"));
        for (own, used) in [
            (Some(Family::OpenMpi), Family::OpenMpi),
            (Some(Family::Mpich), Family::IntelMpi),
            (None, Family::OpenMpi),
        ] {
            check_match(Some(&launcher(own)), Some(&mpi(used))).expect("taken");
        }
    }

    #[test]
    fn what_the_environment_said_before_is_told() {
        let lookup = |name: &str| (name == "FI_PROVIDER").then(|| "slice".to_owned());
        let mut notes = Vec::new();
        let set = environment(Some(&mpi(Family::OpenMpi)), &provider(), &lookup, &mut notes);
        assert!(set.contains(&("FI_PROVIDER", "sluice".into())));
        assert!(set.contains(&("FI_PROVIDER_PATH", "/opt/sluice".into())));
        assert!(set.contains(&("OMPI_MCA_pml", "cm".into())));
        assert_eq!(notes, ["FI_PROVIDER was slice"]);
        let rails = |name: &str| (name == "FI_SLUICE_RAILS").then(|| "tcp,ofi:udp;ofi_rxd".into());
        let set = environment(None, &provider(), &rails, &mut Vec::new());
        assert!(set.contains(&("FI_PROVIDER", "sluice,udp,ofi_rxd".into())));
        let without = environment(None, &provider(), &lookup, &mut notes);
        assert!(!without.iter().any(|(name, _)| name.starts_with("OMPI_")));
        let names = |family| {
            let set = environment(Some(&mpi(family)), &provider(), &lookup, &mut Vec::new());
            set.into_iter().map(|(name, _)| name).skip(2).collect::<Vec<_>>()
        };
        assert_eq!(names(Family::Mpich), ["MPIR_CVAR_CH4_NETMOD", "MPIR_CVAR_NOLOCAL"]);
        assert_eq!(names(Family::IntelMpi), ["I_MPI_FABRICS"]);
    }

    #[test]
    fn ranks_on_other_hosts_get_what_is_set() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let lookup = |name: &str| (name == "FI_SLUICE_DEVICES").then(|| "eth0".to_owned());
        let names = forwarded(&words("mpirun -n 2 app"), &lookup);
        assert_eq!(names, ["FI_PROVIDER", "FI_PROVIDER_PATH", "FI_SLUICE_DEVICES"]);
        let names = forwarded(&words("mpirun -x FI_SLUICE_DEVICES=ib0 -n 2 app"), &lookup);
        assert_eq!(names, ["FI_PROVIDER", "FI_PROVIDER_PATH"]);
        assert!(may_forward(&words("mpirun -n 2 app"), &lookup));
        assert!(!may_forward(&words("mpirun --mca mca_base_env_list A app"), &lookup));
        let set = |name: &str| (name == "OMPI_MCA_mca_base_env_list").then(|| "A".to_owned());
        assert!(!may_forward(&words("mpirun -n 2 app"), &set));
    }

    #[test]
    fn parameters_that_lead_elsewhere_are_told() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let said = contradictions(&words("mpirun --mca pml ob1 -n 2 app"));
        assert!(said.len() == 1 && said[0].contains("--mca pml ob1"), "{said:?}");
        assert!(contradictions(&words("mpirun --mca pml cm -n 2 app")).is_empty());
    }

    #[test]
    fn a_program_that_hides_its_mpi_is_taken_for_its_launchers() {
        let (mpi, said) = assume(Some(&launcher(Some(Family::Mpich))));
        assert!(mpi.family == Family::Mpich && said.contains("/usr/bin/mpirun"));
        assert_eq!(assume(Some(&launcher(None))).0.family, Family::OpenMpi);
        assert_eq!(assume(None).0.family, Family::OpenMpi);
    }

    #[test]
    fn threads_of_a_core_are_one() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(cores_below(dir.path()), None);
        for (cpu, siblings) in ["0,2", "1,3", "0,2", "1,3"].iter().enumerate() {
            let topology = dir.path().join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&topology).expect("made");
            fs::write(topology.join("thread_siblings_list"), siblings).expect("written");
        }
        fs::create_dir(dir.path().join("power")).expect("made");
        assert_eq!(cores_below(dir.path()), Some(2));
        assert_eq!(cores_below(Path::new("/nowhere")), None);
    }

    #[test]
    fn wrong_commands_are_told_apart() {
        let plan = |ranks, words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let request = Request { ranks, provider_path: None, command: &words };
            format!("{:#}", Plan::make(&request, |_| None).expect_err("refused"))
        };
        assert!(plan(Some(2), &["mpirun", "app"]).contains("-n is for a program"));
        assert!(plan(None, &["/nowhere/app"]).contains("is not there"));
    }
}
