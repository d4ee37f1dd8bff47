//! The MPIs that are installed, and whether Sluice can carry their messages.

use super::{Finding, State};
use crate::mpi::launcher::Launcher;
use crate::mpi::{Family, Libfabric, Mpi, library};
use std::env;
use std::path::PathBuf;

const TOPIC: &str = "MPI";

/// All checks.
pub fn check() -> Vec<Finding> {
    let launchers = Launcher::installed();
    let mpis = installed(&launchers);
    let mut findings: Vec<Finding> = mpis.iter().map(|mpi| judge(mpi, &launchers)).collect();
    if !findings.iter().any(|finding| finding.state == State::Ok) {
        let found = if mpis.is_empty() { "none is installed" } else { "none here can use Sluice" };
        let remedy =
            "install Open MPI 4.1 or 5 with libfabric (Debian: openmpi-bin, libopenmpi-dev)";
        findings.push(Finding::fault(TOPIC, found, remedy));
    }
    findings.extend(["pml", "mtl", "mtl_ofi_provider_include"].iter().filter_map(|name| {
        let variable = format!("OMPI_MCA_{name}");
        let value = env::var(&variable).ok()?;
        parameter(&variable, name, &value)
    }));
    findings
}

/// Those whose libraries the dynamic linker or a launcher leads to.
fn installed(launchers: &[Launcher]) -> Vec<Mpi> {
    let mut libraries = library::installed();
    for launcher in launchers {
        let Ok(real) = launcher.path.canonicalize() else { continue };
        let Some(prefix) = real.parent().and_then(|bin| bin.parent()) else { continue };
        let names = ["lib/libmpi.so", "lib/release/libmpi.so", "lib64/libmpi.so"];
        let found = names.iter().filter_map(|name| prefix.join(name).canonicalize().ok());
        let new: Vec<PathBuf> = found.filter(|path| !libraries.contains(path)).collect();
        libraries.extend(new);
    }
    let mut mpis: Vec<Mpi> = libraries.iter().filter_map(|path| library::identify(path)).collect();
    for mpi in &mut mpis {
        mpi.version = version_of(mpi, launchers);
    }
    // One that is there by its launcher alone.
    let alone = launchers.iter().filter_map(|own| Some((own, own.family?)));
    for (launcher, family) in alone {
        if !mpis.iter().any(|mpi| mpi.family == family) {
            let version = launcher.version.clone();
            mpis.push(Mpi { family, version, libfabric: Libfabric::Unknown, library: None });
        }
    }
    mpis
}

/// A launcher of the same series says its version to the end.
fn version_of(mpi: &Mpi, launchers: &[Launcher]) -> Option<String> {
    let own = mpi.version.as_deref().unwrap_or_default();
    let launcher = launchers.iter().find(|launcher| {
        launcher.family == Some(mpi.family)
            && launcher.version.as_ref().is_some_and(|version| version.starts_with(own))
    });
    launcher.and_then(|launcher| launcher.version.clone()).or_else(|| mpi.version.clone())
}

fn judge(mpi: &Mpi, launchers: &[Launcher]) -> Finding {
    let place = mpi.library.as_ref().map(|path| format!(" ({})", path.display()));
    let place = place.unwrap_or_default();
    if let Some(why) = mpi.refusal() {
        let (why, remedy) = why.rsplit_once("; ").unwrap_or((&why, "use Open MPI 4.1 or 5"));
        return Finding::warning(TOPIC, format!("{why}{place}"), remedy);
    }
    let launcher = launchers.iter().find(|launcher| launcher.family == Some(mpi.family));
    match launcher {
        Some(launcher) => {
            let path = launcher.path.display();
            Finding::ok(TOPIC, format!("{mpi}{place}, started by {path}"))
        }
        None => {
            let remedy = match mpi.family {
                Family::OpenMpi => "add its bin directory to PATH (Debian: install openmpi-bin)",
                _ => "add its bin directory to PATH",
            };
            Finding::warning(TOPIC, format!("{mpi}{place} has no launcher in PATH"), remedy)
        }
    }
}

/// A parameter of Open MPI in the environment that leads messages elsewhere.
fn parameter(variable: &str, name: &str, value: &str) -> Option<Finding> {
    let wanted = match name {
        "pml" => "cm",
        "mtl" => "ofi",
        _ => "sluice",
    };
    (value != wanted).then(|| {
        let said = format!("{variable}={value} leads messages past Sluice");
        Finding::warning(
            "Open MPI's parameters",
            said,
            format!("unset {variable}, or use sluice run, which sets it"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mpi(family: Family, version: &str, libfabric: Libfabric) -> Mpi {
        Mpi {
            family,
            version: Some(version.into()),
            libfabric,
            library: Some("/lib/libmpi.so".into()),
        }
    }

    fn launcher(version: &str) -> Launcher {
        let family = Some(Family::OpenMpi);
        Launcher { path: "/usr/bin/mpirun".into(), family, version: Some(version.into()) }
    }

    #[test]
    fn an_mpi_is_judged_with_its_launcher() {
        let open = mpi(Family::OpenMpi, "4.1", Libfabric::Yes);
        assert_eq!(judge(&open, &[launcher("4.1.4")]).state, State::Ok);
        assert_eq!(judge(&open, &[]).state, State::Warning);
        let mpich = mpi(Family::Mpich, "4.0", Libfabric::No("its device is ch4:ucx".into()));
        let found = judge(&mpich, &[launcher("4.1.4")]);
        assert_eq!(found.state, State::Warning);
        assert!(found.detail.contains("ch4:ucx"));
        assert!(found.remedy.is_some_and(|remedy| remedy.starts_with("use ")));
    }

    #[test]
    fn the_launcher_of_the_same_series_says_the_version() {
        let open = mpi(Family::OpenMpi, "4.1", Libfabric::Yes);
        let version = |own: &str| version_of(&open, &[launcher(own)]);
        assert_eq!(version("4.1.4").as_deref(), Some("4.1.4"));
        assert_eq!(version("5.0.3").as_deref(), Some("4.1"));
    }

    #[test]
    fn parameters_that_lead_elsewhere_are_warned_of() {
        assert_eq!(parameter("OMPI_MCA_pml", "pml", "cm"), None);
        let found = parameter("OMPI_MCA_pml", "pml", "ob1").expect("a warning");
        assert_eq!(found.state, State::Warning);
    }
}
