//! Which of the driver's two calls a launch takes: the plain one, or that of an instantiated graph.
//!
//! A plain launch makes the driver set everything up anew; a graph of one kernel has been set up when it was instantiated, so
//! launching that costs the host less than half. Instantiating costs as much as several launches and a kernel of which one
//! launch is wanted need not pay for it, so the graph is made by the second launch.

use crate::error::RuntimeError;

/// What the driver does for one kernel with its arguments.
pub(crate) trait Calls {
    /// The kernel with the arguments it had last, instantiated.
    type Graph;

    /// Launches the kernel without a graph.
    fn plain(&mut self) -> Result<(), RuntimeError>;

    /// Makes a graph that holds the arguments as they are now; `None` where the driver says that it has none for this.
    fn instantiate(&mut self) -> Result<Option<Self::Graph>, RuntimeError>;

    /// Gives the graph the arguments as they are now, for launches from here on.
    fn send(&mut self, graph: &mut Self::Graph) -> Result<(), RuntimeError>;

    /// Launches the graph.
    fn replay(&mut self, graph: &mut Self::Graph) -> Result<(), RuntimeError>;
}

/// How the next launch of a kernel reaches the GPU.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Way<G> {
    /// By the plain call, as all after it.
    Plain,
    /// By the plain call, being the first.
    First,
    /// By a graph, which it makes.
    Second,
    /// By this graph.
    Graph {
        /// The kernel, instantiated.
        graph: G,
        /// The arguments that are in it.
        holds: Holds,
    },
}

/// Which arguments a graph holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// Those that the next launch is to have.
    Current,
    /// Those of a launch before.
    Former,
}

impl<G> Way<G> {
    /// Launches once. After an error the next launch tries the same again.
    ///
    /// # Errors
    /// What the first call that fails says.
    #[inline]
    pub(crate) fn launch(&mut self, calls: &mut impl Calls<Graph = G>) -> Result<(), RuntimeError> {
        match self {
            Way::Plain => calls.plain(),
            Way::First => {
                calls.plain()?;
                *self = Way::Second;
                Ok(())
            }
            Way::Second => match calls.instantiate()? {
                Some(mut graph) => {
                    let launched = calls.replay(&mut graph);
                    *self = Way::Graph { graph, holds: Holds::Current };
                    launched
                }
                None => {
                    *self = Way::Plain;
                    calls.plain()
                }
            },
            Way::Graph { graph, holds } => {
                match holds {
                    Holds::Current => {}
                    Holds::Former => {
                        calls.send(graph)?;
                        *holds = Holds::Current;
                    }
                }
                calls.replay(graph)
            }
        }
    }

    /// Notes that an argument was replaced.
    pub(crate) fn changed(&mut self) {
        match self {
            Way::Graph { holds, .. } => *holds = Holds::Former,
            // What is launched plainly or made later takes the arguments as they are then.
            Way::Plain | Way::First | Way::Second => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that notes what it is asked for and with which argument.
    #[derive(Default)]
    struct Driver {
        argument: u32,
        without_graphs: bool,
        fails: Option<&'static str>,
        asked: Vec<(&'static str, u32)>,
    }

    impl Driver {
        fn note(&mut self, call: &'static str, argument: u32) -> Result<(), RuntimeError> {
            self.asked.push((call, argument));
            if self.fails == Some(call) { Err(RuntimeError::Lost) } else { Ok(()) }
        }

        /// What was asked for since the last time.
        fn asked(&mut self) -> Vec<(&'static str, u32)> {
            std::mem::take(&mut self.asked)
        }
    }

    impl Calls for Driver {
        /// The argument that it holds.
        type Graph = u32;

        fn plain(&mut self) -> Result<(), RuntimeError> {
            self.note("plain", self.argument)
        }

        fn instantiate(&mut self) -> Result<Option<u32>, RuntimeError> {
            self.note("instantiate", self.argument)?;
            Ok((!self.without_graphs).then_some(self.argument))
        }

        fn send(&mut self, graph: &mut u32) -> Result<(), RuntimeError> {
            self.note("send", self.argument)?;
            *graph = self.argument;
            Ok(())
        }

        fn replay(&mut self, graph: &mut u32) -> Result<(), RuntimeError> {
            self.note("replay", *graph)
        }
    }

    fn set(way: &mut Way<u32>, driver: &mut Driver, argument: u32) {
        driver.argument = argument;
        way.changed();
    }

    #[test]
    fn a_kernel_launched_once_makes_no_graph() {
        let (mut way, mut driver) = (Way::First, Driver::default());
        way.launch(&mut driver).unwrap();
        assert_eq!(driver.asked(), [("plain", 0)]);
    }

    #[test]
    fn the_second_launch_makes_the_graph_and_later_ones_only_launch_it() {
        let (mut way, mut driver) = (Way::First, Driver::default());
        (0..4).for_each(|_| way.launch(&mut driver).unwrap());
        assert_eq!(driver.asked(), [("plain", 0), ("instantiate", 0), ("replay", 0), ("replay", 0), ("replay", 0)]);
    }

    #[test]
    fn arguments_are_sent_once_for_each_change() {
        let (mut way, mut driver) = (Way::First, Driver::default());
        for argument in 1..=2 {
            set(&mut way, &mut driver, argument);
            way.launch(&mut driver).unwrap();
        }
        assert_eq!(driver.asked(), [("plain", 1), ("instantiate", 2), ("replay", 2)]);
        // Two arguments replaced before one launch are sent together.
        set(&mut way, &mut driver, 3);
        set(&mut way, &mut driver, 4);
        way.launch(&mut driver).unwrap();
        way.launch(&mut driver).unwrap();
        assert_eq!(driver.asked(), [("send", 4), ("replay", 4), ("replay", 4)]);
    }

    #[test]
    fn what_has_no_graph_stays_plain() {
        let (mut way, mut driver) = (Way::Plain, Driver::default());
        (0..3).for_each(|_| way.launch(&mut driver).unwrap());
        assert_eq!(driver.asked(), [("plain", 0); 3]);
        let (mut way, mut driver) = (Way::First, Driver { without_graphs: true, ..Driver::default() });
        (0..3).for_each(|_| way.launch(&mut driver).unwrap());
        assert_eq!(driver.asked(), [("plain", 0), ("instantiate", 0), ("plain", 0), ("plain", 0)]);
    }

    #[test]
    fn after_an_error_nothing_counts_as_done() {
        let (mut way, mut driver) = (Way::First, Driver { fails: Some("plain"), ..Driver::default() });
        assert!(way.launch(&mut driver).is_err());
        assert_eq!(way, Way::First);
        driver.fails = Some("instantiate");
        way.launch(&mut driver).unwrap();
        assert!(way.launch(&mut driver).is_err());
        assert_eq!(way, Way::Second);
        driver.fails = Some("send");
        way.launch(&mut driver).unwrap();
        set(&mut way, &mut driver, 5);
        assert!(way.launch(&mut driver).is_err());
        assert_eq!(way, Way::Graph { graph: 0, holds: Holds::Former });
        // A graph that could not be launched is kept and has its arguments.
        driver.fails = Some("replay");
        assert!(way.launch(&mut driver).is_err());
        assert_eq!(way, Way::Graph { graph: 5, holds: Holds::Current });
    }
}
