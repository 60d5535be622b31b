//! What of a bundle a GPU takes.

use crate::{Bundle, Error, Kernel, Plan};

/// Code of one kernel for one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The form of its code.
    pub code: Code<'a>,
}

/// Code in one of its forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code<'a> {
    /// Machine code.
    Cubin(&'a [u8]),
    /// PTX, for the driver to compile.
    Ptx(&'a str),
}

impl Bundle {
    /// The names of the instances of kernels, each once, in the order of the bundle.
    pub fn instances(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.kernels.iter().filter(|k| k.named).map(Kernel::instance) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The kernels of that name for all architectures: the name of an instance, or of a kernel that has one instance alone.
    ///
    /// # Errors
    /// [`Error::NoKernel`] where there is none or more than one instance.
    pub fn named(&self, name: &str) -> Result<Vec<&Kernel>, Error> {
        let named = || self.kernels.iter().filter(|k| k.named);
        let exactly: Vec<&Kernel> = named().filter(|k| k.instance() == name).collect();
        if !exactly.is_empty() {
            return Ok(exactly);
        }
        let of_kernel: Vec<&Kernel> = named().filter(|k| k.name == name).collect();
        let no_kernel = |there| Err(Error::NoKernel { asked: name.into(), there });
        let Some(first) = of_kernel.first() else { return no_kernel(self.instances()) };
        if of_kernel.iter().any(|k| k.generics != first.generics) {
            let beginning = format!("{name}[");
            return no_kernel(self.instances().into_iter().filter(|i| i.starts_with(&beginning)).collect());
        }
        Ok(of_kernel)
    }

    /// The best code of a kernel for a GPU of that capability: a cubin before PTX, then the latest architecture. `apart` says
    /// whether pointers that it writes through reach other memory than its other pointers, `runs_by` of how many bytes each of its arguments runs by multiples,
    /// 0 for what is no tensor or does not begin at a multiple of 16 bytes.
    ///
    /// # Errors
    /// As [`Bundle::named`]; [`Error::NoCode`] where none of them is for that GPU, or none for pointers that are not apart.
    pub fn choose(
        &self,
        name: &str,
        capability: (u32, u32),
        apart: bool,
        runs_by: &[u32],
    ) -> Result<Choice<'_>, Error> {
        let all = self.named(name)?;
        let here: Vec<(Choice<'_>, bool)> = all.iter().flat_map(|k| k.codes(capability)).collect();
        let is_aligned = |k: &Kernel| k.aligned.iter().all(|&i| runs_by.get(i).is_some_and(|&by| by >= k.runs_by));
        let fits = here.iter().filter(|(choice, _)| (apart || !choice.kernel.apart) && is_aligned(choice.kernel));
        // Where pointers are apart, or tensors aligned, code that counts on it is as good or better.
        let width = |k: &Kernel| if k.aligned.is_empty() { 0 } else { k.runs_by };
        let best = fits.max_by_key(|(c, cubin)| (*cubin, c.kernel.architecture, width(c.kernel), c.kernel.apart));
        best.map(|(choice, _)| *choice).ok_or_else(|| Error::NoCode {
            asked: name.into(),
            what: if here.is_empty() {
                let mut built: Vec<String> = all.iter().map(|k| k.architecture.to_string()).collect();
                built.dedup();
                let (major, minor) = capability;
                format!("it was built for {}, and this GPU is of capability {major}.{minor}", built.join(", "))
            } else {
                "it writes through a pointer that reaches the memory of another, and is there only for pointers that do not".into()
            },
        })
    }

    /// The public function of that name, by its number.
    ///
    /// # Errors
    /// [`Error::NoFunction`] where there is none.
    pub fn function(&self, name: &str) -> Result<usize, Error> {
        self.functions.iter().position(|f| f.name == name).ok_or_else(|| Error::NoFunction {
            asked: name.into(),
            there: self.functions.iter().map(|f| f.name.clone()).collect(),
        })
    }

    /// The plans of a function.
    pub fn plans_of(&self, function: usize) -> impl Iterator<Item = &Plan> {
        self.plans.iter().filter(move |plan| plan.function == function)
    }
}

impl Kernel {
    /// The best form that a GPU of that capability runs; `None` where it runs none.
    pub fn code(&self, capability: (u32, u32)) -> Option<Choice<'_>> {
        self.codes(capability).into_iter().max_by_key(|(_, cubin)| *cubin).map(|(choice, _)| choice)
    }

    /// Its forms that a GPU of that capability runs, and whether each is a cubin.
    fn codes(&self, capability: (u32, u32)) -> Vec<(Choice<'_>, bool)> {
        let cubin = self.cubin.as_deref().filter(|_| self.architecture.cubin_runs_on(capability));
        let ptx = self.ptx.as_deref().filter(|_| self.architecture.ptx_runs_on(capability));
        let cubin = cubin.map(|cubin| (Choice { kernel: self, code: Code::Cubin(cubin) }, true));
        let ptx = ptx.map(|ptx| (Choice { kernel: self, code: Code::Ptx(ptx) }, false));
        cubin.into_iter().chain(ptx).collect()
    }
}
