//! The places of boxes and arrows, by dagre's layered layout (the algorithm of Sugiyama): the wire at
//! the left, the pods at the right, and few crossings.

use dagre::{
    EdgeLabel, LayoutOptions, NodeLabel, RankDir,
    graph::{Graph, GraphOptions},
};

use super::picture::Picture;

/// The width of a character, in pixels. Boxes have a font of fixed width.
const COLUMN: f64 = 7.3;
/// The height of a line, in pixels.
pub(super) const LINE: f64 = 16.0;
/// The room around the text of a box, in pixels.
pub(super) const PADDING: f64 = 8.0;
/// The room around the picture, in pixels.
const MARGIN: f64 = 12.0;

/// A place in the picture, in pixels from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The place of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    /// Its upper left corner.
    pub(super) corner: Point,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The course of an arrow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    /// Its points, at least two, from one box to the other.
    pub(super) points: Vec<Point>,
    /// The middle of its text. `None` if it has none.
    pub(super) label: Option<Point>,
}

/// The places of a whole picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// The places of the boxes, in their order.
    pub(super) frames: Vec<Frame>,
    /// The courses of the arrows, in their order.
    pub(super) courses: Vec<Course>,
    pub(super) width: f64,
    pub(super) height: f64,
}

fn columns(text: &str) -> f64 {
    // A line of a picture is short.
    f64::from(u16::try_from(console::measure_text_width(text)).unwrap_or(u16::MAX)) * COLUMN
}

fn lines(count: usize) -> f64 {
    f64::from(u16::try_from(count).unwrap_or(u16::MAX)) * LINE
}

/// Finds the places of a picture. Equal pictures have equal places.
pub(super) fn layout(picture: &Picture) -> Layout {
    let mut graph: Graph<NodeLabel, EdgeLabel> = Graph::with_options(GraphOptions {
        directed: true,
        multigraph: true,
        compound: false,
    });
    for (index, block) in picture.blocks.iter().enumerate() {
        let widest = block
            .lines
            .iter()
            .map(|line| columns(line))
            .fold(columns(&block.title), f64::max);
        graph.set_node(
            index.to_string(),
            Some(NodeLabel {
                width: widest + 2.0 * PADDING,
                height: lines(1 + block.lines.len()) + 2.0 * PADDING,
                ..NodeLabel::default()
            }),
        );
    }
    for (index, arrow) in picture.arrows.iter().enumerate() {
        let has_label = !arrow.label.is_empty();
        graph.set_edge(
            arrow.from.to_string(),
            arrow.to.to_string(),
            Some(EdgeLabel {
                width: if has_label {
                    columns(&arrow.label)
                } else {
                    0.0
                },
                height: if has_label { LINE } else { 0.0 },
                labelpos: dagre::layout::types::LabelPos::Center,
                ..EdgeLabel::default()
            }),
            Some(&index.to_string()),
        );
    }
    let options = LayoutOptions {
        rankdir: RankDir::LR,
        nodesep: 18.0,
        edgesep: 10.0,
        ranksep: 36.0,
        marginx: MARGIN,
        marginy: MARGIN,
        ..LayoutOptions::default()
    };
    if !picture.blocks.is_empty() {
        dagre::layout(&mut graph, Some(options));
    }
    places(picture, &graph)
}

fn places(picture: &Picture, graph: &Graph<NodeLabel, EdgeLabel>) -> Layout {
    let frames: Vec<Frame> = (0..picture.blocks.len())
        .filter_map(|index| {
            let node = graph.node(&index.to_string())?;
            let (x, y) = (node.x.unwrap_or_default(), node.y.unwrap_or_default());
            Some(Frame {
                corner: Point {
                    x: x - node.width / 2.0,
                    y: y - node.height / 2.0,
                },
                width: node.width,
                height: node.height,
            })
        })
        .collect();
    let courses: Vec<Course> = picture
        .arrows
        .iter()
        .enumerate()
        .map(|(index, arrow)| {
            let edge = graph.edge(
                &arrow.from.to_string(),
                &arrow.to.to_string(),
                Some(&index.to_string()),
            );
            let Some(edge) = edge else {
                return Course::default();
            };
            let point = |x: Option<f64>, y: Option<f64>| Some(Point { x: x?, y: y? });
            Course {
                points: edge
                    .points
                    .iter()
                    .map(|point| Point {
                        x: point.x,
                        y: point.y,
                    })
                    .collect(),
                label: point(edge.x, edge.y).filter(|_| !arrow.label.is_empty()),
            }
        })
        .collect();
    let right = frames.iter().map(|frame| frame.corner.x + frame.width);
    let bottom = frames.iter().map(|frame| frame.corner.y + frame.height);
    let points = || courses.iter().flat_map(|course| &course.points);
    Layout {
        width: right
            .chain(points().map(|point| point.x))
            .fold(0.0, f64::max)
            + MARGIN,
        height: bottom
            .chain(points().map(|point| point.y))
            .fold(0.0, f64::max)
            + MARGIN,
        frames,
        courses,
    }
}
