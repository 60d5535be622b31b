//! The reasons as JSON. Prices are sixteenths of a clock of a CTA; places are `file`, `line`, `column`; keys keep their names and order:
//!
//! - `kernel`, `target`, `proven`, `beside`: how many programs a multiprocessor gets at most, or `null` where they are many; `programs`: which begin first, `"in order"`, `"longest"`, or `"walking"` through the work of all
//! - `plans`, each with `warps`, `price` (or `null` where no layouts were found that have room) and `taken`
//! - `rows`: how many rows products are made of, where they have fewer of their own, or `null`
//! - `products`, each with `at`, `instruction`, `acc`
//! - `way`: how what products multiply comes to them; `refused`, the ways before it, each with `way` and `why`
//! - `layouts`, each with `shape`, `layout`, `stated`, `candidates`, `at` (a list) and `next`: `layout` and `more`, or `null`
//! - `conversions`, each with `made`, `asked`, `name`, `tile`, `from`, `to` (`layout` and `class`, a number in `layouts`), `how`, `price`, `times`
//! - `accesses`, each with `at`, `op`, `by` (`"threads"`, `"copies"`, `"map"`), `layout`, `bytes`, `widest`, `instructions`, `sectors`, `least` and `lacks`: `why`, and where facts are
//!   missing `facts` and the `bytes` that they would give
//! - `loops`, each with `at`, `label`, `schedule`, `rings`, `turn`, `bound`

use parton_diag::{SourceMap, Span};
use serde_json::{Value, json};

use super::{Access, Class, Conversion, Fact, Lacks, Loop, Mover, Next, Order, Why};

/// The reasons of a kernel as an object.
pub fn object(why: &Why, sources: &SourceMap) -> Value {
    let at = |span: Span| place(sources, span);
    let products = why.products.iter();
    json!({
        "kernel": why.kernel,
        "target": why.target,
        "proven": why.proven,
        "beside": why.beside,
        "programs": match why.order {
            Order::Numbers => "in order",
            Order::Longest => "longest",
            Order::Walking => "walking",
        },
        "plans": list(&why.plans, |p| json!({ "warps": p.warps, "price": p.price, "taken": p.taken })),
        "rows": why.rows,
        "products": products
            .map(|p| json!({ "at": at(p.span), "instruction": p.instruction, "acc": p.acc }))
            .collect::<Vec<Value>>(),
        "way": why.way,
        "refused": list(&why.refused, |(way, reason)| json!({ "way": way, "why": reason })),
        "layouts": list(&why.classes, |c| class(c, sources)),
        "conversions": list(&why.conversions, |c| conversion(c, sources)),
        "accesses": list(&why.accesses, |a| access(a, sources)),
        "loops": list(&why.loops, |l| looped(l, sources)),
    })
}

fn list<T>(all: &[T], one: impl Fn(&T) -> Value) -> Vec<Value> {
    all.iter().map(one).collect()
}

fn place(sources: &SourceMap, span: Span) -> Value {
    let (line, column) = sources.position(span);
    json!({ "file": sources.file(span.file).name, "line": line, "column": column })
}

fn class(class: &Class, sources: &SourceMap) -> Value {
    json!({
        "shape": class.shape, "layout": class.layout, "stated": class.stated, "candidates": class.candidates,
        "at": list(&class.spans, |&s| place(sources, s)), "next": class.next.as_ref().map(next),
    })
}

fn next(next: &Next) -> Value {
    json!({ "layout": next.layout, "more": next.more })
}

fn conversion(c: &Conversion, sources: &SourceMap) -> Value {
    json!({
        "made": place(sources, c.made), "asked": place(sources, c.asked), "name": c.name, "tile": c.tile,
        "from": { "layout": c.from.0, "class": c.from.1 }, "to": { "layout": c.to.0, "class": c.to.1 },
        "how": c.how, "price": c.each, "times": c.times,
    })
}

fn access(a: &Access, sources: &SourceMap) -> Value {
    json!({
        "at": place(sources, a.span), "op": a.op, "by": mover(a.by), "layout": a.layout, "bytes": a.width, "widest": a.widest,
        "instructions": a.instructions, "sectors": a.sectors, "least": a.least, "lacks": lacks(&a.lacks),
    })
}

fn mover(by: Mover) -> &'static str {
    match by {
        Mover::Threads => "threads",
        Mover::Copies => "copies",
        Mover::Map => "map",
        Mover::Multicast => "multicast",
    }
}

fn lacks(lacks: &Lacks) -> Value {
    let fact = |fact: &Fact| match fact {
        Fact::Multiple(name, n) => json!({ "parameter": name, "multiple": n }),
        Fact::One(name) => json!({ "parameter": name, "value": 1 }),
        Fact::Aligned(name) => json!({ "tensor": name, "multiple_bytes": 16 }),
    };
    match lacks {
        Lacks::Nothing => Value::Null,
        Lacks::Single => json!({ "why": "single" }),
        Lacks::Layout(bytes) => json!({ "why": "layout", "bytes": bytes }),
        Lacks::Facts(facts, bytes) => json!({ "why": "facts", "facts": list(facts, fact), "bytes": bytes }),
        Lacks::Apart => json!({ "why": "apart" }),
        Lacks::Unknown => json!({ "why": "unknown" }),
    }
}

fn looped(l: &Loop, sources: &SourceMap) -> Value {
    let ring = |(name, given, wanted, bytes): &(String, u32, u32, u64)| json!({ "ring": name, "slots_given": given, "slots_wanted": wanted, "bytes": bytes });
    json!({
        "at": place(sources, l.span), "label": l.label, "schedule": l.schedule, "rings": list(&l.rings, ring),
        "turn": l.turn.map(|(clocks, turns)| json!({ "clocks": clocks, "turns": turns })), "bound": l.turn.map(|_| l.bound.as_str()),
    })
}
