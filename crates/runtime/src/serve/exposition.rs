//! The text formats in which metrics are served.

use std::collections::HashSet;

use http::{HeaderMap, Response, header};
use http_body_util::Full;
use hyper::body::Bytes;

use crate::{metrics::Metrics, serve::connections::with};

/// Returns all metrics, in the format that the client accepts by the headers of its request.
pub(super) fn response(metrics: &Metrics, request: &HeaderMap) -> Response<Full<Bytes>> {
    let format = Format::of(request);
    with(
        Response::builder().header(header::CONTENT_TYPE, format.content_type()),
        format.text(metrics.text()),
    )
}

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Prometheus text format 0.0.4, which every client reads.
    Prometheus,
    /// OpenMetrics 1.0, for clients that ask for it.
    OpenMetrics,
}

impl Format {
    /// The format to answer a request in, by its `Accept` header.
    pub fn of(request: &HeaderMap) -> Self {
        let mut accepted = request
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        if accepted.any(|types| types.contains("application/openmetrics-text")) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Metrics in this format, from OpenMetrics text.
    pub fn text(self, open_metrics: String) -> String {
        match self {
            Self::Prometheus => prometheus(&open_metrics),
            Self::OpenMetrics => open_metrics,
        }
    }
}

/// Translates OpenMetrics text into Prometheus' text format 0.0.4. There, a counter's family is
/// called as its samples, with `_total`, a whole number has no decimal point, and neither units nor
/// the end are marked. (Prometheus documentation, "Exposition formats".)
fn prometheus(open_metrics: &str) -> String {
    let types = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: HashSet<&str> = types
        .filter_map(|line| line.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let translated = match line.strip_prefix("# ") {
            Some(comment) => family(comment, &counters),
            None => line
                .rsplit_once(' ')
                .map(|(series, value)| format!("{} {}", bound(series), plain(value))),
        };
        if let Some(line) = translated {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// A line about a family of metrics. `None` if it has no place in the other format.
fn family(comment: &str, counters: &HashSet<&str>) -> Option<String> {
    let mut words = comment.splitn(3, ' ');
    let (keyword, name, rest) = (words.next()?, words.next()?, words.next()?);
    let suffix = if counters.contains(name) {
        "_total"
    } else {
        ""
    };
    matches!(keyword, "HELP" | "TYPE").then(|| format!("# {keyword} {name}{suffix} {rest}"))
}

/// A series, the bound of a histogram's bucket without a decimal point that says nothing.
fn bound(series: &str) -> String {
    match series.rsplit_once(r#"le=""#) {
        Some((before, bound)) if before.contains("_bucket{") => {
            format!("{before}le=\"{}", bound.replace(".0\"", "\""))
        }
        _ => series.to_owned(),
    }
}

fn plain(value: &str) -> &str {
    value.strip_suffix(".0").unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn whole_numbers_and_counters_are_as_prometheus_writes_them() {
        let open_metrics = "# HELP ready Whether it is ready.\n# TYPE ready gauge\nready 1.0\nready{a=\"1.0\"} 0.5\n# HELP writes Writes.\n# TYPE writes counter\nwrites_total{kind=\"Pod\"} 3\n# HELP took_seconds Time.\n# TYPE took_seconds histogram\n# UNIT took_seconds seconds\ntook_seconds_sum 0.0\ntook_seconds_bucket{le=\"2.0\"} 4\ntook_seconds_bucket{le=\"+Inf\"} 4\n# EOF\n";
        let expected = "# HELP ready Whether it is ready.\n# TYPE ready gauge\nready 1\nready{a=\"1.0\"} 0.5\n# HELP writes_total Writes.\n# TYPE writes_total counter\nwrites_total{kind=\"Pod\"} 3\n# HELP took_seconds Time.\n# TYPE took_seconds histogram\ntook_seconds_sum 0\ntook_seconds_bucket{le=\"2\"} 4\ntook_seconds_bucket{le=\"+Inf\"} 4\n";
        assert_eq!(Format::Prometheus.text(open_metrics.to_owned()), expected);
        assert_eq!(
            Format::OpenMetrics.text(open_metrics.to_owned()),
            open_metrics
        );
    }

    #[test]
    fn openmetrics_is_for_clients_that_ask_for_it() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            Format::of(&headers)
        };
        assert_eq!(
            of(
                "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.6,*/*;q=0.1"
            ),
            Format::OpenMetrics
        );
        assert_eq!(of("*/*"), Format::Prometheus);
        assert_eq!(Format::of(&HeaderMap::new()), Format::Prometheus);
    }
}
