//! A plot as SVG: a line over time, readable without colour and without a script.

use maud::{Markup, html};

/// The width of a plot, in units of its own. The page scales the plot.
const WIDTH: f64 = 300.0;
/// The height of a plot, in the same units.
const HEIGHT: f64 = 60.0;

/// A plot with its figures in words.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    /// The figures as a sentence, which is shown below the plot.
    pub(super) words: String,
    /// The values, the earliest first. Unknown values leave gaps in the line.
    pub(super) values: &'a [Option<f64>],
    /// The greatest value, as text.
    pub(super) top: String,
}

impl Plot<'_> {
    pub(super) fn markup(&self) -> Markup {
        let greatest = self.values.iter().flatten().copied().fold(0.0, f64::max);
        html! {
            figure.plot {
                figcaption { b { (self.title) } span.soft { (self.words) } }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label={ (self.title) ": " (self.words) } {
                    line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
                    @for points in lines(self.values, greatest) {
                        polygon.area points=(area(&points)) {}
                        polyline.line points=(points) {}
                    }
                }
                p.scale aria-hidden="true" { span { "30 minutes ago" } span { "highest " (self.top) } span { "now" } }
            }
        }
    }
}

/// Returns the points of the area below a line.
fn area(line: &str) -> String {
    let edge = |point: Option<&str>| point.and_then(|point| point.split(',').next()).unwrap_or("0").to_owned();
    let (first, last) = (edge(line.split(' ').next()), edge(line.rsplit(' ').next()));
    format!("{first},{HEIGHT} {line} {last},{HEIGHT}")
}

/// Returns the points of each line. A gap ends one line and begins another.
fn lines(values: &[Option<f64>], greatest: f64) -> Vec<String> {
    let step = WIDTH / (values.len().max(2) - 1) as f64;
    // A line at the upper edge would be cut in half.
    let height =
        |value: f64| if greatest > 0.0 { HEIGHT - 2.0 - value / greatest * (HEIGHT - 4.0) } else { HEIGHT - 2.0 };
    let point = |(place, value): (usize, f64)| format!("{:.1},{:.1}", place as f64 * step, height(value));
    let places: Vec<_> = values.iter().enumerate().map(|(place, value)| value.map(|value| (place, value))).collect();
    let known = places.split(Option::is_none).filter(|part| !part.is_empty());
    let line = |part: &[Option<(usize, f64)>]| match part {
        // A single value is drawn as wide as its interval.
        [Some((place, value))] => {
            let [from, to] = [-0.5, 0.5].map(|half| ((*place as f64 + half) * step).clamp(0.0, WIDTH));
            format!("{from:.1},{y:.1} {to:.1},{y:.1}", y = height(*value))
        }
        part => part.iter().flatten().copied().map(point).collect::<Vec<_>>().join(" "),
    };
    known.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reaches_from_edge_to_edge_and_has_gaps() {
        let values = [Some(0.0), Some(4.0), None, Some(2.0), Some(2.0)];
        assert_eq!(lines(&values, 4.0), ["0.0,58.0 75.0,2.0", "225.0,30.0 300.0,30.0"]);
        assert_eq!(lines(&[None, Some(4.0)], 4.0), ["150.0,2.0 300.0,2.0"]);
        assert_eq!(lines(&[Some(0.0); 3], 0.0), ["0.0,58.0 150.0,58.0 300.0,58.0"]);
        assert!(lines(&[], 0.0).is_empty());
        assert_eq!(area("75.0,2.0 150.0,58.0"), "75.0,60 75.0,2.0 150.0,58.0 150.0,60");
    }
}
