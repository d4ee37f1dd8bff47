//! Links with libfabric. `sluice-provider` says what to do where it is missing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LIBFABRIC_LIBDIR");
    if let Ok(dir) = std::env::var("LIBFABRIC_LIBDIR") {
        println!("cargo:rustc-link-search=native={dir}");
    }
    println!("cargo:rustc-link-lib=dylib=fabric");
}
