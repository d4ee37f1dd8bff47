//! The library that libfabric loads: where it is, which version, and whether what it
//! needs is there.

use crate::mpi::library::LIBFABRIC;
use crate::mpi::{Mpi, binary, library};
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The name that libfabric knows it by.
pub const NAME: &str = "sluice";
/// The name of its file.
pub const FILE: &str = "libsluice-fi.so";
/// What its version begins with in its bytes (`crates/provider/src/report.rs`).
const IDENTITY: &[u8] = b"sluice-provider/";
const IDENTITY_BYTES_MAX: usize = 64;

/// The remedy if it is not found.
pub const LACKING: &str =
    "install libfabric (Debian: libfabric1), or set LD_LIBRARY_PATH to its directory";

/// A provider that this command can work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// What FI_PROVIDER_PATH is to be.
    pub dir: PathBuf,
    /// The libfabric that the dynamic linker gives it. Where there is none, it shares that of
    /// a process that has loaded one by itself, as the MPIs of PyPI do.
    pub libfabric: Option<PathBuf>,
}

impl Provider {
    /// Looks for the libfabric that programs of an MPI load it with. Gives what the user
    /// should know, if that cannot be seen.
    pub fn check(&self, mpi: &Mpi) -> Result<Option<String>, Unusable> {
        if self.libfabric.is_some() {
            return Ok(None);
        }
        let Some(mpi) = &mpi.library else {
            return Ok(Some(format!("{LIBFABRIC} is not found; the MPI has to bring its own")));
        };
        match library::libfabric_of(mpi) {
            Some(_) => Ok(None),
            None => {
                Err(Unusable::Lacks { file: self.dir.join(FILE), library: LIBFABRIC.to_owned() })
            }
        }
    }
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// In none of these directories.
    Missing(Vec<PathBuf>),
    /// It is of another version, or not this provider at all.
    OtherVersion { file: PathBuf, version: Option<String> },
    /// It needs a library that is not found.
    Lacks { file: PathBuf, library: String },
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Missing(dirs) => {
                let remedy = self.remedy();
                if let [dir] = &dirs[..] {
                    return write!(f, "{} has no provider {FILE}; {remedy}", dir.display());
                }
                let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
                write!(f, "the provider {FILE} is in none of {}; {remedy}", dirs.join(", "))
            }
            Unusable::OtherVersion { file, version } => {
                let file = file.display();
                let (own, remedy) = (own_version(), self.remedy());
                match version {
                    Some(version) => {
                        write!(f, "{file} is not of this version ({version}, not {own}); {remedy}")
                    }
                    None => write!(f, "{file} is not the provider of Sluice; {remedy}"),
                }
            }
            Unusable::Lacks { file, library } => {
                let file = file.display();
                write!(f, "{file} needs {library}, which is not found; {}", self.remedy())
            }
        }
    }
}

impl Unusable {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            Unusable::Missing(_) => {
                "build it (make build), or name its directory (FI_PROVIDER_PATH, --provider-path)"
                    .to_owned()
            }
            Unusable::OtherVersion { .. } => {
                "build or install command and provider together (make install)".to_owned()
            }
            Unusable::Lacks { .. } => LACKING.to_owned(),
        }
    }
}

/// The directories that are looked through, in order: what FI_PROVIDER_PATH says, beside
/// this command, and where `make install` and packages put the provider.
pub fn directories(provider_path: Option<&str>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = named(provider_path);
    if let Ok(own) = env::current_exe().and_then(fs::canonicalize)
        && let Some(dir) = own.parent()
    {
        dirs.push(dir.to_owned());
        dirs.extend(dir.parent().into_iter().flat_map(installed_below));
    }
    dirs
}

/// Where an installation below a prefix may have it. The last is Debian's.
fn installed_below(prefix: &Path) -> [PathBuf; 3] {
    let multiarch = format!("lib/{}-linux-gnu", env::consts::ARCH);
    ["lib", "lib64", &multiarch].map(|lib| prefix.join(lib).join("libfabric"))
}

/// The directories of a value of FI_PROVIDER_PATH.
pub fn named(provider_path: Option<&str>) -> Vec<PathBuf> {
    let entries = provider_path.into_iter().flat_map(|path| path.split(':'));
    entries.filter(|entry| !entry.is_empty()).map(PathBuf::from).collect()
}

/// The provider in the first of these directories that has one.
pub fn find(dirs: &[PathBuf]) -> Result<Provider, Unusable> {
    let Some(dir) = dirs.iter().find(|dir| dir.join(FILE).exists()) else {
        return Err(Unusable::Missing(dirs.to_vec()));
    };
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    let file = dir.join(FILE);
    let version = fs::read(&file).ok().and_then(|bytes| version_in(&bytes));
    if version.as_deref() != Some(own_version().as_str()) {
        return Err(Unusable::OtherVersion { file, version });
    }
    let libfabric = libfabric_of(&file)?;
    Ok(Provider { dir, libfabric })
}

/// The libfabric that the dynamic linker gives it, if any. All else has to be there.
fn libfabric_of(file: &Path) -> Result<Option<PathBuf>, Unusable> {
    let libraries = binary::libraries(file).unwrap_or_default();
    let missing = libraries.iter().find(|one| one.path.is_none() && one.name != LIBFABRIC);
    if let Some(missing) = missing {
        return Err(Unusable::Lacks { file: file.to_owned(), library: missing.name.clone() });
    }
    Ok(libraries.into_iter().find(|one| one.name == LIBFABRIC).and_then(|one| one.path))
}

fn own_version() -> String {
    format!("{}, wire version {}", env!("CARGO_PKG_VERSION"), sluice_wire::VERSION)
}

/// The version that the bytes of a provider name.
fn version_in(bytes: &[u8]) -> Option<String> {
    let start = binary::position(bytes, IDENTITY)? + IDENTITY.len();
    let rest = &bytes[start..bytes.len().min(start + IDENTITY_BYTES_MAX)];
    let end = rest.iter().position(|&byte| byte == b';')?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    let (version, wire) = text.split_once("/wire-")?;
    Some(format!("{version}, wire version {wire}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::{Family, Libfabric};

    #[test]
    fn a_provider_names_its_version_in_its_bytes() {
        let bytes = b"..sluice-provider/0.1.0/wire-1;..";
        assert_eq!(version_in(bytes).as_deref(), Some("0.1.0, wire version 1"));
        for other in [&b"sluice-provider/0.1.0/wire-1"[..], b"sluice-provider/;", b"", b"sluice"] {
            assert_eq!(version_in(other), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_name_a_version_or_none(rest in proptest::collection::vec(0_u8.., 0..80)) {
            let bytes = [IDENTITY, &rest[..]].concat();
            if let Some(version) = version_in(&bytes) {
                proptest::prop_assert!(version.len() <= IDENTITY_BYTES_MAX + ", wire version ".len());
            }
        }
    }

    #[test]
    fn a_provider_that_is_not_there_or_another_one_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let dirs = [dir.path().to_owned()];
        assert_eq!(find(&dirs), Err(Unusable::Missing(dirs.to_vec())));
        fs::write(dir.path().join(FILE), b"sluice-provider/0.0.1/wire-0;").expect("written");
        let why = find(&dirs).expect_err("another version").to_string();
        assert!(why.contains("0.0.1, wire version 0"), "{why}");
        fs::write(dir.path().join(FILE), b"").expect("written");
        assert!(
            find(&dirs).expect_err("none").to_string().contains("is not the provider of Sluice")
        );
    }

    #[test]
    fn what_the_user_names_is_looked_through_first() {
        let dirs = directories(Some("/one:/two:"));
        assert_eq!(dirs[..2], [PathBuf::from("/one"), PathBuf::from("/two")]);
        assert!(dirs.len() > 2);
    }

    #[test]
    fn installations_of_each_kind_are_looked_through() {
        let dirs = installed_below(Path::new("/usr"));
        assert_eq!(dirs[0], PathBuf::from("/usr/lib/libfabric"));
        assert!(dirs[2].ends_with(format!("lib/{}-linux-gnu/libfabric", env::consts::ARCH)));
    }

    #[test]
    fn an_mpi_may_bring_the_libfabric_that_the_system_lacks() {
        let dir = tempfile::tempdir().expect("a directory");
        let library = dir.path().join("libmpi.so.12");
        let provider = Provider { dir: "/opt".into(), libfabric: None };
        let mut mpi = Mpi {
            family: Family::Mpich,
            version: None,
            libfabric: Libfabric::Yes,
            library: Some(library),
        };
        let why = provider.check(&mpi).expect_err("there is none").to_string();
        assert!(why.contains("/opt/libsluice-fi.so needs libfabric.so.1"), "{why}");
        fs::write(dir.path().join(LIBFABRIC), "").expect("written");
        assert_eq!(provider.check(&mpi), Ok(None));
        mpi.library = None;
        let said = provider.check(&mpi).expect("taken").expect("a note");
        assert!(said.contains("bring its own"), "{said}");
    }
}
