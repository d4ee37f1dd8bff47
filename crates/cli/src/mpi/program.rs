//! Which MPI a command runs with, as far as that can be seen before it runs.

use super::binary::{self, Binary, Found};
use super::launcher::find;
use super::{Mpi, library};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was found of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linked {
    /// It uses the library of this MPI.
    Mpi(Mpi),
    /// It calls libfabric itself, and no MPI.
    Libfabric,
    /// It calls Portals itself, and no MPI.
    Portals,
    /// It cannot run over Sluice, and why.
    Never(String),
    /// This cannot be seen, and why.
    Unknown(String),
}

/// Printed by a Python interpreter: where the library of its mpi4py is, and where its
/// packages install libraries. mpi4py looks there for an MPI that the dynamic linker does
/// not find (PyPI has such MPIs). An mpi4py that is for several MPIs loads the one that it
/// has found, before others that the dynamic linker knows, and is for that one then.
const MPI4PY: &str = "\
import sys, importlib.util as u
try: print('mpi4py.MPI:', u.find_spec('mpi4py.MPI').origin)
except Exception: pass
for line in open('/proc/self/maps'):
    if '/libmpi' in line: print('loaded:', line.split(None, 5)[5].strip())
for prefix in dict.fromkeys((sys.exec_prefix, sys.base_exec_prefix)): print('lib:', prefix + '/lib')
";

/// Looks at the command `words`: its program first and, if that is one that starts
/// another (numactl, env), at the words after it. Behind a launcher the program is found
/// as launchers do, also in the current directory; and the launcher says if it is not there.
pub fn look(words: &[OsString], is_launched: bool) -> Linked {
    let Some(first) = words.first() else {
        return Linked::Unknown("no program is named".to_owned());
    };
    let name = first.to_string_lossy();
    let here = || find(&Path::new(".").join(first).into_os_string());
    let path = match find(first).or_else(|| is_launched.then(here).flatten()) {
        Some(path) => path,
        None if is_launched => return Linked::Unknown(format!("{name} is not found from here")),
        None => return Linked::Never(why_not(Path::new(first))),
    };
    let own = look_at(&path, &name);
    // The words after an interpreter are its script, which says no more.
    if !matches!(own, Linked::Unknown(_)) || is_python(&path) {
        return own;
    }
    for word in &words[1..] {
        let Some(path) = find(word) else { continue };
        if is_python(&path) {
            return look_at(&path, &word.to_string_lossy());
        }
        if let found @ (Linked::Mpi(_) | Linked::Never(_)) = look_at(&path, &word.to_string_lossy())
        {
            return found;
        }
    }
    own
}

/// Why what is named so cannot be started.
fn why_not(path: &Path) -> String {
    let name = path.display();
    if path.components().count() == 1 && !name.to_string().contains('/') {
        return format!("{name} is no program in PATH; one in this directory is ./{name}");
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => format!("{name} is a directory"),
        Ok(_) => format!("{name} is not executable: build it, or chmod +x if it is a program"),
        Err(why) if why.kind() == io::ErrorKind::NotFound => format!("{name} is not there"),
        Err(why) => format!("{name} cannot be started: {why}"),
    }
}

fn look_at(path: &Path, name: &str) -> Linked {
    if is_python(path) {
        return look_at_python(path, name);
    }
    let Some(kind) = Kind::of(path) else {
        return Linked::Unknown(format!("{name} cannot be read"));
    };
    match kind {
        Kind::Elf => look_at_elf(path, name, &[]),
        Kind::Script(interpreter) => match interpreter.and_then(|words| find(&words)) {
            Some(interpreter) if is_python(&interpreter) => look_at_python(&interpreter, name),
            _ => Linked::Unknown(format!("{name} is a script")),
        },
    }
}

/// What a file begins with.
enum Kind {
    Elf,
    /// With the interpreter that its first line names.
    Script(Option<OsString>),
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        let mut head = Vec::new();
        File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
        if head.starts_with(b"\x7fELF") {
            return Some(Kind::Elf);
        }
        let text = String::from_utf8_lossy(&head);
        Some(Kind::Script(text.lines().next().and_then(interpreter).map(OsString::from)))
    }
}

/// The interpreter that the first line of a script names: `#!/usr/bin/env -S python3 -u`.
fn interpreter(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let first = words.next()?;
    if Path::new(first).file_name()? != "env" {
        return Some(first);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('='))
}

fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    name.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The MPI of a Python program is the one that the library of its mpi4py needs.
fn look_at_python(interpreter: &Path, name: &str) -> Linked {
    let output = Command::new(interpreter).args(["-c", MPI4PY]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let said = |key: &str| -> Vec<PathBuf> {
        let text = String::from_utf8_lossy(&text);
        let values = text.lines().filter_map(|line| line.strip_prefix(key));
        values.map(|value| PathBuf::from(value.trim())).filter(|path| path.is_absolute()).collect()
    };
    let Some(origin) = said("mpi4py.MPI:").pop() else {
        let interpreter = interpreter.display();
        return Linked::Unknown(format!("{interpreter}, which runs {name}, has no mpi4py"));
    };
    let named =
        |path: &Path| path.file_name().is_some_and(|name| library::is_mpi(&name.to_string_lossy()));
    let mut loaded = said("loaded:").into_iter().filter(|path| named(path));
    if let Some(mpi) = loaded.find_map(|path| library::identify(&path)) {
        return Linked::Mpi(mpi);
    }
    match look_at_elf(&origin, "mpi4py", &said("lib:")) {
        Linked::Mpi(mpi) => Linked::Mpi(mpi),
        Linked::Never(why) => Linked::Never(why),
        _ => Linked::Unknown(format!("mpi4py ({}) finds its MPI when it runs", origin.display())),
    }
}

/// What an ELF file is linked with. Its MPI may be in `more`, where the dynamic linker
/// does not look.
fn look_at_elf(path: &Path, name: &str, more: &[PathBuf]) -> Linked {
    let Ok(bytes) = fs::read(path) else {
        return Linked::Unknown(format!("{name} cannot be read"));
    };
    let Some(binary) = Binary::read(&bytes) else {
        return Linked::Unknown(format!("{name} is no program of this system"));
    };
    if binary.needed.is_empty() {
        return judge(&binary, &bytes, &[], name);
    }
    let Some(mut found) = binary::libraries(path) else {
        return Linked::Unknown(format!("ldd cannot tell what {name} is linked with"));
    };
    for library in found.iter_mut().filter(|library| library.path.is_none()) {
        library.path = more.iter().map(|dir| dir.join(&library.name)).find(|path| path.exists());
    }
    judge(&binary, &bytes, &found, name)
}

/// From what a program says and from where its libraries were found.
fn judge(binary: &Binary, bytes: &[u8], found: &[Found], name: &str) -> Linked {
    if let Some(library) = found.iter().find(|library| library::is_mpi(&library.name)) {
        let library_name = &library.name;
        let Some(path) = &library.path else {
            return Linked::Never(format!(
                "{name} is linked with {library_name}, which is not found; set LD_LIBRARY_PATH to \
                 its directory"
            ));
        };
        return match library::identify(path) {
            Some(mpi) => Linked::Mpi(mpi),
            None => Linked::Unknown(format!("{} is an MPI that is not known", path.display())),
        };
    }
    let has = |prefix| found.iter().any(|library| library.name.starts_with(prefix));
    let has_libfabric = has("libfabric.so");
    match library::linked_in(bytes) {
        Some(family) if !has_libfabric => Linked::Never(format!(
            "{name} has {} linked in, and loads no libfabric; link it with the shared library \
             of its MPI",
            family.name()
        )),
        Some(_) => Linked::Unknown(format!("{name} has its MPI linked in")),
        None if has("libportals.so") => Linked::Portals,
        None if has_libfabric => Linked::Libfabric,
        None if binary.needed.is_empty() => Linked::Unknown(format!("{name} is linked statically")),
        None => Linked::Unknown(format!("{name} is not linked with an MPI itself")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::Family;
    use crate::mpi::binary::fabricate;
    use std::os::unix::fs::PermissionsExt;

    fn found(name: &str, path: Option<&Path>) -> Found {
        Found { name: name.to_owned(), path: path.map(Path::to_owned) }
    }

    fn judged(needed: &[&str], text: &[u8], libraries: &[Found]) -> Linked {
        let bytes = fabricate(needed, text);
        let binary = Binary::read(&bytes).expect("an ELF file");
        judge(&binary, &bytes, libraries, "app")
    }

    #[test]
    fn what_cannot_be_started_is_told_apart() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = dir.path().join("hello.c");
        fs::write(&text, "int main;").expect("written");
        assert!(why_not(dir.path()).ends_with(" is a directory"));
        assert!(why_not(&text).contains("chmod +x"));
        assert!(why_not(&dir.path().join("nope")).ends_with("nope is not there"));
        assert!(why_not(&text.join("nope")).contains("cannot be started: "));
        assert!(why_not(Path::new("nope")).contains("./nope"));
        let never = look(&[text.clone().into_os_string()], false);
        assert!(matches!(never, Linked::Never(said) if said == why_not(&text)));
    }

    #[test]
    fn a_program_has_the_mpi_that_a_library_of_it_needs() {
        let dir = tempfile::tempdir().expect("a directory");
        let library = dir.path().join("libmpi.so.40.30.4");
        fs::write(&library, fabricate(&[], b"Open MPI v%d.%d.%d")).expect("written");
        let libraries = [found("libhdf5.so", None), found("libmpi.so.40", Some(&library))];
        match judged(&["libhdf5.so"], b"", &libraries) {
            Linked::Mpi(mpi) => assert_eq!(mpi.family, Family::OpenMpi),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_library_that_is_not_found_is_said_by_its_name() {
        match judged(&["libmpi.so.12"], b"", &[found("libmpi.so.12", None)]) {
            Linked::Never(why) => assert!(why.contains("libmpi.so.12"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_mpi_that_is_linked_in_is_refused_unless_it_loads_libfabric() {
        let text = b"Open MPI v%d.%d.%d";
        // The linker leaves the text of the version out where nothing asks for it.
        for text in [&text[..], b"MPIR_CVAR_CH4_UCX", b"ompi_mpi_init"] {
            assert!(matches!(judged(&[], text, &[]), Linked::Never(_)));
            assert!(matches!(judged(&["libc.so.6"], text, &[]), Linked::Never(_)));
        }
        let fabric = [found("libfabric.so.1", Some(Path::new("/lib/libfabric.so.1")))];
        assert!(matches!(judged(&["libfabric.so.1"], text, &fabric), Linked::Unknown(_)));
        assert_eq!(judged(&["libfabric.so.1"], b"", &fabric), Linked::Libfabric);
        let portals = [found("libportals.so.4", None)];
        assert_eq!(judged(&["libportals.so.4"], b"", &portals), Linked::Portals);
        assert!(matches!(judged(&["libc.so.6"], b"", &[]), Linked::Unknown(_)));
    }

    #[test]
    fn the_interpreter_of_a_script() {
        assert_eq!(interpreter("#!/bin/sh -e"), Some("/bin/sh"));
        assert_eq!(interpreter("#! /usr/bin/env python3"), Some("python3"));
        assert_eq!(interpreter("#!/usr/bin/env -S A=1 python3 -u"), Some("python3"));
        assert_eq!(interpreter("#!"), None);
        assert_eq!(interpreter("echo"), None);
    }

    #[test]
    fn names_of_python() {
        for name in ["python", "/usr/bin/python3", "python3.11", "pypy3"] {
            assert!(is_python(Path::new(name)), "{name}");
        }
        for name in ["python-config", "pythonic", "sh"] {
            assert!(!is_python(Path::new(name)), "{name}");
        }
    }

    /// A file that may be run.
    fn executable(path: &Path, text: &str) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    #[test]
    fn an_mpi_that_only_mpi4py_finds_is_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("lib")).expect("made");
        let library = path("lib/libmpi.so.4711");
        fs::write(&library, fabricate(&[], b"Open MPI v%d.%d.%d")).expect("written");
        fs::write(path("MPI.so"), fabricate(&["libmpi.so.4711"], b"")).expect("written");
        let here = dir.path().display();
        let says = format!("echo noise; echo mpi4py.MPI: {here}/MPI.so");
        executable(&path("python3"), &format!("#!/bin/sh\n{says}\n"));
        let python = path("python3").into_os_string();
        match look(std::slice::from_ref(&python), false) {
            Linked::Never(why) => assert!(why.contains("libmpi.so.4711"), "{why}"),
            other => panic!("{other:?}"),
        }
        executable(&path("python3"), &format!("#!/bin/sh\n{says}; echo lib: {here}/lib\n"));
        for words in [vec![python.clone()], vec!["env".into(), python]] {
            match look(&words, false) {
                Linked::Mpi(mpi) => assert_eq!(mpi.family, Family::OpenMpi),
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_mpi_that_mpi4py_has_loaded_counts_and_not_that_of_the_dynamic_linker() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let mpich = path("libmpi.so.12");
        fs::write(&mpich, fabricate(&[], b"MPICH Version:")).expect("written");
        fs::write(path("libmpifort.so.12"), fabricate(&[], b"Open MPI v%d.%d.%d"))
            .expect("written");
        fs::write(path("MPI.so"), fabricate(&["libmpi.so.4711"], b"")).expect("written");
        let here = dir.path().display();
        let says = format!(
            "echo mpi4py.MPI: {here}/MPI.so; for f in libmpifort libmpi; do echo loaded: \
             {here}/$f.so.12; done"
        );
        executable(&path("python3"), &format!("#!/bin/sh\n{says}\n"));
        match look(&[path("python3").into()], false) {
            Linked::Mpi(mpi) => {
                assert_eq!((mpi.family, mpi.library), (Family::Mpich, mpich.canonicalize().ok()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_script_is_not_seen_through_and_a_python_is_asked_for_its_mpi4py() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            executable(&path, text);
            path
        };
        let script = write("job", "#!/bin/sh\n");
        assert!(
            matches!(look(&[script.into()], false), Linked::Unknown(why) if why.contains("script"))
        );
        let lacking = write("python3", "#!/bin/sh\necho\n");
        // Also where another program starts it.
        for words in [vec![lacking.clone().into()], vec!["env".into(), lacking.into()]] {
            match look(&words, false) {
                Linked::Unknown(why) => assert!(why.contains("has no mpi4py"), "{why}"),
                other => panic!("{words:?}: {other:?}"),
            }
        }
        match look(&[dir.path().join("absent").into()], false) {
            Linked::Never(why) => assert!(why.contains("is not there"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
