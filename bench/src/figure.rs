//! A figure with its target, and how figures are shown.

use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table,
    presets::UTF8_FULL_CONDENSED,
};
use serde::Serialize;

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    Seconds,
    Mebibytes,
    /// Requests, objects and so on.
    Count,
    /// Times the lower bound.
    Ratio,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    /// The domain that it is about.
    pub domain: &'static str,
    /// Name of the measurement.
    pub what: String,
    pub unit: Unit,
    /// Weft's value. None if it could not be measured.
    pub value: Option<f64>,
    /// The value for a bare client that does the same work, measured in this run.
    pub lower_bound: Option<f64>,
    /// The highest value that meets the target. A figure without a target is for information only.
    pub at_most: Option<f64>,
    /// CNAO 0.102, all eight components, as once measured.
    pub cnao: &'static str,
    /// Details: spread, what was counted, what went wrong.
    pub note: String,
}

impl Figure {
    /// Returns a figure without a target.
    pub fn new(what: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self {
            domain: "",
            what: what.into(),
            unit,
            value: Some(value),
            lower_bound: None,
            at_most: None,
            cnao: "",
            note: String::new(),
        }
    }

    /// A part that could not be measured.
    pub fn failed(part: &str, error: &anyhow::Error) -> Self {
        Self {
            value: None,
            note: format!("{error:#}"),
            ..Self::new(format!("{part}: could not be measured"), Unit::Count, 0.0)
        }
    }

    /// Is about this domain.
    #[must_use]
    pub fn of(mut self, domain: &'static str) -> Self {
        self.domain = domain;
        if domain != "addons" {
            self.cnao = "";
        }
        self
    }

    /// Misses its target if it is more than this.
    #[must_use]
    pub fn at_most(mut self, limit: f64) -> Self {
        self.at_most = Some(limit);
        self
    }

    #[must_use]
    pub fn lower_bound(mut self, value: f64) -> Self {
        self.lower_bound = Some(value);
        self
    }

    #[must_use]
    pub fn cnao(mut self, measured: &'static str) -> Self {
        self.cnao = measured;
        self
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Reports whether it was measured and is within its target.
    pub fn holds(&self) -> bool {
        self.value
            .is_some_and(|value| self.at_most.is_none_or(|limit| value <= limit))
    }

    fn shown(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds if value < 1.0 => format!("{:.0} ms", value * 1000.0),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Mebibytes => format!("{value:.1} MiB"),
            Unit::Count => format!("{value:.0}"),
            Unit::Ratio => format!("{value:.2} ×"),
        }
    }
}

/// All figures side by side.
pub fn table(figures: &[&Figure]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(190);
    }
    table.set_header([
        "what",
        "CNAO 0.102",
        "lower bound",
        "Weft",
        "must be",
        "",
        "details",
    ]);
    if figures.iter().all(|figure| figure.cnao.is_empty())
        && let Some(column) = table.column_mut(1)
    {
        column.set_constraint(ColumnConstraint::Hidden);
    }
    for figure in figures {
        let right = |value: Option<f64>| {
            Cell::new(value.map_or_else(String::new, |value| figure.shown(value)))
                .set_alignment(CellAlignment::Right)
        };
        let limit = figure
            .at_most
            .map_or_else(String::new, |limit| format!("≤ {}", figure.shown(limit)));
        let verdict = match (figure.holds(), figure.at_most) {
            (false, _) => Cell::new("MISSED").fg(Color::Red),
            (true, Some(_)) => Cell::new("holds").fg(Color::Green),
            (true, None) => Cell::new(""),
        };
        let row = [
            Cell::new(&figure.what),
            Cell::new(figure.cnao),
            right(figure.lower_bound),
            right(figure.value),
            Cell::new(limit),
            verdict,
            Cell::new(&figure.note),
        ];
        table.add_row(row);
    }
    table
}

/// The median and the largest of some values. Both 0 if there are none.
pub fn median_and_max(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    };
    (median, sorted.last().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_without_a_measurement_does_not_hold() {
        assert!(!Figure::failed("idle", &anyhow::anyhow!("no")).holds());
        assert!(
            Figure::new("size", Unit::Mebibytes, 14.0)
                .at_most(15.0)
                .holds()
        );
        assert!(
            !Figure::new("size", Unit::Mebibytes, 15.1)
                .at_most(15.0)
                .holds()
        );
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median_and_max(&[3.0, 1.0, 2.0]), (2.0, 3.0));
        assert_eq!(median_and_max(&[4.0, 1.0, 2.0, 3.0]), (2.5, 4.0));
        assert_eq!(median_and_max(&[]), (0.0, 0.0));
    }
}
