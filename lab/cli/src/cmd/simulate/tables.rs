//! The tables of a run, each as soon as its load is finished.
//!
//! A run takes minutes. A user who interrupts it has the tables of what has ended.
//!
//! # Invariants
//! Tables are printed in the order of the loads, each once.

use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_simulate::Plan;
use everybuddy_simulate::plan::CellId;

use crate::cmd::files::Sinks;
use crate::finished::Known;
use crate::show::output;
use crate::show::simulated;

/// What has ended, and what has been printed of it.
pub(super) struct Tables<'t> {
    plan: &'t Plan,
    sinks: &'t Sinks,
    cells: Vec<CellId>,
    rows: Known,
    /// The cells that have not ended, of each load.
    left: Vec<usize>,
    /// The loads whose tables are printed: the first ones.
    printed: usize,
    /// Whether a file keeps the cells that end.
    is_kept: bool,
}

impl<'t> Tables<'t> {
    /// Begins with the cells of an earlier run. `is_kept` states whether a file keeps those that end.
    pub(super) fn new(plan: &'t Plan, sinks: &'t Sinks, known: Known, is_kept: bool) -> Tables<'t> {
        let cells = plan.cells();
        let mut left = vec![0; plan.loads.len()];
        for (id, _) in cells.iter().zip(&known).filter(|(_, rows)| rows.is_none()) {
            left[id.load] += 1;
        }
        Tables {
            plan,
            sinks,
            cells,
            rows: known,
            left,
            printed: 0,
            is_kept,
        }
    }

    /// Adds a cell that has ended, with its rows, or that was left out.
    pub(super) fn add(&mut self, id: &CellId, rows: Option<&[Row]>) {
        self.left[id.load] = self.left[id.load].saturating_sub(1);
        if let Some(at) = self.cells.iter().position(|own| own == id) {
            self.rows[at] = rows.map(<[Row]>::to_vec);
        }
    }

    /// Returns `true` if the next table can be printed.
    pub(super) fn has_next(&self) -> bool {
        self.left.get(self.printed) == Some(&0)
    }

    /// Prints the tables of the loads that are finished and not yet printed.
    pub(super) fn print(&mut self) -> Result<(), Error> {
        while self.has_next() {
            self.print_next()?;
        }
        Ok(())
    }

    /// Prints all tables that are not yet printed.
    pub(super) fn print_all(&mut self) -> Result<(), Error> {
        while self.printed < self.left.len() {
            self.print_next()?;
        }
        Ok(())
    }

    /// Prints what has ended of a run that is interrupted.
    pub(super) fn interrupted(&mut self) {
        let ended = self.rows.iter().flatten().count();
        while self.printed < self.left.len() && self.has_rows(self.printed) {
            // If the reader is gone, the rest is lost.
            if self.print_next().is_err() {
                return;
            }
        }
        let text = match (ended, self.is_kept) {
            (0, _) => "no cell has ended".to_string(),
            (_, true) => format!(
                "{ended} of {} cells have ended and are stored in the file of --resume",
                self.cells.len()
            ),
            (_, false) => format!(
                "{ended} of {} cells have ended, which the tables show; --resume FILE keeps them",
                self.cells.len()
            ),
        };
        output::note(&format!("interrupted: {text}"));
    }

    fn has_rows(&self, load: usize) -> bool {
        let mut cells = self.cells.iter().zip(&self.rows);
        cells.any(|(id, rows)| id.load == load && rows.is_some())
    }

    fn print_next(&mut self) -> Result<(), Error> {
        let (plan, load) = (self.plan, self.printed);
        self.printed += 1;
        let (rows, scalings) = plan.of_load(load, &self.rows);
        let style = self.sinks.style();
        let text = simulated::text(plan, &plan.loads[load], &scalings, &rows, &style);
        self.sinks.print(&text)
    }
}
