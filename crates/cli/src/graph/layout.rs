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
    let layout = Layout {
        frames,
        courses,
        width: 0.0,
        height: 0.0,
    };
    inside(layout)
}

/// Moves everything so that the picture begins at the margin. dagre counts boxes only, and an arrow
/// may bend beyond them.
fn inside(mut layout: Layout) -> Layout {
    let corners = layout.frames.iter().flat_map(|frame| {
        let Frame {
            corner: Point { x, y },
            width,
            height,
        } = *frame;
        [
            Point { x, y },
            Point {
                x: x + width,
                y: y + height,
            },
        ]
    });
    let bends = layout.courses.iter().flat_map(|course| &course.points);
    let points: Vec<Point> = corners.chain(bends.copied()).collect();
    let least = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    if points.is_empty() {
        return layout;
    }
    let (left, top) = (least(|point| point.x), least(|point| point.y));
    layout.width = most(|point| point.x) - left + 2.0 * MARGIN;
    layout.height = most(|point| point.y) - top + 2.0 * MARGIN;
    let moved = |point: &mut Point| {
        point.x += MARGIN - left;
        point.y += MARGIN - top;
    };
    layout
        .frames
        .iter_mut()
        .for_each(|frame| moved(&mut frame.corner));
    for course in &mut layout.courses {
        course
            .points
            .iter_mut()
            .chain(&mut course.label)
            .for_each(moved);
    }
    layout
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_node_network::graph::model::Health;

    use super::*;
    use crate::graph::picture::{Arrow, Block};

    /// Boxes with so many lines, and arrows between any two of them, also back and forth.
    fn pictures() -> impl Strategy<Value = Picture> {
        let lines = prop::collection::vec(prop::collection::vec("[a-z ]{0,40}", 0..6), 1..14);
        lines.prop_flat_map(|lines| {
            let count = lines.len();
            let arrows =
                prop::collection::vec((0..count, 0..count, prop::option::of("[a-z]{1,20}")), 0..20);
            (Just(lines), arrows).prop_map(|(lines, arrows)| Picture {
                blocks: lines
                    .into_iter()
                    .map(|lines| Block {
                        class: "interface",
                        title: "eth0".to_owned(),
                        details: lines.clone(),
                        lines,
                        health: Health::Good,
                    })
                    .collect(),
                arrows: arrows
                    .into_iter()
                    .filter(|(from, to, _)| from != to)
                    .map(|(from, to, label)| Arrow {
                        from,
                        to,
                        label: label.unwrap_or_default(),
                        class: "port",
                    })
                    .collect(),
            })
        })
    }

    fn overlap(left: &Frame, right: &Frame) -> bool {
        let apart = |start: f64, length: f64, other: f64| start + length <= other + 0.01;
        !(apart(left.corner.x, left.width, right.corner.x)
            || apart(right.corner.x, right.width, left.corner.x)
            || apart(left.corner.y, left.height, right.corner.y)
            || apart(right.corner.y, right.height, left.corner.y))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_box_has_a_place_of_its_own_inside_the_picture(picture in pictures()) {
            let found = layout(&picture);
            prop_assert_eq!(found.frames.len(), picture.blocks.len());
            for (index, frame) in found.frames.iter().enumerate() {
                let Frame { corner, width, height } = frame;
                prop_assert!(corner.x >= 0.0 && corner.y >= 0.0, "{:?}", frame);
                prop_assert!(corner.x + width <= found.width && corner.y + height <= found.height, "{:?}", frame);
                for other in &found.frames[index + 1..] {
                    prop_assert!(!overlap(frame, other), "{:?} {:?}", frame, other);
                }
            }
            for (arrow, course) in picture.arrows.iter().zip(&found.courses) {
                prop_assert!(course.points.len() >= 2);
                prop_assert_eq!(course.label.is_some(), !arrow.label.is_empty());
                for point in &course.points {
                    prop_assert!((0.0..=found.width).contains(&point.x) && (0.0..=found.height).contains(&point.y), "{:?}", point);
                }
            }
        }

        #[test]
        fn equal_pictures_have_equal_places(picture in pictures()) {
            prop_assert_eq!(layout(&picture), layout(&picture));
        }
    }
}
