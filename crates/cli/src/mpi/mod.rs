//! Which MPI a program is linked with, and whether Sluice can carry its messages.
//!
//! Nothing is loaded or started but the tools that look: `ldd` for the libraries of a
//! program (`program`), a Python interpreter for the place of its mpi4py, and a launcher
//! for its version (`launcher`). What a library is, its own bytes tell (`library`).

pub mod binary;
pub mod launcher;
pub mod library;
pub mod program;

use std::fmt;
use std::path::PathBuf;

/// An implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    OpenMpi,
    Mpich,
    IntelMpi,
    Mvapich,
}

impl Family {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::IntelMpi => "Intel MPI",
            Family::Mvapich => "MVAPICH",
        }
    }

    /// Whether the launcher of the one starts programs of the other: those that descend
    /// from MPICH speak PMI with each other's.
    pub fn starts(self, other: Family) -> bool {
        (self == Family::OpenMpi) == (other == Family::OpenMpi)
    }
}

/// Whether an MPI can send through libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libfabric {
    Yes,
    /// It cannot; what it has instead.
    No(String),
    /// This could not be seen.
    Unknown,
}

/// An MPI that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    pub family: Family,
    /// As much of its version as could be seen: `4.1`, `4.1.4`.
    pub version: Option<String>,
    pub libfabric: Libfabric,
    /// Its library, where that was found.
    pub library: Option<PathBuf>,
}

impl Mpi {
    /// Why Sluice cannot carry its messages, and the remedy.
    pub fn refusal(&self) -> Option<String> {
        if let Libfabric::No(instead) = &self.libfabric {
            let remedy = match self.family {
                Family::OpenMpi => "one that was configured with --with-ofi (Debian's is)",
                _ => "Open MPI 4.1 or 5, MPICH 5 of PyPI, or Intel MPI",
            };
            return Some(format!("{self} has no libfabric transport ({instead}); use {remedy}"));
        }
        match self.family {
            Family::OpenMpi if self.major().is_some_and(|major| major < 4) => {
                Some(format!("{self} is too old for Sluice; use Open MPI 4.1 or 5"))
            }
            _ => None,
        }
    }

    fn major(&self) -> Option<u32> {
        self.version.as_ref()?.split('.').next()?.parse().ok()
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family.name())?;
        match &self.version {
            Some(version) => write!(f, " {version}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mpi(family: Family, version: &str, libfabric: Libfabric) -> Mpi {
        Mpi { family, version: Some(version.to_owned()), libfabric, library: None }
    }

    #[test]
    fn an_mpi_with_libfabric_is_taken() {
        assert_eq!(mpi(Family::OpenMpi, "4.1.4", Libfabric::Yes).refusal(), None);
        assert_eq!(mpi(Family::OpenMpi, "5.0", Libfabric::Unknown).refusal(), None);
        assert_eq!(mpi(Family::Mpich, "5.0", Libfabric::Yes).refusal(), None);
        assert_eq!(mpi(Family::IntelMpi, "2021.18", Libfabric::Yes).refusal(), None);
        for (refused, why) in [
            (mpi(Family::OpenMpi, "3.1", Libfabric::Yes), "too old"),
            (mpi(Family::OpenMpi, "4.1", Libfabric::No("no mtl/ofi".into())), "--with-ofi"),
            (mpi(Family::Mpich, "4.0.2", Libfabric::No("ch4:ucx".into())), "ch4:ucx"),
        ] {
            let said = refused.refusal().expect("a refusal");
            assert!(said.contains(why) && said.contains("use "), "{said}");
        }
    }
}
