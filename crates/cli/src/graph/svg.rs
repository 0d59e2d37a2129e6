//! Pictures as SVG. The same drawing is in the page.

use std::collections::BTreeMap;

use weft_node_network::graph::model::NodeGraph;

use super::{
    layout::{Course, LINE, Layout, PADDING, Point, layout},
    picture::{Block, Picture, picture},
    words,
};

/// The look of a drawing. It follows the reader's choice of light or dark. Each state has another
/// border as well as another colour, and its word is in the box.
pub(super) const STYLE: &str = include_str!("drawing.css");

/// The height of the heading of a node, in pixels.
const HEADING: f64 = 32.0;

/// Returns a picture of all these nodes, one below the other.
pub fn text(graphs: &[NodeGraph]) -> String {
    let mut body = String::new();
    let (mut width, mut height) = (320.0_f64, 0.0_f64);
    for (number, graph) in graphs.iter().enumerate() {
        let drawing = Drawing::of(graph);
        let heading = format!("{}: {}", graph.node, words::health(graph.health));
        let messages: String = graph
            .messages
            .iter()
            .map(|message| format!(": {message}"))
            .collect();
        body.push_str(&format!(
            "<g transform=\"translate(0 {height:.1})\" role=\"group\" aria-label=\"{label}\"><text class=\"heading\" x=\"12\" y=\"24\">{}</text><g transform=\"translate(0 {HEADING})\">{}</g></g>\n",
            words::xml(&format!("{heading}{messages}")),
            drawing.elements(Some(&format!("n{number}"))),
            label = words::xml(&heading),
        ));
        let (wide, high) = drawing.size();
        width = width.max(wide);
        height += high + HEADING;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"weft\" role=\"graphics-document document\" aria-label=\"{}\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.1} {height:.1}\">\n<style>{STYLE}</style>\n{body}</svg>\n",
        match graphs {
            [one] => words::xml(&format!("Network of {}", one.node)),
            all => format!("Networks of {} nodes", all.len()),
        }
    )
}

/// The drawing of one node.
pub(super) struct Drawing {
    picture: Picture,
    layout: Layout,
}

impl Drawing {
    /// Draws a node.
    pub(super) fn of(graph: &NodeGraph) -> Self {
        let picture = picture(graph);
        let layout = layout(&picture);
        Self { picture, layout }
    }

    /// Returns width and height, in pixels.
    pub(super) fn size(&self) -> (f64, f64) {
        (self.layout.width, self.layout.height)
    }

    /// Returns heading and details of each box, in the order of the boxes.
    pub(super) fn boxes(&self) -> Vec<Vec<String>> {
        self.picture.blocks.iter().map(texts).collect()
    }

    /// Returns the elements of SVG, without the root. `prefix` begins the id of each box. Without
    /// it, the boxes have neither ids nor labels: the page adds them.
    pub(super) fn elements(&self, prefix: Option<&str>) -> String {
        let mut elements = String::new();
        for pack in &self.layout.packs {
            elements.push_str(&format!(
                "<rect class=\"pack\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"9\"/>",
                pack.corner.x, pack.corner.y, pack.width, pack.height
            ));
        }
        let arrows = || self.picture.arrows.iter().zip(&self.layout.courses);
        for (arrow, course) in arrows() {
            elements.push_str(&line(course, arrow.class));
        }
        // The texts of arrows are above all arrows.
        for (arrow, course) in arrows() {
            if let Some(Point { x, y }) = course.label {
                elements.push_str(&format!(
                    "<text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                    y + 4.0,
                    words::xml(&arrow.label)
                ));
            }
        }
        elements.push_str(&self.drawn_boxes(prefix));
        elements
    }

    fn drawn_boxes(&self, prefix: Option<&str>) -> String {
        let mut out = String::new();
        let frames = self.picture.blocks.iter().zip(&self.layout.frames);
        for (index, (block, frame)) in frames.enumerate() {
            let label = match prefix {
                None => String::new(),
                Some(prefix) => format!(
                    " id=\"{prefix}b{index}\" role=\"graphics-symbol img\" aria-label=\"{}\"",
                    words::xml(&texts(block).join(", "))
                ),
            };
            out.push_str(&format!(
                "<g class=\"{}\"{label} transform=\"translate({:.1} {:.1})\"><rect width=\"{:.1}\" height=\"{:.1}\" rx=\"5\"/>",
                class(block),
                frame.corner.x,
                frame.corner.y,
                frame.width,
                frame.height,
            ));
            out.push_str(&lines(block));
            out.push_str("</g>");
        }
        out
    }

    /// Returns a small picture without texts: the boxes and their colours.
    pub(super) fn thumbnail(&self) -> String {
        let mut path = String::new();
        for course in &self.layout.courses {
            if let [first, .., last] = course.points.as_slice() {
                path.push_str(&format!(
                    "M{:.0} {:.0}L{:.0} {:.0}",
                    first.x, first.y, last.x, last.y
                ));
            }
        }
        let mut boxes: BTreeMap<String, String> = BTreeMap::new();
        for (block, frame) in self.picture.blocks.iter().zip(&self.layout.frames) {
            boxes.entry(class(block)).or_default().push_str(&format!(
                "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"5\"/>",
                frame.corner.x, frame.corner.y, frame.width, frame.height
            ));
        }
        let boxes: String = boxes
            .iter()
            .map(|(class, boxes)| format!("<g class=\"{class}\">{boxes}</g>"))
            .collect();
        let (width, height) = self.size();
        format!(
            "<svg class=\"weft thumbnail\" aria-hidden=\"true\" viewBox=\"0 0 {width:.0} {height:.0}\"><path d=\"{path}\"/>{boxes}</svg>"
        )
    }
}

/// The classes of a box, which the style knows.
fn class(block: &Block) -> String {
    let form = match block.form {
        "" => String::new(),
        form => format!(" {form}"),
    };
    format!("box {} {}{form}", block.class, block.state.class())
}

fn line(course: &Course, class: &str) -> String {
    let [first, rest @ ..] = course.points.as_slice() else {
        return String::new();
    };
    let mut path = format!("M{:.1} {:.1}", first.x, first.y);
    let mut last = first;
    for point in rest {
        let middle = f64::midpoint(last.x, point.x);
        path.push_str(&format!(
            "C{middle:.1} {:.1} {middle:.1} {:.1} {:.1} {:.1}",
            last.y, point.y, point.x, point.y
        ));
        last = point;
    }
    format!("<path class=\"{class}\" d=\"{path}\"/>")
}

/// The texts in a box.
fn lines(block: &Block) -> String {
    let mut out = String::new();
    let all = std::iter::once(&block.title).chain(&block.lines);
    for (number, line) in all.enumerate() {
        let is_state = !block.state.is_good() && *line == block.state.text();
        let class = match number {
            0 => " class=\"title\"",
            _ if is_state => " class=\"state\"",
            _ => "",
        };
        let y = PADDING + LINE * (f64::from(u16::try_from(number).unwrap_or(u16::MAX)) + 0.75);
        // A blank between two lines keeps their words apart for programs that read the text.
        out.push_str(&format!(
            " <text{class} x=\"{PADDING}\" y=\"{y:.1}\">{}</text>",
            words::xml(line)
        ));
    }
    out
}

/// Everything in a box, its heading first.
fn texts(block: &Block) -> Vec<String> {
    let all = std::iter::once(&block.title).chain(&block.details);
    all.map(|text| words::plain(text)).collect()
}
