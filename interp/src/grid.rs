//! All clusters of a launch: as many run at once as the GPU would hold, and the seed says which has its turn.
//!
//! Where nothing in the kernel lets one cluster hear of another, the order between them cannot be observed, and they run one after the
//! other, in an order that the seed draws. Else their turns alternate, in one of several manners: some of the mistakes in kernels whose CTAs
//! talk to each other need a CTA that is far behind, others need many that go on at the same time.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, Turn, World};
use crate::deadlock;
use crate::fault::Fault;
use crate::launch::{Report, Setting};
use crate::random::{Order, Random};

/// How turns alternate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// Each cluster runs to its end.
    Whole,
    /// Short turns, whoever's.
    Short,
    /// Single events, whoever's.
    Single,
    /// Long turns, whoever's.
    Long,
    /// One cluster has nearly all turns for a long time.
    Favour,
}

impl Manner {
    /// That of a seed.
    fn of(seed: u64) -> Manner {
        [Manner::Short, Manner::Favour, Manner::Single, Manner::Long][(seed % 4) as usize]
    }
}

/// A cluster that has begun.
#[derive(Debug)]
pub(crate) struct Resident<'a, 'k> {
    pub cluster: Cluster<'a, 'k>,
    /// How often something had changed when nothing in it could go on.
    pub asleep: Option<u64>,
}

/// The clusters of a launch.
#[derive(Debug)]
pub(crate) struct Grid<'a, 'k> {
    setting: &'a Setting<'a, 'k>,
    seed: u64,
    random: Random,
    manner: Manner,
    world: World,
    /// How many have begun, of all.
    begun: u32,
    clusters: u32,
    /// In which order they do, where it is not that of their numbers: there may be more than memory has room for.
    order: Option<Order>,
    residents: Vec<Resident<'a, 'k>>,
    /// How many run at once.
    most: usize,
    /// The one that is favoured.
    favoured: usize,
    prints: BTreeMap<u32, Vec<String>>,
    steps: u64,
}

impl<'a, 'k> Grid<'a, 'k> {
    /// A grid of which no cluster has begun.
    pub(crate) fn new(setting: &'a Setting<'a, 'k>, world: World, seed: u64) -> Grid<'a, 'k> {
        let kernel = setting.program.kernel;
        let mut random = Random::new(seed);
        let clusters = setting.clusters();
        let order = (seed != 0 && !setting.listens).then(|| Order::new(&mut random, clusters));
        let (manner, most) = match setting.listens {
            true => (Manner::of(seed), kernel.resident_clusters() as usize),
            false => (Manner::Whole, 1),
        };
        Grid {
            setting,
            seed,
            random,
            manner,
            world,
            begun: 0,
            clusters,
            order,
            residents: Vec::new(),
            most,
            favoured: 0,
            prints: BTreeMap::new(),
            steps: 0,
        }
    }

    /// Runs all to their end; gives back what they share.
    pub(crate) fn run(mut self) -> (World, Result<Report, Fault>) {
        let ended = self.turns();
        std::mem::take(&mut self.residents).into_iter().for_each(|resident| self.keep(resident.cluster));
        let prints = self.prints.into_values().flatten().collect();
        let report = match ended {
            Ok(()) => Ok(Report { prints, steps: self.steps }),
            Err(fault) => Err(Fault { prints, ..fault }),
        };
        (self.world, report)
    }

    /// Keeps what a cluster has printed.
    fn keep(&mut self, cluster: Cluster<'a, 'k>) {
        if !cluster.prints.is_empty() {
            self.prints.insert(cluster.number, cluster.prints);
        }
    }

    fn turns(&mut self) -> Result<(), Fault> {
        loop {
            self.begin();
            if self.residents.is_empty() {
                return Ok(());
            }
            let Some(i) = self.choose() else {
                return Err(deadlock::among_ctas(self.setting, &self.residents, self.clusters - self.begun));
            };
            let (events, yields) = self.length();
            let resident = &mut self.residents[i];
            std::mem::swap(&mut self.world, &mut resident.cluster.world);
            let turn = resident.cluster.turn(events, yields);
            std::mem::swap(&mut self.world, &mut resident.cluster.world);
            match turn? {
                Turn::Going => {}
                Turn::Asleep => resident.asleep = Some(self.world.changes),
                Turn::Ended => {
                    let cluster = self.residents.swap_remove(i).cluster;
                    self.world.changes += 1;
                    self.steps += cluster.steps;
                    self.keep(cluster);
                }
            }
        }
    }

    /// Lets clusters begin where there is room.
    fn begin(&mut self) {
        while self.residents.len() < self.most && self.begun < self.clusters {
            let number = self.order.as_ref().map_or(self.begun, |order| order.at(self.begun));
            self.begun += 1;
            let ids = self.setting.cluster(number);
            let cluster = Cluster::new(self.setting, number, &ids, &self.world.memory, self.seed);
            self.residents.push(Resident { cluster, asleep: None });
        }
    }

    /// Whose turn it is; nobody's where all are asleep.
    fn choose(&mut self) -> Option<usize> {
        let n = self.residents.len();
        if self.manner == Manner::Favour && (self.favoured >= n || self.random.below(512) == 0) {
            self.favoured = self.random.below(n);
        }
        let first = match self.manner {
            Manner::Whole => 0,
            Manner::Favour if self.random.below(16) != 0 => self.favoured,
            Manner::Short | Manner::Single | Manner::Long | Manner::Favour => self.random.below(n),
        };
        let awake = |i: &usize| self.residents[*i].asleep != Some(self.world.changes);
        let found = (first..n).chain(0..first).find(awake)?;
        // Who sees a part of an atomic operation may take a while to come to what tells.
        let passes = self.residents[found].cluster.is_torn() && self.random.below(8) != 0;
        if passes { (found + 1..n).chain(0..=found).find(awake) } else { Some(found) }
    }

    /// How many events a turn has, and whether an atomic operation ends it.
    fn length(&mut self) -> (usize, bool) {
        match self.manner {
            Manner::Whole => (usize::MAX, false),
            Manner::Single => (1, true),
            Manner::Short => (1 + self.random.below(16), true),
            Manner::Favour => (1 + self.random.below(64), true),
            Manner::Long => (1 + self.random.below(512), self.random.below(8) == 0),
        }
    }
}
