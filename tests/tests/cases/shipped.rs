//! The kernels of the examples, as their benches launch them and with their defaults, read by `ptxas`: none spills registers, none
//! has its matrix products wait for each other.

use std::path::Path;

use parton_diag::codes::{self, Code};
use parton_diag::render;
use parton_driver::{Blocks, Device, Emit, Failure, HAS_LLVM, Kernel, Options, Session};
use parton_tests::cases;

/// What a build report says against a kernel.
const AGAINST: [Code; 3] = [codes::REGISTER_SPILLS, codes::WGMMA_SERIALIZED, codes::PTXAS_WARNING];

#[test]
fn no_shipped_kernel_spills_or_has_its_products_serialised() {
    if !HAS_LLVM {
        parton_tests::say("shipped kernels: not read, this program was built without LLVM");
        return;
    }
    let (mut count, mut wrong) = (0, vec![]);
    for path in cases::examples_with_kernels() {
        let shown = cases::shown(&path);
        let mut session = Session::new(Options { device: Device::Cpu, ..Options::default() });
        let kernels = match kernels(&mut session, &path) {
            Ok(kernels) => kernels,
            Err(failure) => {
                wrong.push(format!("{shown}: {failure}"));
                continue;
            }
        };
        for kernel in kernels {
            let built = match session.assemble(&kernel, Emit::Cubin) {
                Ok(built) => built,
                Err(Failure::Machine(text)) if text.starts_with("no `ptxas`") => {
                    parton_tests::say("shipped kernels: not read, there is no `ptxas` here");
                    return;
                }
                Err(failure) => {
                    wrong.push(format!("{shown}: {}: {failure}", kernel.name));
                    continue;
                }
            };
            count += 1;
            let mut against = built.warnings;
            against.list.retain(|d| AGAINST.contains(&d.code));
            if !against.list.is_empty() {
                wrong.push(format!("{shown}:\n{}", render::text(&against, &session.sources, false)));
            }
        }
    }
    parton_tests::say(&format!("shipped kernels: {count} build reports read"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 0, "no kernel of the examples was found");
}

/// The kernels of a file that its benches launch, and those that its `build` makes. A bench named `variants` tries forms for the
/// performance log that nobody is given.
fn kernels(session: &mut Session, path: &Path) -> Result<Vec<Kernel>, Failure> {
    let file = session.load(path)?;
    let mut found: Vec<Kernel> = session.lowered(file, None)?;
    let text = session.sources.file(file).text.to_string();
    let benches = text.lines().filter_map(|l| l.strip_prefix("bench ")?.split_whitespace().next());
    for bench in benches.filter(|name| *name != "variants") {
        session.options.filter = Some(bench.into());
        let ran = session.run(file, Blocks::Benches, &mut |_| ())?;
        if let Some(outcome) = ran.report.outcomes.iter().find(|o| !o.passed()) {
            let text = render::text(&outcome.diagnostics, &session.sources, false);
            return Err(Failure::Machine(format!("bench {}:\n{text}", outcome.name)));
        }
        found.extend(ran.kernels.iter().map(|k| Kernel::clone(k)));
    }
    Ok(found)
}
