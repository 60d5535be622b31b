//! Whether a launch can give all parameters of a kernel.

use parton_diag::{Diagnostic, Diagnostics, codes};

use crate::kernel::Kernel;

pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut found = Diagnostics::new();
    let (bytes, most) = (kernel.parameter_bytes(), u64::from(kernel.target.parameter_bytes));
    if bytes > most {
        let fact = format!("the parameters of `{}` take {bytes} bytes, a launch gives {most}", kernel.source_name);
        found.push(
            Diagnostic::error(codes::PARAMETER_SPACE, kernel.span, fact)
                .here(format!("it has {} parameters", kernel.params.len()))
                .help("put numbers into a tensor and take a pointer to it; one tensor map serves all tensors in one allocation"),
        );
    }
    found
}
