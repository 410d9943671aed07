//! The cost of rounding up, and the cost of exact service: frames in use, failed requests, unusable memory.
//!
//! Each of the two ways to serve a request of an odd size has a cost. A mean shows neither how it grows with the fill
//! level nor whether systems differ.
//!
//! # Invariants
//! Rounded and exact service of one system are next to each other; every source has its place.

use crate::shared::prelude::*;

/// The mix in the figure, as it begins the names of sources.
const MIX: &str = "uniform ";

/// Formats a load.
fn place(source: &str) -> String {
    let load = source.replace(MIX, "") + " %";
    load.replace(" parts %", " %, parts")
}

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let internal = "internal_fragmentation";
    let mut places = Chosen::new(rows, |row| row.metric == internal).sources();
    places.retain(|source| source.starts_with(MIX));
    let panel = |metric: &str, order: Option<u8>, title: &str, label: &str, unit: f64| {
        let own = Chosen::new(rows, |row| row.metric == metric && row.order == order);
        let series = side_by_side(&own.systems(), &places, 0.07, |name, source| {
            let mut here = own.rows().filter(|row| row.source == source);
            let row = here.find(|row| row.name() == name)?;
            Some((row.value * unit, None))
        });
        let labels = places.iter().map(|source| place(source)).collect();
        let x = Axis::of_names("load: share of memory that is asked for", labels);
        let range = chart::from_zero(chart::heights(&series));
        let title = format!("{title}, uniform mix");
        Panel::new(title, x, Axis::plain(label, range, 7), series)
    };
    let (held, refused) = ("frames held over frames asked for", "blocking_probability");
    let unusable = "free memory that is unusable for 2 MiB";
    let panels = [
        panel(internal, None, "internal fragmentation", held, 1.0),
        panel(refused, None, "refused requests", "%", 100.0),
        panel("unusable_index", Some(9), unusable, "%", 100.0),
    ];
    chart::drawing(experiment, panels, ". Counted.")
}
