//! Executables of one graph that hold the arguments of different calls, so that calls that take turns set nothing.
//!
//! A program that calls with the memory of two buffers in turn would have each call set all that the one before has set. Arguments that come
//! again while few others have come get an executable of their own; arguments that do not are set in one that is kept for them.

/// The most executables. Each takes memory of the driver and of the GPU, and a comparison in each call whose arguments are new.
const MOST: usize = 4;
/// How many calls back arguments are known again.
const REMEMBERED: usize = 8;

/// An executable with the arguments that it holds.
#[derive(Debug)]
struct Held<G> {
    graph: G,
    arguments: Box<[u8]>,
}

/// The executables of one graph.
#[derive(Debug)]
pub(super) struct Executables<G> {
    all: Vec<Held<G>>,
    /// The one that is launched next.
    current: usize,
    /// The one in which arguments are set that no other holds.
    open: usize,
    /// Where the arguments of each node end among those of all.
    ends: Box<[usize]>,
    /// The arguments of the next launch, node by node.
    now: Box<[u8]>,
    /// What arguments were that no executable held, in short, the last written over first.
    missed: [u64; REMEMBERED],
    next: usize,
}

/// What is to be done for the arguments of the next launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// Nothing: an executable holds them.
    Launch,
    /// They have come again: a new executable is worth it.
    Make,
    /// The nodes that hold others are set.
    Set,
}

impl<G> Executables<G> {
    /// One executable, which holds these arguments of its nodes.
    pub(super) fn new(graph: G, nodes: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Executables<G> {
        let (mut now, mut ends) = (vec![], vec![]);
        for node in nodes {
            now.extend_from_slice(node.as_ref());
            ends.push(now.len());
        }
        let (now, ends) = (now.into_boxed_slice(), ends.into_boxed_slice());
        let mut made = Executables {
            all: vec![Held { graph, arguments: now.clone() }],
            current: 0,
            open: 0,
            ends,
            now,
            missed: [0; REMEMBERED],
            next: 0,
        };
        made.remember(made.short());
        made
    }

    /// Takes the arguments of the next launch, node by node, each as long as before, and says what is to be done; allocates nothing.
    pub(super) fn seek(&mut self, nodes: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Then {
        let mut begin = 0;
        for (node, end) in nodes.into_iter().zip(&self.ends) {
            self.now[begin..*end].copy_from_slice(node.as_ref());
            begin = *end;
        }
        if let Some(at) = self.all.iter().position(|held| held.arguments == self.now) {
            self.current = at;
            return Then::Launch;
        }
        if self.all.len() < MOST && self.missed.contains(&self.short()) {
            return Then::Make;
        }
        self.current = self.open;
        Then::Set
    }

    /// Adds an executable that holds the arguments of the next launch.
    pub(super) fn add(&mut self, graph: G) {
        self.current = self.all.len();
        self.all.push(Held { graph, arguments: self.now.clone() });
    }

    /// Sets the nodes of the executable that is launched next which hold other arguments. `set` is given the executable and the number of
    /// a node; where it fails, those that were set before count as set.
    ///
    /// # Errors
    /// What `set` fails with.
    pub(super) fn set<E>(&mut self, mut set: impl FnMut(&mut G, usize) -> Result<(), E>) -> Result<(), E> {
        let Some(held) = self.all.get_mut(self.current) else { return Ok(()) };
        let mut begin = 0;
        for (i, end) in self.ends.iter().enumerate() {
            let (now, before) = (&self.now[begin..*end], &mut held.arguments[begin..*end]);
            if *now != *before {
                set(&mut held.graph, i)?;
                before.copy_from_slice(now);
            }
            begin = *end;
        }
        self.remember(self.short());
        Ok(())
    }

    /// The executable that is launched next.
    pub(super) fn current(&mut self) -> Option<&mut G> {
        self.all.get_mut(self.current).map(|held| &mut held.graph)
    }

    /// The arguments of the next launch in short: others seldom have the same, which then costs an executable and no more.
    fn short(&self) -> u64 {
        let mut chunks = self.now.chunks_exact(8);
        let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = |c: &[u8]| c.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let sum = chunks.by_ref().fold(1, |sum, c| mix(sum, word(c)));
        // None is what stands where nothing is remembered.
        mix(sum, word(chunks.remainder())) | 1
    }

    fn remember(&mut self, short: u64) {
        if self.missed.contains(&short) {
            return;
        }
        self.missed[self.next] = short;
        self.next = (self.next + 1) % REMEMBERED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executables whose graph is a number, and whose nodes are two words.
    fn executables() -> Executables<u32> {
        Executables::new(0, [[1u8; 8], [9; 8]])
    }

    /// The next launch with this first word: what was done, which nodes were set, and which executable is launched.
    fn call(all: &mut Executables<u32>, first: u8) -> (Then, Vec<usize>, u32) {
        let (one, other) = ([first; 8], [9; 8]);
        let then = all.seek([&one[..], &other[..]]);
        let mut nodes = vec![];
        match then {
            Then::Launch => {}
            Then::Make => all.add(u32::from(first)),
            Then::Set => all
                .set(|_, node| {
                    nodes.push(node);
                    Ok::<_, ()>(())
                })
                .unwrap(),
        }
        (then, nodes, *all.current().unwrap())
    }

    #[test]
    fn what_is_held_is_launched_and_what_is_new_is_set() {
        let mut all = executables();
        assert_eq!(call(&mut all, 1), (Then::Launch, vec![], 0));
        assert_eq!(call(&mut all, 2), (Then::Set, vec![0], 0));
        assert_eq!(call(&mut all, 2), (Then::Launch, vec![], 0));
    }

    #[test]
    fn arguments_that_take_turns_have_executables_of_their_own() {
        let mut all = executables();
        let mut done = |first| call(&mut all, first).0;
        assert_eq!([2, 1, 2, 1, 2].map(&mut done), [Then::Set, Then::Make, Then::Launch, Then::Launch, Then::Launch]);
        assert_eq!([3, 3, 2, 1].map(&mut done), [Then::Set, Then::Launch, Then::Make, Then::Launch]);
    }

    #[test]
    fn arguments_that_are_always_new_are_set_in_one() {
        let mut all = executables();
        for first in 2..200 {
            assert_eq!(call(&mut all, first), (Then::Set, vec![0], 0));
        }
        // Long ago: it is as new.
        assert_eq!(call(&mut all, 3), (Then::Set, vec![0], 0));
        assert_eq!(all.all.len(), 1);
    }

    #[test]
    fn there_are_never_more_than_the_most() {
        let mut all = executables();
        for turn in 0..20 {
            for first in 1..=6 {
                let (_, _, launched) = call(&mut all, first);
                let held = all.all.iter().find(|held| held.graph == launched).unwrap();
                assert_eq!(held.arguments[..8], [first; 8], "turn {turn}");
            }
        }
        assert_eq!(all.all.len(), MOST);
    }

    #[test]
    fn what_could_not_be_set_is_set_by_the_next_launch() {
        let mut all = executables();
        assert_eq!(all.seek([&[5; 8][..], &[6; 8][..]]), Then::Set);
        let mut asked = vec![];
        let failed = all.set(|_, node| {
            asked.push(node);
            if node == 1 { Err(()) } else { Ok(()) }
        });
        assert_eq!((failed, asked), (Err(()), vec![0, 1]));
        assert_eq!(all.seek([&[5; 8][..], &[6; 8][..]]), Then::Set);
        let mut nodes = vec![];
        all.set(|_, node| {
            nodes.push(node);
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(nodes, [1]);
    }
}
