//! The picture of nodes' networks, in the forms of `weft graph`.
//!
//! [`read`] gathers the input, and `weft_node_network::graph` decides the content. [`picture`] makes
//! boxes and arrows of it, which [`svg`], [`dot`] and [`mermaid`] draw. [`tree`] prints all of it.
//! [`html`] puts pictures and trees into one page, behind an [`overview`] of all nodes.

pub mod dot;
mod groups;
pub mod html;
mod layout;
pub mod mermaid;
mod overview;
mod packs;
mod picture;
pub mod read;
mod relations;
mod state;
pub mod svg;
pub mod tree;
mod words;
