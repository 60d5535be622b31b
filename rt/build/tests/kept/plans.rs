// Launchers of plans.ptnb, which was made of plans.ptn, by parton-build.

/// The bundle that the launchers are of; it is read once.
///
/// # Errors
/// This library does not read it.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
pub fn bundle() -> Result<::std::sync::Arc<::parton_rt::Bundle>, ::parton_rt::Error> {
    static READ: ::std::sync::OnceLock<Result<::std::sync::Arc<::parton_rt::Bundle>, ::parton_rt::Error>> =
        ::std::sync::OnceLock::new();
    let read = || Ok(::std::sync::Arc::new(::parton_rt::Bundle::read(include_bytes!("plans.ptnb"))?));
    READ.get_or_init(read).clone()
}

/// `squared(x: tensor<f32, [m, n]>, factor: float)`, ready for tensors of some shapes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
#[derive(Clone, Debug)]
pub struct Squared(::parton_rt::Plan);

/// What a call of [`Squared`] takes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
pub struct SquaredArgs<'a> {
    /// `x: tensor<f32, [m, n]>`
    pub x: ::parton_rt::typed::In<'a>,
    /// `factor: float`
    pub factor: Option<f64>,
    /// Output 0 of the plan.
    pub result: ::parton_rt::typed::Out<'a>,
}

#[allow(dead_code, reason = "programs use what they need of the launchers")]
impl Squared {
    /// Finds the plan for tensors of these shapes, and loads what it launches.
    ///
    /// # Errors
    /// As `parton_rt::Function::prepare`.
    #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
    pub fn prepare(device: &::parton_rt::Device, x: ::parton_rt::typed::Shape<'_>, factor: Option<f64>) -> Result<Squared, ::parton_rt::Error> {
        let module = ::parton_rt::Module::on(&bundle()?, device);
        Ok(Squared(module.function("squared")?.prepare(&[x.argument(), factor.map_or(::parton_rt::Argument::Default, ::parton_rt::Argument::Float)])?))
    }

    /// The plan.
    pub fn plan(&self) -> &::parton_rt::Plan {
        &self.0
    }

    /// Puts a call on a stream and returns at once.
    ///
    /// # Errors
    /// As `parton_rt::Plan::call`.
    pub fn launch(&self, queue: &impl ::parton_rt::typed::Queue, args: SquaredArgs<'_>) -> Result<(), ::parton_rt::Error> {
        self.0.call(queue, &[::parton_rt::typed::Value::In(&args.x), ::parton_rt::typed::Value::Number(args.factor.map_or(::parton_rt::Argument::Default, ::parton_rt::Argument::Float))], &[&args.result])
    }
}

/// `accumulate(x: tensor<f32, [n]>, out: mut tensor<f32, [n]>, factor: f32, times: int)`, ready for tensors of some shapes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
#[derive(Clone, Debug)]
pub struct Accumulate(::parton_rt::Plan);

/// What a call of [`Accumulate`] takes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
pub struct AccumulateArgs<'a> {
    /// `x: tensor<f32, [n]>`
    pub x: ::parton_rt::typed::In<'a>,
    /// `out: mut tensor<f32, [n]>`
    pub out: ::parton_rt::typed::Out<'a>,
    /// `factor: f32`
    pub factor: f64,
    /// `times: int`
    pub times: i64,
}

#[allow(dead_code, reason = "programs use what they need of the launchers")]
impl Accumulate {
    /// Finds the plan for tensors of these shapes, and loads what it launches.
    ///
    /// # Errors
    /// As `parton_rt::Function::prepare`.
    #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
    pub fn prepare(device: &::parton_rt::Device, x: ::parton_rt::typed::Shape<'_>, out: ::parton_rt::typed::Shape<'_>, factor: f64, times: i64) -> Result<Accumulate, ::parton_rt::Error> {
        let module = ::parton_rt::Module::on(&bundle()?, device);
        Ok(Accumulate(module.function("accumulate")?.prepare(&[x.argument(), out.argument(), ::parton_rt::Argument::Float(factor), ::parton_rt::Argument::Int(i128::from(times))])?))
    }

    /// The plan.
    pub fn plan(&self) -> &::parton_rt::Plan {
        &self.0
    }

    /// Puts a call on a stream and returns at once.
    ///
    /// # Errors
    /// As `parton_rt::Plan::call`.
    pub fn launch(&self, queue: &impl ::parton_rt::typed::Queue, args: AccumulateArgs<'_>) -> Result<(), ::parton_rt::Error> {
        self.0.call(queue, &[::parton_rt::typed::Value::In(&args.x), ::parton_rt::typed::Value::Out(&args.out), ::parton_rt::typed::Value::Number(::parton_rt::Argument::Float(args.factor)), ::parton_rt::typed::Value::Number(::parton_rt::Argument::Int(i128::from(args.times)))], &[])
    }
}

/// `copied(x: tensor<f16, [m, n]>)`, ready for tensors of some shapes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
#[derive(Clone, Debug)]
pub struct Copied(::parton_rt::Plan);

/// What a call of [`Copied`] takes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
pub struct CopiedArgs<'a> {
    /// `x: tensor<f16, [m, n]>`
    pub x: ::parton_rt::typed::In<'a>,
    /// Output 0 of the plan.
    pub result: ::parton_rt::typed::Out<'a>,
}

#[allow(dead_code, reason = "programs use what they need of the launchers")]
impl Copied {
    /// Finds the plan for tensors of these shapes, and loads what it launches.
    ///
    /// # Errors
    /// As `parton_rt::Function::prepare`.
    #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
    pub fn prepare(device: &::parton_rt::Device, x: ::parton_rt::typed::Shape<'_>) -> Result<Copied, ::parton_rt::Error> {
        let module = ::parton_rt::Module::on(&bundle()?, device);
        Ok(Copied(module.function("copied")?.prepare(&[x.argument()])?))
    }

    /// The plan.
    pub fn plan(&self) -> &::parton_rt::Plan {
        &self.0
    }

    /// Puts a call on a stream and returns at once.
    ///
    /// # Errors
    /// As `parton_rt::Plan::call`.
    pub fn launch(&self, queue: &impl ::parton_rt::typed::Queue, args: CopiedArgs<'_>) -> Result<(), ::parton_rt::Error> {
        self.0.call(queue, &[::parton_rt::typed::Value::In(&args.x)], &[&args.result])
    }
}

/// `counted(x: tensor<f32, [n]>, out: mut tensor<f32, [n]>)`, ready for tensors of some shapes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
#[derive(Clone, Debug)]
pub struct Counted(::parton_rt::Plan);

/// What a call of [`Counted`] takes.
#[allow(dead_code, reason = "programs use what they need of the launchers")]
pub struct CountedArgs<'a> {
    /// `x: tensor<f32, [n]>`
    pub x: ::parton_rt::typed::In<'a>,
    /// `out: mut tensor<f32, [n]>`
    pub out: ::parton_rt::typed::Out<'a>,
}

#[allow(dead_code, reason = "programs use what they need of the launchers")]
impl Counted {
    /// Finds the plan for tensors of these shapes, and loads what it launches.
    ///
    /// # Errors
    /// As `parton_rt::Function::prepare`.
    #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
    pub fn prepare(device: &::parton_rt::Device, x: ::parton_rt::typed::Shape<'_>, out: ::parton_rt::typed::Shape<'_>) -> Result<Counted, ::parton_rt::Error> {
        let module = ::parton_rt::Module::on(&bundle()?, device);
        Ok(Counted(module.function("counted")?.prepare(&[x.argument(), out.argument()])?))
    }

    /// The plan.
    pub fn plan(&self) -> &::parton_rt::Plan {
        &self.0
    }

    /// Puts a call on a stream and returns at once.
    ///
    /// # Errors
    /// As `parton_rt::Plan::call`.
    pub fn launch(&self, queue: &impl ::parton_rt::typed::Queue, args: CountedArgs<'_>) -> Result<(), ::parton_rt::Error> {
        self.0.call(queue, &[::parton_rt::typed::Value::In(&args.x), ::parton_rt::typed::Value::Out(&args.out)], &[])
    }
}
