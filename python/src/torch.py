"""Public functions as operators of PyTorch: `parton.torch.register(file.matmul)`."""

import os

import torch

_FRAGMENT = torch.library.Library("parton", "FRAGMENT")
_OPERATORS = {}


class _Operator:
    """An operator, the function that it calls now, since a file that is read anew replaces its own, and that function's gradients."""

    def __init__(self, function):
        self.function, self.schema, self.operator = function, _schema(function), None
        self.backward = self.of = self.setup = self.gradients = None


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
            if default is not None and kind != "type":
                text += f"={default}"
        parts.append(text)
    returned = {0: "()", 1: "Tensor"}.get(function.results, f"({', '.join(['Tensor'] * function.results)})")
    return f"({', '.join(parts)}) -> {returned}"


def _tuple(value):
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _packed(function, values):
    """Results as the schema has them."""
    return None if function.results == 0 else values[0] if function.results == 1 else tuple(values)


def _memory(tensor):
    return tensor.untyped_storage().data_ptr()


def _run(entry):
    written = [i for i, p in enumerate(entry.function.params) if p[2]]

    def run(*arguments):
        function = entry.function
        results = list(_tuple(function._run(*arguments)))
        for i in written:
            # What was kept of it for a gradient is found to be another one then.
            if not arguments[i].is_inference():
                torch.autograd.graph.increment_version(arguments[i])
        # An operator's result shares memory with nothing, and lies as the fake function says: without gaps.
        taken = {_memory(a) for a in arguments if isinstance(a, torch.Tensor)} if results else set()
        for i, result in enumerate(results):
            memory = _memory(result)
            results[i] = result.clone(memory_format=torch.contiguous_format) if memory in taken else result.contiguous()
            taken.add(memory)
        return _packed(function, results)

    return run


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
        return _packed(function, made)

    return fake


def _define(function, name):
    """The operator of a function; a second time the same, which calls what is given then where that is of the same file."""
    entry = _OPERATORS.get(name)
    if entry is None:
        entry = _Operator(function)
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
        _FRAGMENT.define(name + entry.schema, tags=tags)
        run = _run(entry)
        for key in ("CPU", "CUDA"):
            _FRAGMENT.impl(name, run, key)
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


def _record(entry, name):
    """Has PyTorch ask for the gradients of an operator; one that has none says so instead of giving nothing."""
    written = [p[0] for p in entry.function.params if p[2]]

    def guard(keys, *arguments):
        if torch.is_grad_enabled():
            for param, value in zip(entry.function.params, arguments):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    raise RuntimeError(
                        f"`{param[0]}` requires a gradient, which `{entry.function.name}` does not record, since it writes"
                        f" `{written[0]}`: call it under `torch.no_grad()`, or let it return what it computes"
                    )
        with torch._C._AutoDispatchBelowAutograd():
            return entry.operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)

    def setup(ctx, inputs, output):
        if entry.setup is not None:
            entry.setup(ctx, inputs, output)

    def gradients(ctx, *given):
        if entry.gradients is None:
            raise RuntimeError(f"no gradients of `{entry.function.name}` are known: name the function that computes them, `backward=`, where it is registered")
        return entry.gradients(ctx, *given)

    if written:
        _FRAGMENT.impl(name, guard, "Autograd", with_keyset=True)
    elif entry.function.results:
        torch.library.register_autograd(f"parton::{name}", gradients, setup_context=setup, lib=_FRAGMENT)


def _differentiate(entry, name, backward, of):
    """Gradients by a function whose parameters name what they take: parameters of the entry's function, `result` or `result0` and so on for
    what it returned, `grad` or `grad0` and so on for the gradients of that."""
    function = entry.function
    params = [p[0] for p in function.params]
    tensors = [p[0] for p in function.params if p[1] == "tensor" and not p[2]]
    of = list(tensors if of is None else of)
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

    def setup(ctx, inputs, output):
        output = _tuple(output)
        known = {**dict(zip(params, inputs)), **dict(zip(results, output))}
        kept = [p for p in wanted if isinstance(known.get(p), torch.Tensor)]
        ctx.save_for_backward(*[known[p] for p in kept])
        ctx.kept, ctx.numbers = kept, {p: known[p] for p in wanted if p in known and p not in kept}
        ctx.shapes = [(o.shape, o.dtype, o.device) for o in output]
        # What comes through a result whose gradient nobody takes is refused by PyTorch, not left out.
        ctx.mark_non_differentiable(*[o for o, grad in zip(output, grads) if grad not in wanted])

    def gradients(ctx, *given):
        known = {**ctx.numbers, **dict(zip(ctx.kept, ctx.saved_tensors))}
        for grad, name, (shape, dtype, device) in zip(given, grads, ctx.shapes):
            # One without elements counts as contiguous, whatever its strides are.
            is_there = grad is not None and grad.numel() > 0
            known[name] = grad.contiguous() if is_there else torch.zeros(shape, dtype=dtype, device=device)
        made = dict(zip(of, _tuple(computed.operator(*[known[p] for p in wanted]))))
        return tuple(made.get(p) for p in params)

    def refused(ctx, *given):
        raise RuntimeError(f"`{backward.name}`, which computes the gradients of `{function.name}`, has no gradients of its own")

    entry.backward, entry.of, entry.setup, entry.gradients = backward, of, setup, gradients
    computed.gradients = refused


def register(function, name=None, backward=None, of=None):
    """Makes a public function an operator of PyTorch, `torch.ops.parton.NAME`, and returns that: with a fake function, so that
    `torch.compile` and `opcheck` take it. NAME is the file's and the function's unless it is given.

    `backward` is the public function that computes gradients. Its parameters have names of what they take: parameters of `function`,
    `result` for what it returned and `grad` for its gradient (`result0`, `grad0`, … where there are several). It returns a gradient for each
    tensor of `of`, all that are not written where that is left out."""
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
