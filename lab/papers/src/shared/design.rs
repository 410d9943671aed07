//! The design of an experiment: the cells that are measured, and what their rows are about.
//!
//! A method states it once. The names that claims may use, the rows that a complete run has, and the progress follow
//! from it, and a cell whose rows are about something else is an error.
//!
//! # Invariants
//! No two cells of a design have the same name.

use super::experiment::Experiment;
use super::rows::MEAN;

/// The metrics of which there are rows about a source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Metrics {
    /// All metrics of the experiment.
    All,
    /// These only.
    Only(&'static [&'static str]),
    /// All but these.
    But(&'static [&'static str]),
    /// Some: claims can name the source, but a claim that names no sources is not about it.
    Some,
}

impl Metrics {
    /// Returns `true` if a complete run has rows of a metric.
    fn has(self, metric: &str) -> bool {
        match self {
            Metrics::All => true,
            Metrics::Only(own) => own.contains(&metric),
            Metrics::But(others) => !others.contains(&metric),
            Metrics::Some => false,
        }
    }
}

/// What rows are about.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// The source.
    source: String,
    /// The system; `None` for all systems of the experiment.
    system: Option<String>,
    metrics: Metrics,
    /// The number of rounds that have rows `NAME@ROUND` next to a mean, by metric.
    rounds: Vec<(Metrics, u32)>,
}

impl About {
    /// Rows of all metrics about a source.
    pub(crate) fn all(source: impl Into<String>) -> About {
        About {
            source: source.into(),
            system: None,
            metrics: Metrics::All,
            rounds: Vec::new(),
        }
    }

    /// Rows of these metrics only.
    pub(crate) fn of(source: impl Into<String>, metrics: Metrics) -> About {
        About {
            metrics,
            ..About::all(source)
        }
    }

    /// The same of one system only.
    pub(crate) fn system(self, name: impl Into<String>) -> About {
        About {
            system: Some(name.into()),
            ..self
        }
    }

    /// The same with rows of rounds next to the means of some metrics.
    pub(crate) fn rounds(mut self, metrics: Metrics, rounds: u32) -> About {
        self.rounds.push((metrics, rounds));
        self
    }
}

/// A part of an experiment that is measured in one go, and kept.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The name, for readers and for the store.
    pub name: String,
    /// How many steps it reports. Those of a shortened run can be fewer.
    pub steps: u64,
    /// What its rows are about.
    about: Vec<About>,
}

impl Cell {
    /// Creates a cell.
    pub(crate) fn new(name: impl Into<String>, steps: usize, about: Vec<About>) -> Cell {
        Cell {
            name: name.into(),
            steps: steps as u64,
            about,
        }
    }

    /// Creates a cell whose rows are about one source, with its name.
    pub(crate) fn of(source: impl Into<String>, steps: usize) -> Cell {
        let source = source.into();
        Cell::new(source.clone(), steps, vec![About::all(source)])
    }

    /// Returns `true` if its rows can be about a source.
    pub(crate) fn has(&self, source: &str) -> bool {
        self.about.iter().any(|own| own.source == source)
    }
}

/// What an experiment measures.
#[derive(Clone, Debug)]
pub struct Design {
    /// The cells, in the order of their rows.
    pub cells: Vec<Cell>,
    /// What follows from the rows of all cells.
    concluded: Vec<About>,
}

impl Design {
    /// Creates a design of which all rows are those of its cells.
    pub(crate) fn new(cells: Vec<Cell>) -> Design {
        Design {
            cells,
            concluded: Vec::new(),
        }
    }

    /// Creates a design with a cell for each trace.
    pub(crate) fn of_traces(experiment: &Experiment, steps: usize) -> Design {
        let traces = experiment.trace_names().into_iter();
        Design::new(traces.map(|name| Cell::of(name, steps)).collect())
    }

    /// Adds what follows from the rows of all cells.
    pub(crate) fn concluding(mut self, about: impl IntoIterator<Item = About>) -> Design {
        self.concluded.extend(about);
        self
    }

    /// Adds the mean over all sources, of these metrics.
    pub(crate) fn with_mean(self, metrics: Metrics) -> Design {
        self.concluding([About::of(MEAN, metrics)])
    }

    fn about(&self) -> impl Iterator<Item = &About> {
        let cells = self.cells.iter().flat_map(|cell| &cell.about);
        cells.chain(&self.concluded)
    }

    /// Returns the sources of those rows that fit, each once.
    fn of_which(&self, fits: impl Fn(&About) -> bool) -> Vec<String> {
        let mut sources: Vec<String> = Vec::new();
        for own in self.about().filter(|own| fits(own)) {
            if sources.last() != Some(&own.source) && !sources.contains(&own.source) {
                sources.push(own.source.clone());
            }
        }
        sources
    }

    /// Returns the sources that rows can have: tables and claims name no others.
    pub fn sources(&self) -> Vec<String> {
        self.of_which(|_| true)
    }

    /// Returns the sources of which a complete run has rows of a metric. A claim without `sources` needs all of them.
    pub fn sources_of(&self, metric: &str) -> Vec<String> {
        self.of_which(|own| own.metrics.has(metric))
    }

    /// Returns `true` if a source has only rows of named systems, of which this is not one.
    pub(crate) fn is_left_out(&self, system: &str, source: &str) -> bool {
        let mut own = self.about().filter(|own| own.source == source).peekable();
        own.peek().is_some()
            && own.all(|own| own.system.as_ref().is_some_and(|name| *name != *system))
    }

    /// Returns the number of rounds of which a complete run has rows `NAME@ROUND` next to a mean.
    pub(crate) fn rounds_of(&self, system: &str, metric: &str) -> u32 {
        let is_of = |own: &&About| own.system.as_ref().is_none_or(|name| *name == *system);
        let rounds = self.about().filter(is_of).flat_map(|own| &own.rounds);
        let own = rounds.filter(|(metrics, _)| metrics.has(metric));
        own.map(|(_, rounds)| *rounds).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_complete_run_has_follows_from_the_cells() {
        let about = vec![
            About::all("a").system("is").rounds(Metrics::All, 3),
            About::of("a:detail", Metrics::Some),
            About::of("b", Metrics::But(&["steps"])).rounds(Metrics::Only(&["latency"]), 5),
        ];
        let own = Design::new(vec![Cell::new("first", 2, about), Cell::of("c", 1)])
            .with_mean(Metrics::Only(&["steps"]));
        assert_eq!(own.sources(), ["a", "a:detail", "b", "c", MEAN]);
        assert_eq!(own.sources_of("steps"), ["a", "c", MEAN]);
        assert_eq!(own.sources_of("latency"), ["a", "b", "c"]);
        assert!(own.is_left_out("bs", "a") && !own.is_left_out("is", "a"));
        assert!(!own.is_left_out("bs", "b") && !own.is_left_out("bs", "unknown"));
        let rounds = [("is", "steps"), ("bs", "steps"), ("bs", "latency")];
        assert_eq!(
            rounds.map(|(system, metric)| own.rounds_of(system, metric)),
            [3, 0, 5]
        );
        assert!(own.cells[0].has("a:detail") && !own.cells[0].has(MEAN));
    }
}
