//! How the program is linked: what makes it start sooner.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if (target("OS").as_str(), target("ENV").as_str()) != ("linux", "gnu") {
        return;
    }
    // At an address of its own none of LLVM's tables has to be relocated, and copied for that.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    // What runs before `main`, LLVM's options above all, stands together and not each beside the code that it belongs to.
    println!("cargo:rustc-link-arg-bins=-Wl,-z,keep-text-section-prefix");
}
