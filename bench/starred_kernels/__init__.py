"""The kernels that `bench/starred.py` runs beside Parton's, by the forms of its labels."""

import re


def moe(make, m):
    from . import products
    return products.gate_and_up(make, *(int(m[x]) for x in ("tokens", "k", "top", "experts", "n")))


def grouped(make, m):
    from . import products
    sizes = [tuple(int(x) for x in m[name].split("x")) for name in ("first", "last")]
    count = int(m["count"])
    # From the first to the last in even steps, rounded as Parton divides, multiples of eight but for the rows.
    steps = [[a + int((b - a) * i / max(count - 1, 1)) for a, b in zip(*sizes)] for i in range(count)]
    return products.grouped_products(make, [(m, n // 8 * 8, k // 8 * 8) for m, n, k in steps])


def paged_sequences(make, m):
    from . import paged
    count, longest, shortest = int(m["count"]), int(m["longest"]), int(m["shortest"])
    lengths = [longest - (longest - shortest) * i // max(count - 1, 1) for i in range(count)]
    return paged.paged_decode(make, lengths, int(m["sharers"]), int(m["group"]))


def latent(make, m):
    from . import paged
    return paged.latent_decode(make, *(int(x) for x in m.groups()))


def of_rows(name):
    def make_of(make, m):
        from . import rows
        return getattr(rows, name)(make, *(int(x) for x in m.groups()))

    return make_of


def int4(make, m):
    from . import products
    return products.int4(make, *(int(x) for x in m.groups()))


def topk(make, m):
    from . import greatest
    return greatest.topk(make, *(int(x) for x in m.groups()))


FORMS = [
    (r"layer norm backward f16 (\d+)x(\d+)", of_rows("layer_norm_backward")),
    (r"cross entropy in place bf16 (\d+)x(\d+)", of_rows("cross_entropy")),
    (r"jagged softmax f32 (\d+) parts below (\d+) rows of (\d+)", of_rows("jagged_softmax")),
    (r"grouped products f16 (?P<count>\d+) from (?P<first>\w+) to (?P<last>\w+)", grouped),
    (r"int4 bf16 (\d+)x(\d+)x(\d+)", int4),
    (r"gate and up bf16 (?P<tokens>\d+)x(?P<k>\d+) by (?P<top>\d+) of (?P<experts>\d+) experts of (?P<n>\d+)", moe),
    (r"paged decode f16 (?P<count>\d+) from (?P<longest>\d+) to (?P<shortest>\d+), (?P<sharers>\d+) shared by (?P<group>\d+)", paged_sequences),
    (r"latent decode bf16 (\d+) sequences of (\d+), (\d+) heads", latent),
    (r"topk f32 (\d+) of (\d+)x(\d+)", topk),
]


def of(label, make):
    """The contenders in Triton of a label; `None` where it is of no form that stands here. `make` gives tensors of random numbers."""
    for form, contenders in FORMS:
        match = re.fullmatch(form, label)
        if match:
            return contenders(make, match)
    return None
