//! The places of boxes and arrows, by dagre's layered layout (the algorithm of Sugiyama): the wire at
//! the left, the pods at the right, and few crossings.

use std::collections::{BTreeMap, BTreeSet};

use dagre::{
    EdgeLabel, LayoutOptions, NodeLabel, RankDir,
    graph::{Graph, GraphOptions},
};

use super::{
    packs::packs,
    picture::{Arrow, Block, Picture},
};

/// The width of a character, in pixels. Boxes have a font of fixed width.
const COLUMN: f64 = 7.3;
/// The height of a line, in pixels.
pub(super) const LINE: f64 = 16.0;
/// The room around the text of a box, in pixels.
pub(super) const PADDING: f64 = 8.0;
/// The room around the picture, in pixels.
const MARGIN: f64 = 12.0;
/// The room between two limbs of a pack, in pixels.
const GAP: f64 = 12.0;
/// How many times wider than high a pack is. A window is wider, and there is more at its left.
const WIDE: f64 = 0.7;

/// A place in the picture, in pixels from the upper left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    fn shift(&mut self, by: Self) {
        self.x += by.x;
        self.y += by.y;
    }
}

/// The place of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Frame {
    /// Its upper left corner.
    pub(super) corner: Point,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    /// Returns the upper left corner and the lower right one.
    fn corners(&self) -> [Point; 2] {
        let mut opposite = self.corner;
        opposite.shift(Point {
            x: self.width,
            y: self.height,
        });
        [self.corner, opposite]
    }
}

/// The course of an arrow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    /// Its points, at least two, from one box to the other. None if another arrow leads to the same
    /// pack.
    pub(super) points: Vec<Point>,
    /// The middle of its text. `None` if it has none.
    pub(super) label: Option<Point>,
}

impl Course {
    fn shift(&mut self, by: Point) {
        for point in self.points.iter_mut().chain(&mut self.label) {
            point.shift(by);
        }
    }
}

/// The places of a whole picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// The places of the boxes, in their order.
    pub(super) frames: Vec<Frame>,
    /// The courses of the arrows, in their order.
    pub(super) courses: Vec<Course>,
    /// The outlines of packs.
    pub(super) packs: Vec<Frame>,
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
    let all: Vec<usize> = (0..picture.blocks.len()).collect();
    let mut layout = Layout {
        frames: vec![Frame::default(); picture.blocks.len()],
        courses: vec![Course::default(); picture.arrows.len()],
        ..Layout::default()
    };
    let placed = place(picture, &all, &mut layout);
    if picture.blocks.is_empty() {
        return layout;
    }
    let corner = Point {
        x: MARGIN,
        y: MARGIN,
    };
    let placed = moved_to(placed, corner, &mut layout);
    layout.packs = placed.packs;
    layout.width = placed.room.width + 2.0 * MARGIN;
    layout.height = placed.room.height + 2.0 * MARGIN;
    layout
}

/// The result of placing some boxes next to each other.
struct Placed {
    /// The boxes and arrows that have a place now. They move together.
    boxes: Vec<usize>,
    arrows: Vec<usize>,
    /// The outlines of packs among them.
    packs: Vec<Frame>,
    /// The room that all of it takes.
    room: Frame,
}

/// Finds the places of some boxes and of the arrows between them. The limbs of a pack are placed
/// first, each by itself, and count as one box then.
fn place(picture: &Picture, members: &[usize], layout: &mut Layout) -> Placed {
    let packs: Vec<(Vec<usize>, Placed)> = packs(picture, members)
        .into_iter()
        .map(|pack| {
            let limbs = pack.limbs.iter();
            let placed = limbs.map(|limb| place(picture, limb, layout)).collect();
            (pack.limbs.concat(), columns_of(placed, layout))
        })
        .collect();
    let packed: BTreeMap<usize, usize> = packs
        .iter()
        .enumerate()
        .flat_map(|(number, (boxes, _))| boxes.iter().map(move |index| (*index, number)))
        .collect();
    let name = |index: usize| match packed.get(&index) {
        Some(number) => format!("pack {number}"),
        None => index.to_string(),
    };
    let mut boxes: Vec<usize> = members.to_vec();
    boxes.retain(|index| !packed.contains_key(index));
    let mut graph: Graph<NodeLabel, EdgeLabel> = Graph::with_options(GraphOptions {
        directed: true,
        multigraph: true,
        compound: false,
    });
    for index in &boxes {
        graph.set_node(name(*index), Some(node(size(&picture.blocks[*index]))));
    }
    for (number, (_, placed)) in packs.iter().enumerate() {
        let size = (placed.room.width, placed.room.height);
        graph.set_node(format!("pack {number}"), Some(node(size)));
    }
    let known: BTreeSet<usize> = members.iter().copied().collect();
    let mut reached = BTreeSet::new();
    let mut arrows = Vec::new();
    for (index, arrow) in picture.arrows.iter().enumerate() {
        if !known.contains(&arrow.from) || !known.contains(&arrow.to) {
            continue;
        }
        // One arrow leads to a pack. The arrows inside of it have their places.
        let is_drawn = match (packed.get(&arrow.from), packed.get(&arrow.to)) {
            (Some(_), Some(_)) => false,
            (_, Some(pack)) => reached.insert(*pack),
            _ => true,
        };
        if is_drawn {
            arrows.push(index);
            let (from, to) = (name(arrow.from), name(arrow.to));
            graph.set_edge(from, to, Some(edge(arrow)), Some(&index.to_string()));
        }
    }
    if !members.is_empty() {
        let options = LayoutOptions {
            rankdir: RankDir::LR,
            nodesep: 18.0,
            edgesep: 10.0,
            ranksep: 36.0,
            ..LayoutOptions::default()
        };
        dagre::layout(&mut graph, Some(options));
    }
    for index in &arrows {
        let arrow = &picture.arrows[*index];
        let (from, to) = (name(arrow.from), name(arrow.to));
        if let Some(edge) = graph.edge(&from, &to, Some(&index.to_string())) {
            layout.courses[*index] = course(edge, arrow);
        }
    }
    for index in &boxes {
        layout.frames[*index] = frame(&graph, &name(*index));
    }
    let mut outlines = Vec::new();
    for (number, (_, placed)) in packs.into_iter().enumerate() {
        let outline = frame(&graph, &format!("pack {number}"));
        let placed = moved_to(placed, outline.corner, layout);
        boxes.extend(placed.boxes);
        arrows.extend(placed.arrows);
        outlines.extend(placed.packs);
        outlines.push(outline);
    }
    let room = room(&boxes, &arrows, &outlines, layout);
    Placed {
        boxes,
        arrows,
        packs: outlines,
        room,
    }
}

/// The width and height of a box.
fn size(block: &Block) -> (f64, f64) {
    let widest = block
        .lines
        .iter()
        .map(|line| columns(line))
        .fold(columns(&block.title), f64::max);
    (
        widest + 2.0 * PADDING,
        lines(1 + block.lines.len()) + 2.0 * PADDING,
    )
}

fn node((width, height): (f64, f64)) -> NodeLabel {
    NodeLabel {
        width,
        height,
        ..NodeLabel::default()
    }
}

fn edge(arrow: &Arrow) -> EdgeLabel {
    let has_label = !arrow.label.is_empty();
    EdgeLabel {
        width: if has_label {
            columns(&arrow.label)
        } else {
            0.0
        },
        height: if has_label { LINE } else { 0.0 },
        labelpos: dagre::layout::types::LabelPos::Center,
        ..EdgeLabel::default()
    }
}

fn frame(graph: &Graph<NodeLabel, EdgeLabel>, name: &str) -> Frame {
    let Some(node) = graph.node(name) else {
        return Frame::default();
    };
    let (x, y) = (node.x.unwrap_or_default(), node.y.unwrap_or_default());
    Frame {
        corner: Point {
            x: x - node.width / 2.0,
            y: y - node.height / 2.0,
        },
        width: node.width,
        height: node.height,
    }
}

fn course(edge: &EdgeLabel, arrow: &Arrow) -> Course {
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
}

/// Places limbs in columns, which together are about as wide as a window.
fn columns_of(limbs: Vec<Placed>, layout: &mut Layout) -> Placed {
    let area = limbs
        .iter()
        .map(|limb| (limb.room.width + GAP) * (limb.room.height + GAP));
    let most = (area.sum::<f64>() / WIDE).sqrt();
    let mut all = Placed {
        boxes: Vec::new(),
        arrows: Vec::new(),
        packs: Vec::new(),
        room: Frame::default(),
    };
    let (mut left, mut top, mut widest) = (GAP, GAP, 0.0_f64);
    let mut lowest = 0.0_f64;
    for limb in limbs {
        let (width, height) = (limb.room.width, limb.room.height);
        if top > GAP && top + height > most {
            left += widest + GAP;
            (top, widest) = (GAP, 0.0);
        }
        let limb = moved_to(limb, Point { x: left, y: top }, layout);
        all.boxes.extend(limb.boxes);
        all.arrows.extend(limb.arrows);
        all.packs.extend(limb.packs);
        top += height + GAP;
        widest = widest.max(width);
        lowest = lowest.max(top);
    }
    all.room.width = left + widest + GAP;
    all.room.height = lowest;
    all
}

/// Moves everything that was placed together, so that its room begins at a point.
fn moved_to(mut placed: Placed, corner: Point, layout: &mut Layout) -> Placed {
    let by = Point {
        x: corner.x - placed.room.corner.x,
        y: corner.y - placed.room.corner.y,
    };
    for index in &placed.boxes {
        layout.frames[*index].corner.shift(by);
    }
    for index in &placed.arrows {
        layout.courses[*index].shift(by);
    }
    for pack in &mut placed.packs {
        pack.corner.shift(by);
    }
    placed.room.corner = corner;
    placed
}

/// The room that boxes and arrows take. dagre counts boxes only, and an arrow may bend beyond them.
fn room(boxes: &[usize], arrows: &[usize], outlines: &[Frame], layout: &Layout) -> Frame {
    let frames = boxes.iter().map(|index| &layout.frames[*index]);
    let corners = frames.chain(outlines).flat_map(Frame::corners);
    let bends = arrows
        .iter()
        .flat_map(|index| &layout.courses[*index].points);
    let points: Vec<Point> = corners.chain(bends.copied()).collect();
    let least = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    if points.is_empty() {
        return Frame::default();
    }
    let corner = Point {
        x: least(|point| point.x),
        y: least(|point| point.y),
    };
    Frame {
        corner,
        width: most(|point| point.x) - corner.x,
        height: most(|point| point.y) - corner.y,
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::state::State;
    use proptest::prelude::*;

    use super::*;

    fn block(title: &str, lines: Vec<String>) -> Block {
        Block {
            class: "interface",
            title: title.to_owned(),
            details: lines.clone(),
            lines,
            state: State::default(),
            form: "",
        }
    }

    fn arrow(from: usize, to: usize, label: String) -> Arrow {
        Arrow {
            from,
            to,
            label,
            class: "port",
        }
    }

    /// Boxes with so many lines, and arrows between any two of them, also back and forth.
    fn pictures() -> impl Strategy<Value = Picture> {
        let lines = prop::collection::vec(prop::collection::vec("[a-z ]{0,40}", 0..6), 1..30);
        lines.prop_flat_map(|lines| {
            let count = lines.len();
            let arrows =
                prop::collection::vec((0..count, 0..count, prop::option::of("[a-z]{1,20}")), 0..20);
            (Just(lines), arrows).prop_map(|(lines, arrows)| Picture {
                blocks: lines
                    .into_iter()
                    .map(|lines| block("eth0", lines))
                    .collect(),
                arrows: arrows
                    .into_iter()
                    .filter(|(from, to, _)| from != to)
                    .map(|(from, to, label)| arrow(from, to, label.unwrap_or_default()))
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
                // Of all arrows without a text into a pack, one is drawn.
                prop_assert!(course.points.len() >= 2 || course.points.is_empty() && arrow.label.is_empty());
                prop_assert_eq!(course.label.is_some(), !arrow.label.is_empty());
                for point in &course.points {
                    prop_assert!((0.0..=found.width).contains(&point.x) && (0.0..=found.height).contains(&point.y), "{:?}", point);
                }
            }
        }

        #[test]
        fn each_box_that_an_arrow_leads_to_is_reached(picture in pictures()) {
            let found = layout(&picture);
            for arrow in &picture.arrows {
                let ends = |frame: &Frame| {
                    let [Point { x, y }, Point { x: right, y: bottom }] = frame.corners();
                    found.courses.iter().filter_map(|course| course.points.last()).any(|point| {
                        (x - 1.0..=right + 1.0).contains(&point.x) && (y - 1.0..=bottom + 1.0).contains(&point.y)
                    })
                };
                let is_in = |pack: &&Frame| overlap(pack, &found.frames[arrow.to]);
                prop_assert!(ends(&found.frames[arrow.to]) || found.packs.iter().filter(is_in).any(ends), "{:?}", arrow);
            }
        }

        #[test]
        fn equal_pictures_have_equal_places(picture in pictures()) {
            prop_assert_eq!(layout(&picture), layout(&picture));
        }
    }

    #[test]
    fn many_limbs_of_a_box_stand_in_columns_and_not_in_one() {
        let vlan = |number| {
            block(
                &format!("bond0.{number} (vlan)"),
                vec!["up, MTU 1500".to_owned()],
            )
        };
        let bond = block("bond0 (bond)", Vec::new());
        let picture = Picture {
            blocks: std::iter::once(bond).chain((1..=40).map(vlan)).collect(),
            arrows: (1..=40).map(|to| arrow(0, to, String::new())).collect(),
        };
        let found = layout(&picture);
        let ratio = found.width / found.height;
        assert!((0.8..3.0).contains(&ratio), "{ratio}");
        assert_eq!(found.packs.len(), 1);
        let drawn = found
            .courses
            .iter()
            .filter(|course| !course.points.is_empty());
        assert_eq!(drawn.count(), 1, "one arrow leads to all of them");
    }
}
