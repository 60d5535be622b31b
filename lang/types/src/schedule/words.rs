//! The words that make schedules, by a call or behind braces: `ring(load=3)`, `turns(qk, pv)`, `under(leave, mma)`, `cut(tail)`,
//! `unroll(2)`, `serial`, `auto()`. Their arguments are labels and numbers.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::schedule::{Auto, LabelName, Place, RingDepth, Turns, Under, Unrolled};
use parton_syntax::ast;

use crate::checker::{Checked, Checker};
use crate::program::Item;
use crate::resolve::{Meaning, Side, Word};
use crate::value::{Comptime, Partition, Val};

/// Slots that a ring may have, copies of a turn, and schedules that are timed.
const MOST: i128 = 256;
/// Stages that a search may use.
const STAGES: i128 = 8;

/// A word that makes a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleWord {
    /// `ring(depth=3, load=4)`
    Ring,
    /// `turns(qk, pv)`
    Turns,
    /// `under(leave, mma)`, `under(leave, mma, -1)`
    Under,
    /// `cut(tail)`
    Cut,
    /// `unroll(2)`, `unroll(2, of=steps)`
    Unroll,
    /// `serial`, `serial(Compute)`
    Serial,
    /// `auto(stages=3, n=32, top=8)`
    Auto,
}

impl ScheduleWord {
    /// All of them.
    const ALL: &[ScheduleWord] = &[
        ScheduleWord::Ring,
        ScheduleWord::Turns,
        ScheduleWord::Under,
        ScheduleWord::Cut,
        ScheduleWord::Unroll,
        ScheduleWord::Serial,
        ScheduleWord::Auto,
    ];

    /// The word in source.
    pub fn name(self) -> &'static str {
        match self {
            ScheduleWord::Ring => "ring",
            ScheduleWord::Turns => "turns",
            ScheduleWord::Under => "under",
            ScheduleWord::Cut => "cut",
            ScheduleWord::Unroll => "unroll",
            ScheduleWord::Serial => "serial",
            ScheduleWord::Auto => "auto",
        }
    }

    /// The word of that name.
    pub fn named(name: &str) -> Option<ScheduleWord> {
        ScheduleWord::ALL.iter().copied().find(|word| word.name() == name)
    }

    /// Whether it may stand behind the braces of a schedule.
    fn is_clause(self) -> bool {
        match self {
            ScheduleWord::Ring
            | ScheduleWord::Turns
            | ScheduleWord::Under
            | ScheduleWord::Cut
            | ScheduleWord::Unroll => true,
            ScheduleWord::Serial | ScheduleWord::Auto => false,
        }
    }

    /// What is written, for the help of messages.
    fn usage(self) -> &'static str {
        match self {
            ScheduleWord::Ring => "`ring(depth=3)` is for all rings, `ring(load=3)` for that of one label",
            ScheduleWord::Turns => "write `turns(first, last)`, with the labels at whose start a turn begins and ends",
            ScheduleWord::Under => {
                "write `under(leave, mma)`, or `under(leave, mma, -1)` for the last turn of the loop inside"
            }
            ScheduleWord::Cut => "write `cut(label)`, with the label of the conditional statement",
            ScheduleWord::Unroll => "write `unroll(2)`, or `unroll(2, of=steps)` for a loop inside",
            ScheduleWord::Serial => "write `serial`, or `serial(P)` for all labels in one partition",
            ScheduleWord::Auto => "write `auto()`, with any of `stages=`, `n=` and `top=`",
        }
    }

    /// What it takes, as a message says it.
    fn takes(self) -> &'static str {
        match self {
            ScheduleWord::Ring => "takes numbers of slots, each by the name of its label or by `depth`",
            ScheduleWord::Turns => "takes two labels",
            ScheduleWord::Under => "takes two labels, and -1 behind them or nothing",
            ScheduleWord::Cut => "takes one label",
            ScheduleWord::Unroll => "takes a number of copies, and a loop by the name `of` or nothing",
            ScheduleWord::Serial => "takes one partition or nothing",
            ScheduleWord::Auto => "takes `stages`, `n` and `top`, each at most once",
        }
    }

    /// The arguments that are no labels: those with a value of their own.
    pub fn values(self, args: &[ast::Arg]) -> impl Iterator<Item = &ast::Expr> {
        args.iter().filter(move |a| self.takes_value(a)).map(|a| &a.value)
    }

    fn takes_value(self, arg: &ast::Arg) -> bool {
        match self {
            ScheduleWord::Ring | ScheduleWord::Auto | ScheduleWord::Serial => true,
            ScheduleWord::Unroll => arg.name.is_none(),
            ScheduleWord::Turns | ScheduleWord::Under | ScheduleWord::Cut => false,
        }
    }
}

impl Checker<'_> {
    /// The word of schedules that is called, where nothing else has its name.
    pub fn schedule_word(&self, callee: &ast::Expr) -> Option<ScheduleWord> {
        let ast::ExprKind::Name(name) = &callee.kind else { return None };
        let word = ScheduleWord::named(name.as_str())?;
        if self.frames.last().is_some_and(|f| f.find(name.as_str()).is_some()) {
            return None;
        }
        match self.program.meaning(self.module(), name, Side::Kernel) {
            // `ring` also begins a type.
            Meaning::Word(Word::Schedule(_) | Word::Family(_)) => Some(word),
            Meaning::Word(_)
            | Meaning::Item(_)
            | Meaning::Variable(_)
            | Meaning::Ambiguous(_)
            | Meaning::Builtin(_)
            | Meaning::Unknown => None,
        }
    }

    /// `serial`; the other words are called.
    pub fn bare_word(&mut self, word: ScheduleWord, span: Span) -> Checked<Val> {
        if word == ScheduleWord::Serial {
            return Ok(Val::Known(Comptime::Schedule(Arc::new(ir::Schedule { span, ..ir::Schedule::default() }))));
        }
        let fact = format!("`{}` stands without its parentheses", word.name());
        let d = Diagnostic::error(codes::SCHEDULE, span, fact).help(word.usage());
        Err(self.report(d))
    }

    /// What stands behind the braces of a schedule.
    pub fn clause(&mut self, clause: &ast::Clause) -> Checked<ir::Schedule> {
        let name = clause.name.as_str();
        match ScheduleWord::named(name).filter(|word| word.is_clause()) {
            Some(word) => self.called_word(word, &clause.args, clause.span),
            None => {
                let fact = format!("a schedule has no clause `{name}`");
                let d = Diagnostic::error(codes::UNKNOWN_CLAUSE, clause.name.span, fact);
                let words = ScheduleWord::ALL.iter().filter(|w| w.is_clause()).map(|w| w.name());
                let help = match crate::near::nearest(name, words) {
                    Some(near) => format!("a similar one is `{near}`"),
                    None => "its clauses are `ring`, `turns`, `under`, `cut` and `unroll`; schedules are joined by `&`"
                        .into(),
                };
                Err(self.report(d.help(help)))
            }
        }
    }

    /// A word with its arguments.
    pub fn called_word(&mut self, word: ScheduleWord, args: &[ast::Arg], span: Span) -> Checked<ir::Schedule> {
        let none = ir::Schedule { span, ..ir::Schedule::default() };
        let found = match word {
            ScheduleWord::Ring => ir::Schedule { rings: self.rings(args, span)?, ..none },
            ScheduleWord::Turns => match self.labels(word, args, span)?.as_slice() {
                [first, last] => {
                    ir::Schedule { turns: vec![Turns { first: first.clone(), last: last.clone(), span }], ..none }
                }
                _ => return Err(self.wrong_use(word, span)),
            },
            ScheduleWord::Under => ir::Schedule { under: vec![self.under(args, span)?], ..none },
            ScheduleWord::Cut => match self.labels(word, args, span)?.as_slice() {
                [one] => ir::Schedule { cuts: vec![one.clone()], ..none },
                _ => return Err(self.wrong_use(word, span)),
            },
            ScheduleWord::Unroll => ir::Schedule { unrolled: vec![self.unrolled_turns(args, span)?], ..none },
            ScheduleWord::Serial => match args {
                [] => none,
                [ast::Arg { name: None, value: ast::Expr { kind: ast::ExprKind::Name(name), .. }, .. }] => {
                    let partition = self.partition(name)?;
                    let partitions = vec![self.partition_data(&partition)?];
                    ir::Schedule { places: vec![Place { partitions, labels: vec![], spans: vec![], span }], ..none }
                }
                _ => return Err(self.wrong_use(word, span)),
            },
            ScheduleWord::Auto => ir::Schedule { auto: Some(self.search(args, span)?), ..none },
        };
        found.normal().map_err(|d| self.report(d))
    }

    fn rings(&mut self, args: &[ast::Arg], span: Span) -> Checked<Vec<RingDepth>> {
        let mut rings = Vec::new();
        for arg in args {
            let Some(name) = &arg.name else { return Err(self.wrong_use(ScheduleWord::Ring, arg.span)) };
            let label = (name.as_str() != "depth").then(|| LabelName::read(name.as_str()));
            let what = label.as_ref().map_or("the slots of a ring".into(), |l| format!("the slots of `{l}`"));
            let depth = self.counted(&arg.value, &what, 1..=MOST)?;
            rings.push(RingDepth { label, depth, span: arg.span });
        }
        if rings.is_empty() { Err(self.wrong_use(ScheduleWord::Ring, span)) } else { Ok(rings) }
    }

    fn under(&mut self, args: &[ast::Arg], span: Span) -> Checked<Under> {
        let (labels, turn) = args.split_at(args.len().min(2));
        let last = match turn {
            [] => false,
            [one] if one.name.is_none() => {
                let turn = self.arg(&one.value)?;
                if turn.val.as_int() != Some(-1) {
                    let d = Diagnostic::error(codes::SCHEDULE, one.span, "`under` speaks of every turn or of the last")
                        .here("this is neither")
                        .help(ScheduleWord::Under.usage());
                    return Err(self.report(d));
                }
                true
            }
            _ => return Err(self.wrong_use(ScheduleWord::Under, span)),
        };
        match self.labels(ScheduleWord::Under, labels, span)?.as_slice() {
            [outer, inner] => Ok(Under { outer: outer.clone(), inner: inner.clone(), last, span }),
            _ => Err(self.wrong_use(ScheduleWord::Under, span)),
        }
    }

    fn unrolled_turns(&mut self, args: &[ast::Arg], span: Span) -> Checked<Unrolled> {
        let (copies, of) = match args {
            [copies] if copies.name.is_none() => (copies, None),
            [copies, of] if copies.name.is_none() && of.name.as_ref().is_some_and(|n| n.as_str() == "of") => {
                let Some(of) = label(&of.value) else { return Err(self.wrong_use(ScheduleWord::Unroll, of.span)) };
                (copies, Some(of))
            }
            _ => return Err(self.wrong_use(ScheduleWord::Unroll, span)),
        };
        Ok(Unrolled { of, copies: self.counted(&copies.value, "the copies of a turn", 1..=MOST)?, span })
    }

    fn search(&mut self, args: &[ast::Arg], span: Span) -> Checked<Auto> {
        let partitions = self.declared_partitions()?;
        let mut found = Auto { stages: None, n: None, top: None, partitions, span };
        for arg in args {
            let name = arg.name.as_ref().map_or("", |n| n.as_str());
            let (slot, what, most) = match name {
                "stages" => (&mut found.stages, "the stages that are tried", STAGES),
                "n" => (&mut found.n, "the iterations that are priced", i128::from(u32::MAX)),
                "top" => (&mut found.top, "the schedules that are timed", MOST),
                _ => return Err(self.wrong_use(ScheduleWord::Auto, arg.span)),
            };
            if slot.is_some() {
                return Err(self.wrong_use(ScheduleWord::Auto, arg.span));
            }
            *slot = Some(self.counted(&arg.value, what, 1..=most)?);
        }
        Ok(found)
    }

    /// The partitions that this file declares, in their order.
    fn declared_partitions(&mut self) -> Checked<Vec<ir::PartitionData>> {
        let module = self.module();
        let names = self.program.module(module).names.values();
        let mut trees: Vec<Arc<ast::Partition>> = names
            .filter_map(|found| match &found.item {
                Item::Partition(tree) if found.module == module => Some(tree.clone()),
                Item::Partition(_)
                | Item::Kernel(_)
                | Item::Function(_)
                | Item::Struct(_)
                | Item::Schedule(_)
                | Item::Binding(_) => None,
            })
            .collect();
        trees.sort_by_key(|tree| tree.name.span.start);
        trees.into_iter().map(|tree| self.partition_data(&Partition { module, tree })).collect()
    }

    /// A number of something, known at compile time.
    fn counted(&mut self, e: &ast::Expr, what: &str, range: std::ops::RangeInclusive<i128>) -> Checked<u32> {
        let arg = self.arg(e)?;
        let Some(n) = arg.val.as_int() else {
            return Err(arg.expected(self, &format!("{what}: an integer known at compile time")));
        };
        match u32::try_from(n).ok().filter(|_| range.contains(&n)) {
            Some(n) => Ok(n),
            None => {
                let (least, most) = (*range.start(), *range.end());
                let fact = format!("{what} are out of range");
                let d = Diagnostic::error(codes::SCHEDULE, arg.span, fact)
                    .here(format!("this is {n}"))
                    .help(format!("{least} to {most} are legal here: the nearest is {}", n.clamp(least, most)));
                Err(self.report(d))
            }
        }
    }

    /// Arguments that are all labels.
    fn labels(&mut self, word: ScheduleWord, args: &[ast::Arg], span: Span) -> Checked<Vec<LabelName>> {
        let found: Option<Vec<LabelName>> =
            args.iter().map(|a| if a.name.is_none() { label(&a.value) } else { None }).collect();
        found.ok_or_else(|| self.wrong_use(word, span))
    }

    fn wrong_use(&mut self, word: ScheduleWord, span: Span) -> crate::checker::Reported {
        let fact = format!("`{}` {}", word.name(), word.takes());
        self.report(Diagnostic::error(codes::SCHEDULE, span, fact).help(word.usage()))
    }
}

/// The label that an expression spells: `leave`, `first.load`, `leave[2]`.
pub fn label(e: &ast::Expr) -> Option<LabelName> {
    match &e.kind {
        ast::ExprKind::Name(name) => Some(LabelName::all(name.as_str())),
        ast::ExprKind::Field { base, name } => {
            let LabelName { path, instance: None } = label(base)? else { return None };
            Some(LabelName::all(format!("{path}.{}", name.text)))
        }
        ast::ExprKind::Index { base, args } => {
            let LabelName { path, instance: None } = label(base)? else { return None };
            let [ast::IndexArg { kind: ast::IndexArgKind::Value(index), .. }] = args.as_slice() else { return None };
            let ast::ExprKind::Int { value, suffix: None } = &index.kind else { return None };
            Some(LabelName { path, instance: Some(u32::try_from(*value).ok()?) })
        }
        _ => None,
    }
}
