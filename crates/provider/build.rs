//! Finds libfabric, links with it, and gives the artifact the name that
//! libfabric looks for.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the linker calls the artifact, and what libfabric wants it called: it
/// loads every file of a directory whose name ends in `fi.so`. The first name
/// does not, so the provider is loaded once.
const BUILT: &str = "libsluice_provider.so";
const LOADED: &str = "libsluice-fi.so";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LIBFABRIC_LIBDIR");
    link_libfabric();
    name_artifact();
}

/// Links with the shared libfabric, so that it is in DT_NEEDED: a program that
/// loads libfabric through a plug-in of its own does not make its symbols
/// global, and the provider could then not find them.
fn link_libfabric() {
    let Some(dir) = libfabric_dir() else {
        panic!(
            "\n\nlibfabric's development files were not found.\n\
             Install them (Debian, Ubuntu: libfabric-dev; Fedora, SUSE: libfabric-devel),\n\
             or name the directory of libfabric.so in LIBFABRIC_LIBDIR,\n\
             or build without what needs it (cargo build --workspace --exclude sluice-provider\n\
             --exclude sluice-provider-rlib --exclude sluice-fuzz-targets).\n\n"
        );
    };
    if let Some(dir) = dir {
        println!("cargo:rustc-link-search=native={}", dir.display());
    }
    println!("cargo:rustc-link-lib=dylib=fabric");
    println!("cargo:rustc-link-arg-cdylib=-Wl,--no-undefined");
    // A program may end, and its libfabric be unloaded, while a thread of ours
    // runs.
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
}

/// Where libfabric.so is: `Some(None)` where the linker looks by itself.
fn libfabric_dir() -> Option<Option<PathBuf>> {
    if let Some(dir) = env::var_os("LIBFABRIC_LIBDIR") {
        return Some(Some(PathBuf::from(dir)));
    }
    let config = Command::new("pkg-config").args(["--variable=libdir", "libfabric"]).output();
    if let Ok(out) = config
        && out.status.success()
    {
        let dir = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        if dir.join("libfabric.so").exists() {
            return Some(Some(dir));
        }
    }
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let standard = ["/usr/lib64".into(), format!("/usr/lib/{arch}-linux-gnu"), "/usr/lib".into()];
    if standard.iter().any(|dir: &String| Path::new(dir).join("libfabric.so").exists()) {
        return Some(None);
    }
    let local = PathBuf::from("/usr/local/lib");
    local.join("libfabric.so").exists().then_some(Some(local))
}

/// Makes `target/<profile>/libsluice-fi.so` a link to the artifact. OUT_DIR is
/// `target/<profile>/build/<package>/out`.
fn name_artifact() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let Some(profile) = out.ancestors().nth(3) else { return };
    let link = profile.join(LOADED);
    if fs::read_link(&link).is_ok_and(|to| to == Path::new(BUILT)) {
        return;
    }
    let _ = fs::remove_file(&link);
    if let Err(error) = std::os::unix::fs::symlink(BUILT, &link) {
        println!("cargo:warning=cannot make {}: {error}", link.display());
    }
}
