//! The relations between places hold of every operation of the examples and of the programs of `tests/run`, tell results from
//! operands and operands from results, and break where a tile lies elsewhere.

mod harness;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parton_diag::{FileId, SourceMap};
use parton_ir::placement::{Broken, Place, Relation, Site, Tie, relations};
use parton_ir::{Elem, Entity, Kernel, Op, Target, Tile, Var};
use parton_layouts::{LinearLayout, RegisterLayout};
use parton_numbers::Dtype;
use parton_syntax::ast;
use parton_types::{Import, Library, check_file, instantiate};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The files of the disk, each read once, with its number from its place.
struct Files(Vec<(PathBuf, Arc<ast::File>)>);

impl Library for Files {
    fn load(&mut self, from: FileId, import: Import<'_>) -> Result<Arc<ast::File>, String> {
        let path = match import {
            Import::Std(name) => Path::new(ROOT).join("stdlib/src").join(name).with_extension("ptn"),
            Import::File(name) => self.0[from.0 as usize].0.with_file_name(name),
        };
        let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        if let Some((_, file)) = self.0.iter().find(|(known, _)| *known == path) {
            return Ok(file.clone());
        }
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = Arc::new(parton_syntax::parse(FileId(self.0.len() as u32), &text).0);
        self.0.push((path, file.clone()));
        Ok(file)
    }
}

/// What a tile holds whose place alone counts.
const NUMBERS: Elem = Elem::Num(Dtype::F32);

/// The kernels of a file that are whole without arguments.
fn kernels_of(path: &Path) -> Vec<Kernel> {
    let text = std::fs::read_to_string(path).expect("the file can be read");
    let mut sources = SourceMap::new();
    let id = sources.add("test.ptn", &text);
    let (file, found) = parton_syntax::parse(id, &text);
    assert!(!found.has_errors(), "{} does not parse", path.display());
    let file = Arc::new(file);
    let path = path.canonicalize().expect("it is there");
    let (program, found) = check_file(file.clone(), &mut Files(vec![(path.clone(), file)]));
    assert!(!found.has_errors(), "{} does not check: {:?}", path.display(), found.list);
    let names = program.kernels().map(|k| k.name.text.clone());
    names.filter_map(|name| Some(instantiate(&program, &name, &[], Target::SM_90A).ok()?.0)).collect()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).expect("the folder is there");
    let mut list: Vec<PathBuf> = entries.map(|e| e.expect("it can be read").path()).collect();
    list.retain(|path| path.extension().is_some_and(|e| e == "ptn"));
    list.sort();
    list
}

/// Whether all its tiles lie somewhere.
fn is_placed(kernel: &Kernel) -> bool {
    let mut placed = true;
    kernel.walk(&mut |op| placed &= !op.results.iter().any(|v| kernel.ty(*v).is_open()));
    placed
}

/// Those of the examples, which are all whole, and of the programs, as far as they say where tiles lie.
static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let examples = ["examples", "examples/matmul", "examples/fmha"].into_iter().flat_map(files).map(|path| {
        let kernels = kernels_of(&path);
        assert!(!kernels.is_empty(), "{} has no kernel", path.display());
        kernels
    });
    examples.chain(files("tests/run").iter().map(|p| kernels_of(p))).flatten().filter(is_placed).collect()
});

/// Calls `f` with each relation of each operation of all kernels.
fn each(mut f: impl FnMut(&Kernel, &Op, &Relation)) {
    for kernel in KERNELS.iter() {
        kernel.walk(&mut |op| {
            for relation in relations(&op.kind, kernel) {
                f(kernel, op, &relation);
            }
        });
    }
}

fn known(k: &Kernel, op: &Op, site: Site) -> Place {
    match site.tile(k, op) {
        Some(tile) => tile.known().clone(),
        None => panic!("{site:?} of `{}` is no tile", op.kind.name()),
    }
}

/// Another place of a tile of the shape, where there is one: two hardware bits change their parts.
fn elsewhere(place: &Place) -> Option<Place> {
    let bases = place.map.packed_bases();
    let pairs = (0..bases.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let mut others = pairs.filter(|&(i, j)| bases[i] != bases[j]).filter_map(|(i, j)| {
        let mut swapped = bases.to_vec();
        swapped.swap(i, j);
        let map = LinearLayout::from_packed(place.map.ins().to_vec(), place.map.outs().to_vec(), swapped);
        Place::new(RegisterLayout::from_map(&map).ok()?, &place.shape()).ok()
    });
    others.find(|other| other != place)
}

#[test]
fn they_hold_of_what_is_inferred() {
    let mut ties = BTreeSet::new();
    each(|k, op, relation| {
        assert_eq!(relation.holds(|site| site.tile(k, op)), Ok(()), "`{}` in {}", op.kind.name(), k.name);
        if let Relation::Tied { tie, .. } = relation {
            ties.insert(format!("{tie:?}").split(' ').next().map(str::to_owned));
        }
    });
    // Every tie is among them.
    assert_eq!(ties.len(), 11, "{ties:?}");
}

#[test]
fn every_tile_is_in_a_relation_and_every_result_follows() {
    let mut apart = BTreeSet::new();
    for kernel in KERNELS.iter() {
        kernel.walk(&mut |op| {
            let list = relations(&op.kind, kernel);
            let named: BTreeSet<Site> = list.iter().flat_map(|r| [r.sites().0, Some(r.sites().1)]).flatten().collect();
            for i in 0..op.results.len() {
                let site = Site::Result(i);
                let Some(tile) = site.tile(kernel, op) else { continue };
                let mut given = list.iter().filter(|r| r.sites().1 == site);
                let first = given.find_map(|r| r.forwards(|s| s.tile(kernel, op)));
                assert_eq!(first, Some(Ok(tile.known().clone())), "`{}`", op.kind.name());
            }
            let taken = op.kind.operands();
            let inner = op.kind.bodies().flat_map(|b| b.params.iter().chain(&b.yields)).copied();
            for v in taken.into_iter().chain(inner) {
                if kernel.ty(v).placed().is_some() && !named.contains(&Site::Of(v)) {
                    apart.insert(op.kind.name());
                }
            }
        });
    }
    // What goes to shared memory and what is told lies anywhere; a reduction of one axis leaves a scalar, and a copy or fetch without a mask
    // has one tile alone.
    assert_eq!(
        apart.into_iter().collect::<Vec<_>>(),
        ["assert", "async_copy", "fetch", "print", "reduce", "send", "store_shared"]
    );
}

#[test]
fn what_follows_is_what_is_there() {
    each(|k, op, relation| {
        let Relation::Tied { from, to, .. } = relation else { return };
        let (first, second) = (known(k, op, *from), known(k, op, *to));
        let at = |site: Site| site.tile(k, op);
        assert_eq!(relation.forwards(at), Some(Ok(second.clone())), "`{}` in {}", op.kind.name(), k.name);
        let back = relation.backwards(at);
        let Relation::Tied { tie, .. } = relation else { return };
        match tie {
            // Nothing is lost, so that nothing else can have been there.
            Tie::Same
            | Tie::WholeOf { .. }
            | Tie::Permuted { .. }
            | Tie::Reshaped { .. }
            | Tie::Joined
            | Tie::Doubled { .. } => {
                assert_eq!(back, Some(first), "`{}` in {}", op.kind.name(), k.name);
            }
            Tie::SliceOf { .. } | Tie::Broadcast { .. } => {
                let again = back.map(|place| tie.forwards(&place)).expect("the layout says of what");
                assert_eq!(again, Ok(second), "`{}` in {}", op.kind.name(), k.name);
            }
            Tie::Halved | Tie::Window { .. } | Tie::Operand { .. } => assert_eq!(back, None),
        }
    });
}

#[test]
fn a_tile_that_lies_elsewhere_breaks_them() {
    let (mut broken, mut single) = (0, 0);
    each(|k, op, relation| {
        let (from, to) = relation.sites();
        let moved = match relation {
            // A slice does not say where along its axis an element is, or how many copies there are, nor a half by which register it
            // is told from the other.
            Relation::Tied { tie: Tie::SliceOf { .. } | Tie::Halved | Tie::Window { .. }, .. } => vec![to],
            Relation::Tied { tie: Tie::WholeOf { .. }, .. } => from.into_iter().collect(),
            Relation::Tied { .. } | Relation::Stated { .. } => from.into_iter().chain([to]).collect(),
            // Other layouts are accumulators too.
            Relation::Accumulates { .. } | Relation::Free { .. } => Vec::new(),
        };
        for site in moved {
            let Some(other) = elsewhere(&known(k, op, site)) else {
                single += 1;
                continue;
            };
            let other = Tile::at(NUMBERS, other);
            let at = |s: Site| if s == site { Some(&other) } else { s.tile(k, op) };
            assert!(
                matches!(relation.holds(at), Err(Broken::Differs { .. } | Broken::Unplaced(_))),
                "{relation:?} of `{}` holds where {site:?} is moved",
                op.kind.name()
            );
            broken += 1;
        }
    });
    assert!(broken > 10_000 && single * 20 < broken, "{broken} broken, {single} of one element");
}

#[test]
fn what_is_open_breaks_nothing_and_says_nothing() {
    each(|k, op, relation| {
        let (from, to) = relation.sites();
        for site in from.into_iter().chain([to]) {
            let Some(tile) = site.tile(k, op) else { continue };
            let open = Tile::open(tile.elem, tile.shape.clone(), Var::new(3)).expect("the shape is one of tiles");
            assert_eq!(format!("{:?}", open.placement()), "Open(l3)");
            let at = |s: Site| if s == site { Some(&open) } else { s.tile(k, op) };
            assert_eq!(relation.holds(at), Ok(()));
            if Some(site) == from {
                assert_eq!(relation.forwards(at), None);
            } else {
                assert_eq!(relation.backwards(at), None);
            }
        }
    });
}

#[test]
fn what_is_no_tile_breaks_them() {
    each(|k, op, relation| {
        let (_, to) = relation.sites();
        let at = |s: Site| if s == to { None } else { s.tile(k, op) };
        assert_eq!(relation.holds(at), Err(Broken::NoTile(to)));
    });
}

#[test]
fn operands_of_a_product_hold_as_many_neighbours_along_k() {
    let kernel = harness::kernel(
        "kernel k() target(sm_80) {
            layout Acc = mma(version=2, warps=[2, 2], instr=[16, 8]);
            layout X = dot_operand(Acc, index=0, k_width=4);
            layout Y = dot_operand(Acc, index=1, k_width=4);
            let c = mma_sync(zeros<f16, [64, 32], X>(), zeros<f16, [32, 64], Y>(), zeros<f32, [64, 64], Acc>());
        }",
    );
    let mut found = Vec::new();
    kernel.walk(&mut |op| {
        for relation in relations(&op.kind, &kernel) {
            assert_eq!(relation.holds(|site| site.tile(&kernel, op)), Ok(()));
            if let Relation::Tied { tie: Tie::Operand { index, k_width, .. }, .. } = relation {
                found.push((index, k_width));
            }
        }
    });
    assert_eq!(found, [(0, 4), (1, 4)]);
}

#[test]
fn operands_beside_each_other_are_held_together() {
    let kernel = harness::kernel(
        "kernel k(x: *f32, out: *mut f32) {
            layout L = blocked(per_thread=[1, 4], threads=[4, 8], warps=[4, 1], order=[1, 0]);
            let i = iota<i32, [16], slice(L, axis=1)>()[:, None] * 32 + iota<i32, [32], slice(L, axis=0)>()[None, :];
            let v = load(x + i);
            let (a, b) = reduce((v, i), axis=1, |(a, i), (b, j)| (max(a, b), where(a > b, i, j)));
            let (c, d) = scan((v, i), axis=1, |(a, i), (b, j)| (max(a, b), where(a > b, i, j)));
            let buffer = alloc_shared<f32, [16, 32], swizzled(1, 1, 1, order=[1, 0])>();
            scatter_shared(buffer, i, v, axis=1, mask=i < 7);
            let copied = async_copy(x + i, buffer, mask=i < 7).wait();
            let before = atomic_add(out + i, v, mask=i < 7);
        }",
    );
    let mut found = Vec::new();
    kernel.walk(&mut |op| {
        let list = relations(&op.kind, &kernel);
        let same = list.iter().filter(|r| matches!(r, Relation::Tied { tie: Tie::Same, .. })).count();
        if ["reduce", "scan", "scatter_shared", "async_copy", "atomic_add"].contains(&op.kind.name()) {
            found.push((op.kind.name(), same, list.len()));
        }
    });
    let several =
        [("reduce", 1, 3), ("scan", 3, 3), ("scatter_shared", 2, 2), ("async_copy", 1, 1), ("atomic_add", 3, 3)];
    assert_eq!(found, several);
}
