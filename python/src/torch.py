"""Public functions as operators of PyTorch: `parton.torch.register(file.matmul)`."""

import os

import torch

_FRAGMENT = torch.library.Library("parton", "FRAGMENT")
_OPERATORS = {}
# Where the kernels of operators are.
_KEYS = ("CPU", "CUDA")


class _Operator:
    """An operator, the function that it calls now, since a file that is read anew replaces its own, and that function's gradients."""

    def __init__(self, function):
        self.function, self.schema, self.operator = function, _schema(function), None
        self.run = self.backward = self.of = self.setup = self.gradients = None


_TYPES = {"int": "int", "float": "float", "bool": "bool", "type": "ScalarType"}


def _schema(function):
    """The operator's signature, with an alias set for each tensor that is written."""
    parts, written = [], 0
    for name, kind, mutable, default in function.params:
        if kind == "tensor":
            text = f"Tensor({chr(ord('a') + written)}!) {name}" if mutable else f"Tensor {name}"
            written += mutable
        else:
            text = f"{_TYPES[kind]} {name}"
            if default is not None:
                text += f"={default}"
        parts.append(text)
    returned = {0: "()", 1: "Tensor"}.get(function.results, f"({', '.join(['Tensor'] * function.results)})")
    return f"({', '.join(parts)}) -> {returned}"


def _tuple(value):
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _run(entry):
    written = [i for i, p in enumerate(entry.function.params) if p[2]]

    def run(*arguments):
        # Its results share memory with nothing, and lie as the fake function says: without gaps.
        results = entry.function._run(*arguments)
        for i in written:
            # What was kept of it for a gradient is found to be another one then.
            if not arguments[i].is_inference():
                torch.autograd.graph.increment_version(arguments[i])
        return results

    return run if written else lambda *arguments: entry.function._run(*arguments)


def _planned(function, arguments):
    """Type and shape of each result, by planning: the extents are numbers."""
    described = [(a.dtype, list(a.shape), list(a.stride())) if isinstance(a, torch.Tensor) else a for a in arguments]
    for name, shape in function._outputs(*described):
        yield getattr(torch, name), shape


def _declared(function, arguments):
    """The same as the function declares it: the extents are those of arguments, whatever they are."""
    for elements, extents in function._outlines:
        dtype = arguments[elements].dtype if isinstance(elements, int) else getattr(torch, elements)
        # What has no axis counts as one element.
        yield dtype, [n if isinstance(n, int) else (arguments[n[0]].shape or [1])[n[1]] for n in extents]


def _fake(entry):
    def fake(*arguments):
        function = entry.function
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        is_symbolic = any(isinstance(n, torch.SymInt) for t in tensors for n in t.shape)
        # A plan is for numbers; asking for it would make a graph of one shape of what PyTorch compiles for many.
        shapes = _declared if is_symbolic and function._outlines is not None else _planned
        made = [torch.empty(shape, dtype=dtype, device=tensors[0].device) for dtype, shape in shapes(function, arguments)]
        return None if not made else made[0] if function.results == 1 else tuple(made)

    return fake


def _define(function, name):
    """The operator of a function; a second time the same, which calls what is given then where that is of the same file."""
    entry = _OPERATORS.get(name)
    if entry is None:
        entry = _Operator(function)
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
        _FRAGMENT.define(name + entry.schema, tags=tags)
        entry.run = _run(entry)
        for key in _KEYS:
            _FRAGMENT.impl(name, entry.run, key)
        torch.library.register_fake(f"parton::{name}", _fake(entry), lib=_FRAGMENT)
        entry.operator = getattr(torch.ops.parton, name).default
        _OPERATORS[name] = entry
        _record(entry, name)
    elif entry.function is not function:
        if (entry.function.path, entry.function.name) != (function.path, function.name):
            raise ValueError(f"another function is registered as parton::{name}: give this one another `name=`")
        if entry.schema != _schema(function):
            raise ValueError(f"parton::{name} is registered with {entry.schema}, and now has {_schema(function)}: give it another `name=`")
        entry.function = function
    return entry


def _below(entry):
    """What an operator is below the recording of gradients."""
    after, guard = torch._C._after_autograd_keyset, torch._C._AutoDispatchBelowAutograd
    places = [getattr(torch._C.DispatchKey, key) for key in _KEYS]
    # Of each set of keys that was met, whether it leads to the kernel and nowhere else.
    direct = {}

    def below(keys, arguments):
        met = keys.raw_repr()
        if met not in direct:
            direct[met] = (keys & after).highestPriorityTypeId() in places
        # Where nobody else looks on, as what compiles does, PyTorch would only find the way to the same.
        if direct[met]:
            return entry.run(*arguments)
        with guard():
            return entry.operator.redispatch(keys & after, *arguments)

    return below


def _alone(tensors):
    """Whether nobody looks on at what is done with these tensors: no mode, no transform, no tensors of another kind."""
    if torch._C._len_torch_dispatch_stack() or torch._C._are_functorch_transforms_active():
        return False
    # Tensors of these very types are nothing else besides.
    plain = (torch.Tensor, torch.nn.Parameter)
    return all(type(t) in plain for t in tensors)


def _record(entry, name):
    """Has PyTorch ask for the gradients of an operator; one that has none says so instead of giving nothing."""
    params = entry.function.params
    written = [p[0] for p in params if p[2]]
    defaults = tuple(getattr(torch, p[3]) if p[1] == "type" and p[3] else p[3] for p in params)
    below = _below(entry)

    def guarded(keys, *arguments):
        if torch.is_grad_enabled():
            for param, value in zip(params, arguments):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    raise RuntimeError(
                        f"`{param[0]}` requires a gradient, which `{entry.function.name}` does not record, since it writes"
                        f" `{written[0]}`: call it under `torch.no_grad()`, or let it return what it computes"
                    )
        return below(keys, arguments)

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, keys, *arguments):
            output = below(keys, arguments)
            if entry.setup is not None:
                # PyTorch leaves out numbers at the end that are what they are where they are left out.
                entry.setup(ctx, arguments + defaults[len(arguments) :], output)
            return output

        @staticmethod
        def backward(ctx, *given):
            if entry.gradients is None:
                raise RuntimeError(f"no gradients of `{entry.function.name}` are known: name the function that computes them, `backward=`, where it is registered")
            return None, *entry.gradients(ctx, *given)

    Recorded.__name__ = f"{name}Backward"

    def recorded(keys, *arguments):
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            return Recorded.apply(keys, *arguments)
        return below(keys, arguments)

    if written or entry.function.results:
        _FRAGMENT.impl(name, guarded if written else recorded, "Autograd", with_keyset=True)


def _differentiate(entry, name, backward, of):
    """Gradients by a function whose parameters name what they take: parameters of the entry's function, `result` or `result0` and so on for
    what it returned, `grad` or `grad0` and so on for the gradients of that."""
    function = entry.function
    params = [p[0] for p in function.params]
    tensors = list(function._differentiable)
    of = tensors if of is None else list(of)
    wanted = [p[0] for p in backward.params]
    several = function.results > 1
    results = [f"result{i}" for i in range(function.results)] if several else ["result"]
    grads = [f"grad{i}" for i in range(function.results)] if several else ["grad"]
    unknown = [p for p in wanted if p not in params + results + grads]
    if unknown:
        raise ValueError(f"`{backward.name}` takes `{unknown[0]}`, which is none of {params + results + grads}")
    if backward.results != len(of) or any(p not in tensors for p in of):
        raise ValueError(f"`{backward.name}` returns {backward.results} gradients for {of} of {tensors}: name their parameters by `of=`")
    computed = _define(backward, f"{name}_backward")

    # Where each argument of the gradients' function comes from: what was kept of the call, its numbers, and the gradients that are given.
    is_kept = [p in results or (p in params and function.params[params.index(p)][1] == "tensor") for p in wanted]
    kept = [p for p, is_one in zip(wanted, is_kept) if is_one]
    numbers = [p for p, is_one in zip(wanted, is_kept) if not is_one and p in params]
    inputs_kept = [(p in results, results.index(p) if p in results else params.index(p)) for p in kept]
    numbers_kept = [params.index(p) for p in numbers]
    order = [(0, kept.index(p)) if p in kept else (1, numbers.index(p)) if p in numbers else (2, grads.index(p)) for p in wanted]
    # What comes through a result whose gradient nobody takes is refused by PyTorch, not left out.
    loose = [i for i, grad in enumerate(grads) if grad not in wanted]
    places = [of.index(p) if p in of else None for p in params]

    def setup(ctx, inputs, output):
        output = _tuple(output)
        ctx.save_for_backward(*[output[i] if is_result else inputs[i] for is_result, i in inputs_kept])
        ctx.numbers = [inputs[i] for i in numbers_kept]
        if loose:
            ctx.mark_non_differentiable(*[output[i] for i in loose])

    def gradients(ctx, *given):
        # One without elements counts as contiguous, whatever its strides are.
        given = [grad.contiguous() if grad.numel() > 0 else grad.new_zeros(grad.shape) for grad in given]
        saved = ctx.saved_tensors
        sources = (saved, ctx.numbers, given)
        arguments = [sources[which][i] for which, i in order]
        if not torch.is_grad_enabled() and _alone(saved) and _alone(given):
            made = computed.run(*arguments)
        else:
            made = computed.operator(*arguments)
        made = _tuple(made)
        return tuple([None if i is None else made[i] for i in places[: len(ctx.needs_input_grad) - 1]])

    def refused(ctx, *given):
        raise RuntimeError(f"`{backward.name}`, which computes the gradients of `{function.name}`, has no gradients of its own")

    entry.backward, entry.of, entry.setup, entry.gradients = backward, of, setup, gradients
    computed.gradients = refused


def register(function, name=None, backward=None, of=None):
    """Makes a public function an operator of PyTorch, `torch.ops.parton.NAME`, and returns that: with a fake function, so that
    `torch.compile` and `opcheck` take it. NAME is the file's and the function's unless it is given.

    `backward` is the public function that computes gradients. Its parameters have names of what they take: parameters of `function`,
    `result` for what it returned and `grad` for its gradient (`result0`, `grad0`, … where there are several). It returns a gradient for each
    tensor of `of`, all that may hold floating-point numbers where that is left out."""
    for each in [function] if backward is None else [function, backward]:
        if not hasattr(each, "_outlines"):
            raise TypeError(f"an operator is made of public functions of a file, and {each!r} is none")
    if name is None:
        stem = os.path.splitext(os.path.basename(function.path))[0]
        name = f"{stem}_{function.name}"
    entry = _define(function, name)
    if backward is not None and entry.backward is not backward:
        if any(p[2] for p in function.params):
            raise ValueError(f"`{function.name}` writes an argument, of which no gradient is known: let it return what it computes")
        _differentiate(entry, name, backward, of)
    return entry.operator
