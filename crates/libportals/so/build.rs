//! Gives the library the name that programs ask the loader for, and describes
//! it to pkg-config, for use without installing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What the linker calls the artifact, and the name recorded in it and in
/// every program linked with it. It changes when programs must be compiled
/// anew.
const BUILT: &str = "libportals.so";
const SONAME: &str = "libportals.so.4";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=portals4.pc.in");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-undefined");
    // It leaves a handler for faults in the process, and may leave threads.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // OUT_DIR is target/<profile>/build/<package>/out.
    let Some(profile) = out.ancestors().nth(3) else { return };
    name_artifact(profile);
    if let Err(error) = describe(profile) {
        println!("cargo:warning=cannot write portals4.pc: {error}");
    }
}

/// Makes `target/<profile>/libportals.so.4` a link to the artifact.
fn name_artifact(profile: &Path) {
    let link = profile.join(SONAME);
    if fs::read_link(&link).is_ok_and(|to| to == Path::new(BUILT)) {
        return;
    }
    let _ = fs::remove_file(&link);
    if let Err(error) = std::os::unix::fs::symlink(BUILT, &link) {
        println!("cargo:warning=cannot make {}: {error}", link.display());
    }
}

/// Writes `target/<profile>/pkgconfig/portals4.pc`, which names the headers in
/// the sources and the library where it was built.
fn describe(profile: &Path) -> std::io::Result<()> {
    let dir = profile.join("pkgconfig");
    fs::create_dir_all(&dir)?;
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("include");
    let lib = profile.display().to_string();
    let text = fs::read_to_string("portals4.pc.in")?
        .replace("@includedir@", &include.display().to_string())
        .replace("@libdir@", &lib)
        .replace("@rpath@", &format!(" -Wl,-rpath,{lib}"));
    fs::write(dir.join("portals4.pc"), text)
}
