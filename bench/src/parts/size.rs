//! The binary.

use std::fs;

use anyhow::Result;

use crate::{
    figure::{Figure, Unit},
    lab::Setup,
};

#[allow(
    clippy::cast_precision_loss,
    reason = "a file has less than 2^53 bytes"
)]
pub fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let bytes = fs::metadata(&setup.weft)?.len();
    Ok(vec![
        Figure::new(
            "stripped binary",
            Unit::Mebibytes,
            bytes as f64 / 1_048_576.0,
        )
        .at_most(15.0)
        .cnao("64 MiB"),
    ])
}
