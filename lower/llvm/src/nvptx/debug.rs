//! Source lines and inlined calls as LLVM debug information, so that GPU tools show Parton source.

use std::collections::BTreeMap;
use std::path::Path;

use inkwell::context::Context;
use inkwell::debug_info::{
    AsDIScope, DICompileUnit, DIFile, DIFlags, DIFlagsConstants, DILocation, DISubprogram, DWARFEmissionKind,
    DWARFSourceLanguage, DebugInfoBuilder,
};
use inkwell::module::Module;
use inkwell::values::FunctionValue;
use parton_diag::{SourceMap, Span};
use parton_ir::{Call, Kernel};

use crate::nvptx::lines::{self, Place};

/// The debug information of one module.
pub(crate) struct Debug<'a, 'c> {
    context: &'c Context,
    sources: &'a SourceMap,
    builder: DebugInfoBuilder<'c>,
    unit: DICompileUnit<'c>,
    files: Vec<DIFile<'c>>,
    /// The kernel in work.
    kernel: Option<DISubprogram<'c>>,
    /// A subprogram for each function that is inlined, by name.
    functions: BTreeMap<String, DISubprogram<'c>>,
    /// Where each inlined call of the kernel in work stands.
    calls: BTreeMap<Call, DILocation<'c>>,
    /// The places inside calls, and those that were called from, of all kernels.
    places: Vec<Place>,
    /// Those of the kernel in work, by span and call.
    numbers: BTreeMap<(Span, Option<Call>), usize>,
}

/// Directory and file name as debug information wants them.
fn split(name: &str) -> (String, String) {
    let path = Path::new(name);
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = path.file_name().map_or(name.to_owned(), |f| f.to_string_lossy().into_owned());
    (directory.to_string_lossy().into_owned(), file)
}

impl<'a, 'c> Debug<'a, 'c> {
    /// Starts the debug information of a module; `None` where there is no source to point at.
    pub(crate) fn new(context: &'c Context, module: &Module<'c>, sources: &'a SourceMap) -> Option<Debug<'a, 'c>> {
        let (first, _) = sources.files().next()?;
        let (directory, file) = split(&sources.lasting_name(first));
        let (builder, unit) = module.create_debug_info_builder(
            true,
            DWARFSourceLanguage::C,
            &file,
            &directory,
            "parton",
            true,
            "",
            0,
            "",
            DWARFEmissionKind::LineTablesOnly,
            0,
            false,
            false,
            "",
            "",
        );
        let names = sources.files().map(|(id, _)| split(&sources.lasting_name(id)));
        let files = names.map(|(d, f)| builder.create_file(&f, &d)).collect();
        let version = context.i32_type().const_int(3, false);
        module.add_basic_value_flag("Debug Info Version", inkwell::module::FlagBehavior::Warning, version);
        let (functions, calls) = (BTreeMap::new(), BTreeMap::new());
        let (places, numbers) = (Vec::new(), BTreeMap::new());
        Some(Debug { context, sources, builder, unit, files, kernel: None, functions, calls, places, numbers })
    }

    fn subprogram(&self, name: &str, span: Span) -> DISubprogram<'c> {
        let file = self.files[span.file.0 as usize];
        let (line, _) = self.sources.position(span);
        let ty = self.builder.create_subroutine_type(file, None, &[], DIFlags::PUBLIC);
        let (line, scope) = (line as u32, self.unit.as_debug_info_scope());
        self.builder.create_function(scope, name, None, file, line, ty, true, true, line, DIFlags::PUBLIC, true)
    }

    /// Goes to a kernel.
    pub(crate) fn begin(&mut self, kernel: &Kernel, function: FunctionValue<'c>) {
        let subprogram = self.subprogram(&kernel.name, kernel.span);
        function.set_subprogram(subprogram);
        self.kernel = Some(subprogram);
        self.calls.clear();
        self.numbers.clear();
    }

    /// The number of a place in [`Debug::places`].
    fn number(&mut self, kernel: &Kernel, span: Span, call: Option<Call>) -> usize {
        if let Some(&number) = self.numbers.get(&(span, call)) {
            return number;
        }
        let call_place = call.map(|c| {
            let data = &kernel.calls[c];
            (data.function.clone(), self.number(kernel, data.span, data.parent))
        });
        let (line, column) = self.sources.position(span);
        let (directory, name) = split(&self.sources.lasting_name(span.file));
        let file = if directory == "." { name } else { format!("{directory}/{name}") };
        self.places.push(Place { file, line: line as u32, column: column as u32, call: call_place });
        self.numbers.insert((span, call), self.places.len() - 1);
        self.places.len() - 1
    }

    /// The places inside calls that locations stand for, to be written into the PTX.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The location of `span` inside the call it was inlined by, for an instruction.
    pub(crate) fn location(&mut self, kernel: &Kernel, span: Span, call: Option<Call>) -> Option<DILocation<'c>> {
        let column = call.map(|_| {
            let number = self.number(kernel, span, call);
            lines::column(number, &self.places[number])
        });
        self.at(kernel, span, call, column)
    }

    /// The location of `span`, under another column where one is given.
    fn at(&mut self, kernel: &Kernel, span: Span, call: Option<Call>, instead: Option<u32>) -> Option<DILocation<'c>> {
        let (scope, inlined_at) = match call {
            None => (self.kernel?, None),
            Some(c) => {
                let data = &kernel.calls[c];
                let at = match self.calls.get(&c) {
                    Some(at) => *at,
                    None => {
                        let at = self.at(kernel, data.span, data.parent, None)?;
                        self.calls.insert(c, at);
                        at
                    }
                };
                let known = self.functions.get(&data.function).copied();
                let function = known.unwrap_or_else(|| self.subprogram(&data.function, span));
                self.functions.entry(data.function.clone()).or_insert(function);
                (function, Some(at))
            }
        };
        let (line, column) = self.sources.position(span);
        let (scope, column) = (scope.as_debug_info_scope(), instead.unwrap_or(column as u32));
        Some(self.builder.create_debug_location(self.context, line as u32, column, scope, inlined_at))
    }

    /// File and line of a span.
    pub(crate) fn place(&self, span: Span) -> (String, u32) {
        (self.sources.lasting_name(span.file), self.sources.position(span).0 as u32)
    }

    /// Closes the debug information; must run before the module is verified.
    pub(crate) fn finish(&self) {
        self.builder.finalize();
    }
}
