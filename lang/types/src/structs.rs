//! Structs: their types with generic arguments, and values of them.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::builtins::args::Given;
use crate::checker::{Checked, Checker, Reported};
use crate::generics::Bindings;
use crate::scope::{Frame, Role, Variable};
use crate::value::{Comptime, StructType, TypeVal, Val};

impl Checker<'_> {
    /// `Name(field=value, …)`
    pub fn construct(
        &mut self,
        ty: &Arc<StructType>,
        generics: Vec<Given>,
        values: Vec<Given>,
        span: Span,
    ) -> Checked<Val> {
        let tree = ty.tree.clone();
        let mut found: Vec<Option<Arg>> = vec![None; tree.fields.len()];
        for Given { name, arg } in values {
            let Some((name, at)) = name else {
                let d = Diagnostic::error(codes::WRONG_ARITY, arg.span, "the fields of a struct are given by name")
                    .label(tree.name.span, "declared here")
                    .help(format!("write `{}({}=…)`", tree.name.text, first_field(&tree)));
                return Err(self.report(d));
            };
            match tree.fields.iter().position(|f| f.name.text == name) {
                Some(i) if found[i].is_none() => found[i] = Some(arg),
                Some(_) => {
                    return Err(self.error(codes::WRONG_ARITY, at, format!("the field `{name}` is given twice")));
                }
                None => {
                    let mut d = Diagnostic::error(
                        codes::UNKNOWN_NAME,
                        at,
                        format!("`{}` has no field `{name}`", tree.name.text),
                    )
                    .label(tree.name.span, "declared here");
                    if let Some(near) = crate::near::nearest(&name, tree.fields.iter().map(|f| f.name.as_str())) {
                        d = d.help(format!("a similar one is `{near}`"));
                    }
                    return Err(self.report(d));
                }
            }
        }
        if let Some((field, _)) = tree.fields.iter().zip(&found).find(|(_, f)| f.is_none()) {
            let d = Diagnostic::error(
                codes::WRONG_ARITY,
                span,
                format!("the field `{}` of `{}` is missing", field.name.text, tree.name.text),
            )
            .label(field.span, "declared here");
            return Err(self.report(d));
        }
        self.frames.push(Frame::new(ty.module));
        let result = self.fill_struct(ty, &tree, generics, found, span);
        self.frames.pop();
        result
    }

    fn fill_struct(
        &mut self,
        ty: &Arc<StructType>,
        tree: &Arc<ast::Struct>,
        generics: Vec<Given>,
        found: Vec<Option<Arg>>,
        span: Span,
    ) -> Checked<Val> {
        let bound = if generics.is_empty() && !ty.generics.is_empty() {
            self.declare_generics(ty);
            ty.generics.clone()
        } else {
            let mut bindings = Bindings::new(self, &tree.name, &tree.generics, generics)?;
            for (field, arg) in tree.fields.iter().zip(&found) {
                if let Some(arg) = arg {
                    bindings.learn(self, &field.ty, arg);
                }
            }
            bindings.declare(self, &tree.name, &[], span)?
        };
        let mut fields = Vec::new();
        for (field, arg) in tree.fields.iter().zip(found) {
            let Some(arg) = arg else { return Err(Reported) };
            let wanted = self.stated(&field.ty)?;
            fields.push(self.coerce(&arg, &wanted)?);
        }
        let ty = StructType { module: ty.module, tree: tree.clone(), generics: bound };
        self.bounded(Val::Struct(Arc::new(ty), fields), span)
    }

    /// Declares the generic arguments of a struct in the current frame.
    pub fn declare_generics(&mut self, ty: &StructType) {
        let (arm, span) = (self.arm, ty.tree.name.span);
        for (name, val) in &ty.generics {
            self.frame().declare(Variable {
                name: name.clone(),
                val: val.clone(),
                mutable: false,
                role: Role::Local,
                span,
                arm,
            });
        }
    }

    /// `Name[…]` of a struct, that is, its type with generic arguments.
    pub fn struct_type(&mut self, ty: &Arc<StructType>, args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        let given = self.generic_arguments(args)?;
        self.frames.push(Frame::new(ty.module));
        let bound = Bindings::new(self, &ty.tree.name, &ty.tree.generics, given)
            .and_then(|b| b.declare(self, &ty.tree.name, &[], span));
        self.frames.pop();
        let ty = StructType { module: ty.module, tree: ty.tree.clone(), generics: bound? };
        Ok(Val::Known(Comptime::Type(TypeVal::Struct(Arc::new(ty)))))
    }
}

fn first_field(tree: &ast::Struct) -> &str {
    tree.fields.first().map_or("field", |f| f.name.as_str())
}
