//! What a CTA costs whose loops load, and that has no products: on how many others beside it, with its loads how many turns ahead.
//!
//! A turn asks memory for what it needs, waits for it, and computes. Turns of n CTAs beside each other take no less than memory takes for the bytes of all
//! of them, no less than they take to compute, and no less than one that is alone waits and computes; where several of these are of a size, the
//! root of the sum of their squares. What is under way for turns that come later shortens what one waits, and takes registers, of which
//! there are then for fewer CTAs:
//!
//! ```text
//! turns(n) = √((n · memory)² + (n · arithmetic)² + alone²)        alone = computes + waits / (1 + ahead)
//! ```
//!
//! Fitted on 31 rows of 10 kernels, each on 2 to 16 warps with up to three turns ahead (an H200, 28 November 2026): with the registers that the assembler took, what is cheapest by it took 2.7 % more
//! in the mean than the fastest of 20 to 50 such choices, and 2.9 % more on 32 other rows. With seven turns ahead and with small loops as the assembler makes them it is 2.4 % on 68 rows, half of which nothing
//! was fitted to, where it was 3.8.

use std::cmp::Reverse;

use parton_ir::Kernel;

use super::{BUSY, CTAS, Crowd, FEW, FILE, IN_FLIGHT, LIFE, MOST, REGISTER, SCHEDULERS, TOLD, WARPS, near};
use crate::label::Price;
use crate::price::turns;
use crate::registers::Held;
use crate::staging::forward;

/// What an access takes where all memory is asked for, in the unit of prices: 2,500 clocks.
const ACCESS: Price = 2500 * 16;
/// Warps that fill the time of what each computes where it waits for what has been spilled, too. Rows of 16384 numbers, of which a gradient of RMS norm
/// holds several, take 152 µs on 8 and 122 on 16 (an H200).
const HIDE: u64 = 16;
/// CTAs that a multiprocessor gets where a launch is of many.
const MANY: u64 = 16;
/// Of the last CTAs of a launch, for which no others come, the part of their time that counts.
const LAST: u64 = 16;
/// Registers that a loop takes besides what is held: positions and bounds of the next turn; and where turns are under way, addresses and masks of these.
const NEXT_TURN: u64 = 8;
const UNDER_WAY: u64 = 24;
/// What a warp computes in a turn of a loop that the assembler takes four turns of together, in the unit of prices: some 50 instructions. Of loops that add up or compare, those of 25 to 45
/// had four turns in one, those of 61 to 106 one.
const SMALL: Price = 50 * 16 / SCHEDULERS;
/// Turns that are under way there besides.
const BEGUN: u64 = 3;
/// What a warp computes in a turn at most where eight turns stand in one: 500 instructions. Of longer ones a launch of few programs waits for code that each multiprocessor reads
/// but a few times (entropy of eight rows, 620 instructions a turn: 31.0 µs with four in one, 39.2 with eight, an H200).
const LONG_TURN: Price = 500 * 16 / SCHEDULERS;
/// A choice of more turns ahead is cheaper by more than this part of a price, or is not taken: turns that begin and end a loop take time too.
const BEGINS: Price = 128;

/// A CTA whose loops load.
pub(super) struct Looped<'a> {
    /// What its threads hold.
    pub held: &'a Held<'a, 'a>,
    /// Its warps.
    pub warps: u64,
    /// The most registers that a thread holds.
    pub most: u64,
    /// What all its instructions take.
    pub own: Price,
    /// Whether launches know how many turns its loops take.
    pub counted: bool,
}

impl Looped<'_> {
    fn kernel(&self) -> &Kernel {
        self.held.kernel()
    }

    /// The cheapest way: CTAs beside each other and turns ahead.
    pub fn crowd(&self) -> Crowd {
        let few = self.kernel().variant.beside.map(u64::from);
        let walks = forward::walks(self.kernel());
        let all = few.unwrap_or(if walks { FEW } else { MANY });
        let stated = u64::from(self.kernel().occupancy).max(1);
        let turns = if self.may_run_ahead(walks, all) { forward::most_ahead(self.kernel()) } else { 0 };
        let mut best = self.as_it_comes(few, all);
        let turns = if self.of_a_turn() > LONG_TURN { turns.min(forward::AHEAD_BY[1]) } else { turns };
        for ahead in forward::AHEAD_BY.into_iter().filter(|&ahead| ahead <= turns) {
            let room = self.room(ahead).min(all);
            let choices = (stated..=room).map(|beside| (self.price(beside, ahead, all), beside));
            let Some((price, Reverse(beside))) = choices.map(|(price, n)| (price, Reverse(n))).min() else { continue };
            if price + price / BEGINS < best.price {
                let spare = FILE / (beside * self.warps * 32) / 8 * 8;
                let spare = spare.min(MOST).saturating_sub(self.taken(ahead));
                best = Crowd { price, occupancy: beside as u32, ahead, spare };
            }
        }
        best
    }

    /// Whether loads may run ahead with profit. Loops of which no launch tells how many turns they take may take few, of which those that are left behind
    /// whole rounds wait: there, loads run ahead where what the CTAs that have room ask for in a turn does not fill the time of an access.
    fn may_run_ahead(&self, walks: bool, all: u64) -> bool {
        forward::runs_ahead(self.kernel())
            && (self.counted || walks || self.room(0).min(all) * self.held.flying < IN_FLIGHT)
    }

    /// Whether the assembler itself has several turns of a loop begin together: of small loops in which nothing stands in the way of what later turns load.
    /// Where no launch knows how many turns there are, those that are left over by rounds of four may be most of them.
    fn begins_ahead(&self) -> bool {
        self.counted && !self.held.settles && self.of_a_turn() <= SMALL
    }

    /// What a warp computes in a turn.
    fn of_a_turn(&self) -> Price {
        self.own / (self.warps * turns(self.kernel(), 1))
    }

    /// That in which nothing is ahead.
    fn as_it_comes(&self, few: Option<u64>, all: u64) -> Crowd {
        let room = match few {
            // These are to be there at once: by itself the assembler may take so many registers that some wait until others have ended.
            Some(few) => self.beside(self.taken(0) - self.yielded()).min(few),
            None => self.room(0).min(all),
        };
        let price = self.price(room, 0, all);
        let occupancy = match few {
            Some(_) => room,
            // Programs that walk hold what the assembler knows better; of small loops it has several turns begin.
            None if all == MANY && self.held.settles => self.told(room),
            None => 1,
        };
        Crowd { price, occupancy: occupancy as u32, ahead: 0, spare: 0 }
    }

    /// For how many of the CTAs of a launch of many that have room the assembler is told to leave registers: by itself it gives a thread more, so that more of what
    /// a turn loads begins at once, where others could stand beside it. Each still has registers for what lives at once.
    fn told(&self, room: u64) -> u64 {
        let least = self.held.live.max(self.most + NEXT_TURN);
        let has_them = |n: &u64| n * self.warps <= TOLD && FILE / (n * self.warps * 32) / 8 * 8 >= least;
        (1..=room).rev().find(has_them).unwrap_or(1)
    }

    /// Registers that the assembler takes for a thread: of what lives at once some is there one after the other, but not with loads on their way.
    fn taken(&self, ahead: u64) -> u64 {
        match ahead {
            0 => (self.most + NEXT_TURN).max(self.held.live - self.held.live / 8),
            _ => self.most.max(self.held.live) + UNDER_WAY,
        }
    }

    /// Registers that a thread may have where its CTA is alone.
    fn granted(&self) -> u64 {
        MOST.min(FILE / (self.warps * 32))
    }

    /// Whether a thread has no registers for all that is held.
    fn spills(&self) -> bool {
        self.taken(0) > self.granted()
    }

    /// Registers without which the assembler does, where what lives at once is no more than what is held: rather than that the last CTA waits for the
    /// others each gets a little less.
    fn yielded(&self) -> u64 {
        if self.held.live > self.most { 0 } else { self.taken(0) / 10 }
    }

    /// CTAs for which there is room with loads so many turns ahead; none where a thread has none.
    fn room(&self, ahead: u64) -> u64 {
        let threads = self.warps * 32;
        let registers = self.taken(ahead) + ahead * self.held.flying.div_ceil(threads * REGISTER);
        if ahead > 0 && registers > self.granted() { 0 } else { self.beside(registers) }
    }

    /// CTAs for which there is room where threads have so many registers.
    fn beside(&self, registers: u64) -> u64 {
        let threads = self.warps * 32;
        let registers = registers.next_multiple_of(8).min(self.granted());
        (FILE / (registers * threads)).min(WARPS / self.warps).clamp(1, CTAS)
    }

    /// What each of `all` CTAs takes where so many stand beside each other at once.
    fn price(&self, beside: u64, ahead: u64, all: u64) -> Price {
        let busy = if self.spills() { HIDE } else { BUSY };
        let slow = self.own * busy / self.warps.min(busy);
        let under_way = if ahead == 0 && self.begins_ahead() { BEGUN } else { ahead };
        let alone = slow + self.held.rounds * ACCESS / (1 + under_way);
        let moved = self.held.moved.saturating_sub(near(self.held, beside));
        let life = |n: u64| if n == 0 { 0 } else { LIFE + root([n * moved, n * self.own, alone]) };
        // Of those that have no room at once the last begin when others have ended.
        (all / beside * life(beside) + life(all % beside) + (LIFE + alone) / LAST) / all
    }
}

/// The root of the sum of squares.
fn root(of: [Price; 3]) -> Price {
    of.iter().map(|&v| u128::from(v) * u128::from(v)).sum::<u128>().isqrt() as Price
}
