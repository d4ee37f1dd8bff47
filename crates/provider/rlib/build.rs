//! Links with libfabric. `sluice-provider` says what to do where it is missing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=dylib=fabric");
}
