//! weft-agent

fn main() {}
