//! How many nodes may be changed at the same time.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The default, also for a value that cannot be read: half of the nodes, in percent.
const DEFAULT: u64 = 50;

/// `maxUnavailable` of so many nodes: a number, or a share in percent, rounded up. At least 1. A
/// value that is neither counts as [`DEFAULT`] percent, as in kubernetes-nmstate. A number may be
/// written as a text, too.
pub(super) fn scaled(max_unavailable: Option<&IntOrString>, nodes: usize) -> usize {
    let limit = match max_unavailable {
        None => None,
        Some(IntOrString::Int(number)) => Some(usize::try_from(*number).unwrap_or_default()),
        Some(IntOrString::String(text)) => match text.strip_suffix('%') {
            Some(percent) => percent
                .parse::<i64>()
                .ok()
                .map(|percent| share(u64::try_from(percent).unwrap_or_default(), nodes)),
            None => text
                .parse::<i32>()
                .ok()
                .map(|number| usize::try_from(number).unwrap_or_default()),
        },
    };
    limit.unwrap_or_else(|| share(DEFAULT, nodes)).max(1)
}

fn share(percent: u64, nodes: usize) -> usize {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    usize::try_from(percent.saturating_mul(nodes).div_ceil(100)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_of_kubernetes_nmstate() {
        let text = |text: &str| Some(IntOrString::String(text.to_owned()));
        for (max_unavailable, nodes, limit) in [
            (None, 5, 3),
            (None, 6, 3),
            (text("50%"), 5, 3),
            (text("50%"), 6, 3),
            (Some(IntOrString::Int(3)), 5, 3),
            (Some(IntOrString::Int(3)), 6, 3),
            (text("asdf"), 5, 3),
            (text("99999999999999999999"), 5, 3),
            (text("42"), 5, 42),
            (text("0%"), 5, 1),
            (Some(IntOrString::Int(0)), 5, 1),
            (Some(IntOrString::Int(-1)), 5, 1),
            (text("00%"), 5, 1),
            (text("-100%"), 5, 1),
            (text("50%"), 0, 1),
            (text("100%"), 5, 5),
            (text("1%"), 5, 1),
            (text("%"), 5, 3),
        ] {
            assert_eq!(
                scaled(max_unavailable.as_ref(), nodes),
                limit,
                "{max_unavailable:?} of {nodes}"
            );
        }
    }
}
