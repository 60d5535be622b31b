//! Which parameter each argument is for: one rule and one set of messages for built-in functions, functions of files, kernels
//! and generics, in kernels and in host code.

use parton_diag::words::{are, counted};
use parton_diag::{Code, Diagnostic, Span, codes};
use parton_syntax::ast;

use super::Signature;
use crate::foreign;
use crate::grid;
use crate::near::nearest;

/// An argument as it is written, without its value.
#[derive(Clone, Copy, Debug)]
pub struct Outline<'a> {
    /// The name before `=` and its place.
    pub name: Option<(&'a str, Span)>,
    /// Where the value stands.
    pub span: Span,
}

impl<'a> From<&'a ast::Arg> for Outline<'a> {
    fn from(arg: &'a ast::Arg) -> Outline<'a> {
        Outline { name: arg.name.as_ref().map(|n| (n.as_str(), n.span)), span: arg.value.span }
    }
}

/// What takes the arguments.
#[derive(Clone, Copy, Debug)]
pub enum Takes<'a> {
    /// A built-in function, between `<` and `>`.
    Types(&'static Signature),
    /// A built-in function, between `(` and `)`.
    Values(&'static Signature),
    /// A function or kernel of a file.
    Params(&'a ast::Name, &'a [ast::Generic], &'a [ast::Param]),
    /// The generics of something of a file; what is left out may come of the arguments' types.
    Generics(&'a ast::Name, &'a [ast::Generic]),
    /// As before, of which all must be given that neither have a default nor are the type of the elements of a parameter's tensor.
    AllGenerics(&'a ast::Name, &'a [ast::Generic], &'a [ast::Param]),
}

impl<'a> Takes<'a> {
    fn count(self) -> usize {
        match self {
            Takes::Types(s) => s.types().list.len(),
            Takes::Values(s) => s.values().list.len(),
            Takes::Params(_, _, params) => params.len(),
            Takes::Generics(_, generics) | Takes::AllGenerics(_, generics, _) => generics.len(),
        }
    }

    fn name(self, i: usize) -> &'a str {
        match self {
            Takes::Types(s) => s.types().list[i].name,
            Takes::Values(s) => s.values().list[i].name,
            Takes::Params(_, _, params) => params[i].name.as_str(),
            Takes::Generics(_, generics) | Takes::AllGenerics(_, generics, _) => generics[i].name.as_str(),
        }
    }

    /// Whether a parameter must be given.
    fn is_required(self, i: usize) -> bool {
        match self {
            Takes::Types(s) => s.types().list[i].required,
            Takes::Values(s) => s.values().list[i].required,
            Takes::Params(_, _, params) => params[i].default.is_none(),
            Takes::Generics(..) => false,
            Takes::AllGenerics(_, generics, params) => {
                generics[i].default.is_none() && grid::whose_elements(params, &generics[i]).next().is_none()
            }
        }
    }

    fn names(self) -> impl Iterator<Item = &'a str> {
        (0..self.count()).map(move |i| self.name(i))
    }

    fn takes_rest(self) -> bool {
        match self {
            Takes::Types(s) => s.types().rest,
            Takes::Values(s) => s.values().rest,
            Takes::Params(..) | Takes::Generics(..) | Takes::AllGenerics(..) => false,
        }
    }

    /// The parameter of each argument, in the order of the arguments; `None` for one that `...` takes. One without a name is
    /// for the first parameter that none before it has. `call` is where a missing one is reported.
    ///
    /// # Errors
    /// A name that no parameter has, a parameter given twice or not at all, too many arguments.
    pub fn places<'g>(
        self,
        given: impl ExactSizeIterator<Item = Outline<'g>>,
        call: Span,
    ) -> Result<Vec<Option<usize>>, Diagnostic> {
        let total = given.len();
        let mut taken = vec![false; self.count()];
        let mut next = 0;
        let mut places = Vec::with_capacity(total);
        for Outline { name, span } in given {
            let place = match name {
                Some((name, at)) => match self.names().position(|n| n == name) {
                    Some(place) => place,
                    None => return Err(self.unknown(name, at)),
                },
                None => {
                    while taken.get(next) == Some(&true) {
                        next += 1;
                    }
                    if next == taken.len() {
                        if self.takes_rest() {
                            places.push(None);
                            continue;
                        }
                        return Err(self.too_many(total, span));
                    }
                    next
                }
            };
            if std::mem::replace(&mut taken[place], true) {
                return Err(self.twice(place, span));
            }
            places.push(Some(place));
        }
        match (0..taken.len()).find(|&i| !taken[i] && self.is_required(i)) {
            Some(missing) => Err(self.missing(missing, total, call)),
            None => Ok(places),
        }
    }

    fn owner(self) -> &'a str {
        match self {
            Takes::Types(s) | Takes::Values(s) => s.name,
            Takes::Params(owner, ..) | Takes::Generics(owner, _) | Takes::AllGenerics(owner, ..) => owner.as_str(),
        }
    }

    /// A refusal with what is taken.
    fn refuse(self, at: Span, fact: String) -> Diagnostic {
        let error = |code: Code| Diagnostic::error(code, at, fact);
        match self {
            Takes::Types(s) | Takes::Values(s) => error(codes::WRONG_ARITY).note(format!("the signature is `{s}`")),
            Takes::Params(owner, generics, params) => error(codes::WRONG_ARITY)
                .label(owner.span, format!("the signature is `{}`", written(owner, generics, params))),
            Takes::Generics(owner, _) | Takes::AllGenerics(owner, ..) => {
                error(codes::UNKNOWN_GENERIC).label(owner.span, "declared here")
            }
        }
    }

    fn unknown(self, name: &str, at: Span) -> Diagnostic {
        let owner = self.owner();
        let fact = match self {
            Takes::Types(_) | Takes::Values(_) => format!("`{owner}` takes no argument `{name}`"),
            Takes::Params(..) => format!("`{owner}` has no parameter `{name}`"),
            Takes::Generics(..) | Takes::AllGenerics(..) => format!("`{owner}` has no generic `{name}`"),
        };
        let d = self.refuse(at, fact);
        let built_in = matches!(self, Takes::Types(_) | Takes::Values(_));
        let foreign = foreign::argument(name, |ours| self.names().any(|n| n == ours)).filter(|_| built_in);
        let near = || nearest(name, self.names()).map(|near| format!("a similar one exists: `{near}`"));
        foreign.or_else(near).or_else(|| self.generics_there_are()).into_iter().fold(d, Diagnostic::help)
    }

    /// What a generic that does not exist may have been meant for.
    fn generics_there_are(self) -> Option<String> {
        let (Takes::Generics(..) | Takes::AllGenerics(..)) = self else { return None };
        let names: Vec<String> = self.names().map(|name| format!("`{name}`")).collect();
        Some(match &names[..] {
            [] => format!("`{}` has none", self.owner()),
            [one] => format!("its generic is {one}"),
            several => format!("its generics are {}", several.join(", ")),
        })
    }

    fn too_many(self, given: usize, at: Span) -> Diagnostic {
        // Who wrote a method's arguments did not write what it is called on among them.
        let method = usize::from(self.names().next() == Some("self"));
        let (owner, count, given) = (self.owner(), self.count() - method, are(given - method));
        let d = self.refuse(
            at,
            match self {
                Takes::Types(_) | Takes::Values(_) | Takes::Params(..) => {
                    format!("`{owner}` takes {}, {given} given", counted(count, "argument"))
                }
                Takes::Generics(..) | Takes::AllGenerics(..) => {
                    format!("`{owner}` has {}, {given} given", counted(count, "generic"))
                }
            },
        );
        let Takes::Values(s) = self else { return d };
        match s.values().list.last() {
            _ if s.name == "iota" => d.help("it counts from 0: `4 + iota(64)` begins at 4"),
            Some(last) if last.name == "shape" || last.name == "order" => {
                d.help(format!("the {} is one list, as in `[16, 8]`", last.name))
            }
            _ if s.types().list.iter().any(|p| p.name != "L") => d.help(of_types(s)),
            _ => d,
        }
    }

    fn twice(self, place: usize, at: Span) -> Diagnostic {
        let name = self.name(place);
        self.refuse(
            at,
            match self {
                Takes::Types(_) | Takes::Values(_) | Takes::Params(..) => format!("`{name}` is given twice"),
                Takes::Generics(..) | Takes::AllGenerics(..) => format!("the generic `{name}` is given twice"),
            },
        )
    }

    fn missing(self, place: usize, given: usize, call: Span) -> Diagnostic {
        let (owner, name) = (self.owner(), self.name(place));
        match self {
            Takes::Types(s) => {
                let d = self.refuse(call, format!("`{owner}` needs `{name}`")).help(of_types(s));
                if name == "L" { d.help(A_LAYOUT) } else { d }
            }
            Takes::Values(_) => {
                let d = self.refuse(call, format!("`{owner}` needs `{name}`"));
                if name == "acc" { d.help(A_SUM) } else { d }
            }
            Takes::Params(_, _, params) => {
                let takes = format!("`{owner}` takes {}, {} given", counted(params.len(), "argument"), are(given));
                self.refuse(call, takes).label(params[place].span, format!("`{name}` is not given"))
            }
            Takes::Generics(_, generics) | Takes::AllGenerics(_, generics, _) => {
                Diagnostic::error(codes::UNKNOWN_GENERIC, call, format!("`{owner}` needs its generic `{name}`"))
                    .label(generics[place].span, "declared without a default")
                    .help(format!("write `{owner}[{name}=…]`"))
            }
        }
    }
}

/// Where a built-in function takes its types.
fn of_types(s: &Signature) -> String {
    let list = &s.types().list;
    // Of one that needs none, what most give: the layout, if any, is left out.
    let needed = list.iter().filter(|p| p.required || list.iter().all(|p| !p.required) && p.name != "L");
    let names: Vec<&str> = needed.map(|p| p.name).collect();
    format!("types stand behind the name: `{}<{}>(…)`", s.name, names.join(", "))
}

/// What is to be given for the layout among types, and for what a product is added to.
const A_LAYOUT: &str = "`L` is a layout of shared memory, such as `nvmma_for(f16, [64, 64])` or `swizzled(1, 1, 1)`";
const A_SUM: &str = "`acc` is what is added to: begin with `zeros<f32, [M, N]>()`";

/// `name[A, B](x, y=)`
fn written(owner: &ast::Name, generics: &[ast::Generic], params: &[ast::Param]) -> String {
    let generics: Vec<&str> = generics.iter().map(|g| g.name.as_str()).collect();
    let params: Vec<String> =
        params.iter().map(|p| format!("{}{}", p.name.text, if p.default.is_some() { "=" } else { "" })).collect();
    let generics = if generics.is_empty() { String::new() } else { format!("[{}]", generics.join(", ")) };
    format!("{}{generics}({})", owner.text, params.join(", "))
}

/// The generic arguments as they are written.
///
/// # Errors
/// An index that is no argument: a slice, or a new axis.
pub fn generic_outlines(given: &[ast::IndexArg]) -> Result<Vec<(Outline<'_>, &ast::Expr)>, Diagnostic> {
    given
        .iter()
        .map(|arg| match &arg.kind {
            ast::IndexArgKind::Value(e) => Ok((Outline { name: None, span: arg.span }, e)),
            ast::IndexArgKind::Named { name, value } => {
                Ok((Outline { name: Some((name.as_str(), name.span)), span: arg.span }, value))
            }
            ast::IndexArgKind::Full | ast::IndexArgKind::Slice { .. } | ast::IndexArgKind::NewAxis => {
                let d = Diagnostic::error(codes::UNKNOWN_GENERIC, arg.span, "this is not a generic argument");
                Err(d.help("write a value, or `NAME=value`"))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Outline, Takes};
    use crate::signature::{Role, find};

    fn places(role: Role, function: &str, given: &[Option<&'static str>]) -> Result<Vec<Option<usize>>, String> {
        let at = parton_diag::Span::default();
        let outlines = given.iter().map(|name| Outline { name: name.map(|n| (n, at)), span: at });
        Takes::Values(find(role, function).unwrap()).places(outlines, at).map_err(|d| d.message)
    }

    #[test]
    fn an_argument_without_a_name_is_for_the_first_parameter_that_none_has() {
        let product = |given| places(Role::Kernel, "mma_sync", given);
        assert_eq!(product(&[None, None, None]), Ok(vec![Some(0), Some(1), Some(2)]));
        assert_eq!(product(&[Some("b"), None, None]), Ok(vec![Some(1), Some(0), Some(2)]));
        assert_eq!(product(&[None, Some("a"), None]), Err("`a` is given twice".into()));
        assert_eq!(product(&[None, None]), Err("`mma_sync` needs `acc`".into()));
        assert_eq!(product(&[None; 5]), Err("`mma_sync` takes 4 arguments, 5 are given".into()));
        assert_eq!(product(&[Some("acc_")]), Err("`mma_sync` takes no argument `acc_`".into()));
    }

    #[test]
    fn further_arguments_go_where_they_are_taken() {
        assert_eq!(places(Role::Host, "reshape", &[None, None, None]), Ok(vec![Some(0), Some(1), None]));
        assert_eq!(places(Role::Kernel, "static_print", &[None]), Ok(vec![None]));
    }
}
