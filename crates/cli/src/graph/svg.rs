//! Pictures as SVG. The same drawing stands in the page.

use weft_node_network::graph::model::{Health, NodeGraph};

use super::{
    layout::{Course, LINE, Layout, PADDING, Point, layout},
    picture::{Block, Picture, picture},
    words,
};

/// The look of a drawing. It follows the reader's choice of light or dark. Each state has another
/// border as well as another colour, and its word stands in the box.
pub(super) const STYLE: &str = include_str!("drawing.css");

/// The height of the heading of a node, in pixels.
const HEADING: f64 = 32.0;

/// The drawing of one node.
pub(super) struct Drawing {
    /// The elements of SVG, without the root.
    pub(super) elements: String,
    /// Heading and details of each box, in the order of the boxes.
    pub(super) boxes: Vec<Vec<String>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Returns a picture of all these nodes, one below the other.
pub fn text(graphs: &[NodeGraph]) -> String {
    let mut body = String::new();
    let (mut width, mut height) = (320.0_f64, 0.0_f64);
    for (number, graph) in graphs.iter().enumerate() {
        let drawing = drawing(graph, Some(&format!("n{number}")));
        let heading = format!("{}: {}", graph.node, words::health(graph.health));
        let messages: String = graph
            .messages
            .iter()
            .map(|message| format!(": {message}"))
            .collect();
        body.push_str(&format!(
            "<g transform=\"translate(0 {height:.1})\" role=\"group\" aria-label=\"{label}\"><text class=\"heading\" x=\"12\" y=\"24\">{}</text><g transform=\"translate(0 {HEADING})\">{}</g></g>\n",
            words::xml(&format!("{heading}{messages}")),
            drawing.elements,
            label = words::xml(&heading),
        ));
        width = width.max(drawing.width);
        height += drawing.height + HEADING;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"weft\" role=\"graphics-document document\" aria-label=\"{}\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.1} {height:.1}\">\n<style>{STYLE}</style>\n{body}</svg>\n",
        match graphs {
            [one] => words::xml(&format!("Network of {}", one.node)),
            all => format!("Networks of {} nodes", all.len()),
        }
    )
}

/// Draws a node. `prefix` begins the id of each of its boxes. Without it, the boxes have neither ids
/// nor labels: the page adds them.
pub(super) fn drawing(graph: &NodeGraph, prefix: Option<&str>) -> Drawing {
    let picture = picture(graph);
    let layout = layout(&picture);
    let mut elements = String::new();
    for (arrow, course) in picture.arrows.iter().zip(&layout.courses) {
        elements.push_str(&line(course, arrow.class));
    }
    // The texts of arrows are above all arrows.
    for (arrow, course) in picture.arrows.iter().zip(&layout.courses) {
        if let Some(Point { x, y }) = course.label {
            elements.push_str(&format!(
                "<text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                y + 4.0,
                words::xml(&arrow.label)
            ));
        }
    }
    elements.push_str(&boxes(&picture, &layout, prefix));
    Drawing {
        elements,
        boxes: picture.blocks.iter().map(texts).collect(),
        width: layout.width,
        height: layout.height,
    }
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

fn boxes(picture: &Picture, layout: &Layout, prefix: Option<&str>) -> String {
    let mut out = String::new();
    for (index, (block, frame)) in picture.blocks.iter().zip(&layout.frames).enumerate() {
        let label = match prefix {
            None => String::new(),
            Some(prefix) => format!(
                " id=\"{prefix}b{index}\" role=\"graphics-symbol img\" aria-label=\"{}\"",
                words::xml(&texts(block).join(", "))
            ),
        };
        out.push_str(&format!(
            "<g class=\"box {} {}\"{label} transform=\"translate({:.1} {:.1})\"><rect width=\"{:.1}\" height=\"{:.1}\" rx=\"5\"/>",
            block.class,
            state(block.health),
            frame.corner.x,
            frame.corner.y,
            frame.width,
            frame.height,
        ));
        // A blank between two lines keeps their words apart for programs that read the text.
        for (number, line) in std::iter::once(&block.title)
            .chain(&block.lines)
            .enumerate()
        {
            let is_state = block.health != Health::Good && *line == words::health(block.health);
            let class = match number {
                0 => " class=\"title\"",
                _ if is_state => " class=\"state\"",
                _ => "",
            };
            let y = PADDING + LINE * (f64::from(u16::try_from(number).unwrap_or(u16::MAX)) + 0.75);
            out.push_str(&format!(
                " <text{class} x=\"{PADDING}\" y=\"{y:.1}\">{}</text>",
                words::xml(line)
            ));
        }
        out.push_str("</g>");
    }
    out
}

/// Everything in a box, its heading first.
fn texts(block: &Block) -> Vec<String> {
    let all = std::iter::once(&block.title).chain(&block.details);
    all.map(|text| words::plain(text)).collect()
}

/// The class of a state, which the style knows.
pub(super) fn state(health: Health) -> &'static str {
    match health {
        Health::Good => "ok",
        Health::Unknown => "unknown",
        Health::Pending => "pending",
        Health::Drift => "drift",
        Health::Failed => "failed",
    }
}
