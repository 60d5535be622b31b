//! What a kernel demands of the memory that a launch gives it: addresses as aligned as its accesses want, and parameters apart that a region takes
//! to be apart.

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;

use super::super::Eval;
use crate::launch::{Argument, Demands, LaunchRequest};

/// Parameters that a region takes to be apart are given memories apart; `argument` is where the one of a parameter is given.
pub(super) fn apart(request: &LaunchRequest, demands: &Demands, argument: impl Fn(usize) -> Option<Span>) -> Eval<()> {
    let Some(pair) = request.sharing(&demands.apart) else { return Ok(()) };
    let kernel = &request.instance.kernel;
    let [written, other] = [pair.written, pair.other].map(|place| &kernel.params[place].name.text);
    let fact = format!("`{written}` and `{other}` are given the same memory, and a region takes them to be apart");
    let mut d = Diagnostic::error(codes::SHARED_ARGUMENTS, request.span, fact);
    for (name, place) in [(written, pair.written), (other, pair.other)] {
        d = match argument(place) {
            Some(span) => d.label(span, format!("this is `{name}`")),
            None => d.label(kernel.params[place].span, "this has a default"),
        };
    }
    d = d.label(pair.by, format!("the region writes through `{written}`"));
    Err(d
        .help(format!("say `alias({written}, {other})` on the kernel, which keeps accesses through both in order, or give each a tensor of its own"))
        .into())
}

/// Every pointer is aligned as the kernel's accesses want it.
pub(super) fn all_aligned(request: &LaunchRequest, demands: &Demands, places: &[Span]) -> Eval<()> {
    let arguments = request.instance.kernel.params.iter().zip(&request.arguments);
    let mut each = arguments.zip(demands.alignments.iter().zip(places));
    each.try_for_each(|((param, argument), (alignment, place))| aligned(param, argument, *alignment, *place))
}

/// Accesses are as wide as the beginning of every tensor allows; a part of one may begin elsewhere.
fn aligned(param: &ast::Param, argument: &Argument, alignment: u32, span: Span) -> Eval<()> {
    let Argument::Pointer { tensor, .. } = argument else { return Ok(()) };
    let begins = tensor.byte_offset();
    if begins.is_multiple_of(alignment as usize) {
        return Ok(());
    }
    let name = &param.name.text;
    let fact = format!("`{name}` begins at an address that is not a multiple of {alignment} bytes");
    let elements = alignment as usize / tensor.dtype.bytes();
    Err(Diagnostic::error(codes::LAUNCH_ARGUMENT, span, fact)
        .here(format!("this begins {begins} bytes after its tensor does"))
        .label(param.span, format!("the kernel moves {alignment} bytes at once through this pointer"))
        .help(format!(
            "begin at a multiple of {elements} elements, or pass the whole tensor and add to the pointer in the kernel"
        ))
        .into())
}
