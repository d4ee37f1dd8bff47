//! Which MPI a library is: by its name, what it needs, and the texts within it.

use super::binary::{self, Binary};
use super::{Family, Libfabric, Mpi};
use std::fs;
use std::path::{Path, PathBuf};

/// The library that an MPI and the provider share.
pub const LIBFABRIC: &str = "libfabric.so.1";

/// What only the library of one implementation, or a program that it is linked into,
/// has in it. The first that is found counts: Intel MPI and MVAPICH descend from MPICH.
const MARKS: [(&str, Family); 4] = [
    ("Intel(R) MPI Library", Family::IntelMpi),
    ("MVAPICH Version", Family::Mvapich),
    ("MPICH Version:", Family::Mpich),
    ("Open MPI v%d.%d.%d", Family::OpenMpi),
];

/// What a program has in it that one of them is linked into. The linker leaves out what
/// is not called, the texts above for instance; these are of what `MPI_Init` calls.
const LINKED_IN: [(&str, Family); 3] = [
    ("I_MPI_FABRICS", Family::IntelMpi),
    ("MPIR_CVAR_", Family::Mpich),
    ("ompi_mpi_init", Family::OpenMpi),
];

/// The devices of MPICH, which name its transport.
const DEVICES: [&str; 5] = ["ch4:ofi", "ch4:ucx", "ch3:nemesis", "ch3:sock", "ch4:stubnm"];

/// Whether a library of this name holds an MPI.
pub fn is_mpi(name: &str) -> bool {
    ["libmpi.so", "libmpich.so", "libmpi_abi.so", "libmpi_mt.so"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The MPI whose library this is. `None` if it cannot be read or is none that is known.
pub fn identify(path: &Path) -> Option<Mpi> {
    let real = fs::canonicalize(path).ok()?;
    let bytes = fs::read(&real).ok()?;
    let binary = Binary::read(&bytes)?;
    let family = family_in(&bytes)?;
    let (version, libfabric) = match family {
        Family::OpenMpi => (open_mpi_version(&real, &binary), open_mpi_libfabric(&real, &bytes)),
        Family::IntelMpi => (None, Libfabric::Yes),
        Family::Mpich | Family::Mvapich => (None, mpich_libfabric(&binary, &bytes)),
    };
    Some(Mpi { family, version, libfabric, library: Some(real) })
}

/// The implementation whose library these bytes are.
fn family_in(bytes: &[u8]) -> Option<Family> {
    marked(bytes, &MARKS)
}

/// The implementation that is linked into these bytes, which are a program.
pub fn linked_in(bytes: &[u8]) -> Option<Family> {
    marked(bytes, &MARKS).or_else(|| marked(bytes, &LINKED_IN))
}

fn marked(bytes: &[u8], marks: &[(&str, Family)]) -> Option<Family> {
    let found = marks.iter().find(|(mark, _)| binary::position(bytes, mark.as_bytes()).is_some());
    found.map(|&(_, family)| family)
}

/// By the number of its interface: `libmpi.so.40.30.4` is of 4.1. All since 3.0 begin
/// with 40.
fn open_mpi_version(real: &Path, binary: &Binary) -> Option<String> {
    let name = real.file_name()?.to_str()?;
    let series = match name.strip_prefix("libmpi.so.40.").and_then(|rest| rest.split('.').next()) {
        Some("10") => "3.0",
        Some("20") => "4.0",
        Some("30") => "4.1",
        Some("40") => "5.0",
        Some("50") => "6.0",
        // Without it: version 5 has no runtime library of its own any more.
        _ if binary.needs("libopen-rte") => "4",
        _ if binary.needs("libopen-pal") => "5",
        _ => return None,
    };
    Some(series.to_owned())
}

/// Whether it has the component `mtl/ofi`, in a file of its own or linked in.
fn open_mpi_libfabric(real: &Path, bytes: &[u8]) -> Libfabric {
    if binary::position(bytes, b"mca_mtl_ofi_component").is_some() {
        return Libfabric::Yes;
    }
    let Some(dir) = real.parent() else { return Libfabric::Unknown };
    let places = ["openmpi", "openmpi3", "openmpi/lib/openmpi", "openmpi/lib/openmpi3"];
    let mut has_components = false;
    for place in places.map(|place| dir.join(place)) {
        if place.join("mca_mtl_ofi.so").exists() {
            return Libfabric::Yes;
        }
        has_components |= has_component(&place);
    }
    if has_components {
        Libfabric::No("no component mtl/ofi".to_owned())
    } else {
        Libfabric::Unknown
    }
}

fn has_component(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("mca_"))
}

fn mpich_libfabric(binary: &Binary, bytes: &[u8]) -> Libfabric {
    let device = DEVICES.iter().find(|device| has_word(bytes, device));
    match device {
        Some(&"ch4:ofi") => Libfabric::Yes,
        Some(device) => Libfabric::No(format!("its device is {device}")),
        None if binary.needs("libfabric.so") => Libfabric::Yes,
        None => Libfabric::Unknown,
    }
}

/// Whether the bytes have this text as a whole string of C. The options that MPICH was
/// configured with name devices, too.
fn has_word(bytes: &[u8], word: &str) -> bool {
    let whole: Vec<u8> = [b"\0", word.as_bytes(), b"\0"].concat();
    binary::position(bytes, &whole).is_some()
}

/// The libfabric that the library of an MPI loads: as one of its own libraries, or from where
/// the MPIs of PyPI and Intel keep it.
pub fn libfabric_of(library: &Path) -> Option<PathBuf> {
    let own = binary::libraries(library).unwrap_or_default();
    let linked = own.into_iter().find(|library| library.name == LIBFABRIC);
    if let Some(path) = linked.and_then(|library| library.path) {
        return Some(path);
    }
    let dir = library.parent()?;
    let places = ["", "openmpi", "mpich", "../libfabric/lib", "../opt/mpi/libfabric/lib"];
    places.iter().map(|place| dir.join(place).join(LIBFABRIC)).find(|path| path.exists())
}

/// The libraries of MPI that the dynamic linker knows, each once.
pub fn installed() -> Vec<PathBuf> {
    let tool = ["/sbin/ldconfig", "ldconfig"].into_iter().find_map(|tool| {
        std::process::Command::new(tool).arg("-p").env("LC_ALL", "C").output().ok()
    });
    let text = tool.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let mut found: Vec<PathBuf> = Vec::new();
    for line in text.unwrap_or_default().lines() {
        let Some((name, path)) = line.trim().split_once(" => ") else { continue };
        if !is_mpi(name) {
            continue;
        }
        if let Ok(real) = fs::canonicalize(path.trim())
            && !found.contains(&real)
        {
            found.push(real);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::binary::fabricate;

    /// An MPI's library below a directory of its own.
    fn library(name: &str, needed: &[&str], text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(name);
        fs::write(&path, fabricate(needed, text)).expect("written");
        (dir, path)
    }

    #[test]
    fn open_mpi_is_known_by_its_text_and_its_number() {
        let (dir, path) =
            library("libmpi.so.40.30.4", &["libopen-rte.so.40"], b"Open MPI v%d.%d.%d\0");
        let mpi = identify(&path).expect("an MPI");
        assert_eq!((mpi.family, mpi.version.as_deref()), (Family::OpenMpi, Some("4.1")));
        assert_eq!(mpi.libfabric, Libfabric::Unknown);
        // Components without the one that is wanted, then with it.
        let components = dir.path().join("openmpi");
        fs::create_dir(&components).expect("made");
        fs::write(components.join("mca_pml_ob1.so"), "").expect("written");
        assert!(matches!(identify(&path).expect("an MPI").libfabric, Libfabric::No(_)));
        fs::write(components.join("mca_mtl_ofi.so"), "").expect("written");
        assert_eq!(identify(&path).expect("an MPI").libfabric, Libfabric::Yes);
    }

    #[test]
    fn open_mpi_5_has_its_components_within() {
        let text = b"Open MPI v%d.%d.%d\0mca_mtl_ofi_component\0";
        let (_dir, path) = library("libmpi.so.40.40.7", &["libopen-pal.so.80"], text);
        let mpi = identify(&path).expect("an MPI");
        assert_eq!((mpi.version.as_deref(), mpi.libfabric), (Some("5.0"), Libfabric::Yes));
        let (_dir, renamed) = library("libmpi.so.40", &["libopen-pal.so.80"], text);
        assert_eq!(identify(&renamed).expect("an MPI").version.as_deref(), Some("5"));
    }

    #[test]
    fn mpich_is_known_by_its_device() {
        let text = b"MPICH Version:\t%s\n\0--with-device=ch4:ofi\0ch4:ucx\0";
        let (_dir, path) = library("libmpich.so.12.2.2", &["libucp.so.0"], text);
        let mpi = identify(&path).expect("an MPI");
        assert_eq!(mpi.family, Family::Mpich);
        assert_eq!(mpi.libfabric, Libfabric::No("its device is ch4:ucx".into()));
        let text = b"MPICH Version:\t%s\n\0ch4:ofi\0";
        let (_dir, path) = library("libmpi.so.12.3.0", &["libfabric.so.1"], text);
        assert_eq!(identify(&path).expect("an MPI").libfabric, Libfabric::Yes);
    }

    #[test]
    fn intel_mpi_is_not_taken_for_mpich() {
        let text = b"Intel(R) MPI Library %s for %s OS\0MPICH Version:\0";
        let (_dir, path) = library("libmpi.so.12", &[], text);
        assert_eq!(identify(&path).expect("an MPI").family, Family::IntelMpi);
    }

    #[test]
    fn another_library_of_that_name_is_no_mpi() {
        let (_dir, path) = library("libmpi.so.40", &[], b"something else");
        assert_eq!(identify(&path), None);
        assert_eq!(identify(Path::new("/does/not/exist")), None);
    }
}
