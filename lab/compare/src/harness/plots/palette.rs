//! Colours: one for each system, each with a variant for dark screens.

use plotters::style::RGBColor;

use crate::summary::Summary;

pub(super) const BACK: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(super) const SOFT: RGBColor = RGBColor(0xd1, 0xd9, 0xe0);
const OURS: RGBColor = RGBColor(0x09, 0x69, 0xda);
const LIMIT: RGBColor = RGBColor(0x82, 0x88, 0x91);

/// The colours of other systems, in their order.
const OTHERS: [RGBColor; 7] = [
    RGBColor(0xcf, 0x22, 0x2e),
    RGBColor(0xe1, 0x6f, 0x24),
    RGBColor(0x1a, 0x7f, 0x37),
    RGBColor(0x82, 0x50, 0xdf),
    RGBColor(0xbf, 0x39, 0x89),
    RGBColor(0x1b, 0x7c, 0x83),
    RGBColor(0x9a, 0x67, 0x00),
];

/// Each colour, and its variant for dark screens.
const DARK: [(RGBColor, &str); 12] = [
    (BACK, "#0d1117"),
    (INK, "#f0f6fc"),
    (SOFT, "#3d444d"),
    (OURS, "#4493f8"),
    (LIMIT, "#9198a1"),
    (OTHERS[0], "#f85149"),
    (OTHERS[1], "#ffa657"),
    (OTHERS[2], "#3fb950"),
    (OTHERS[3], "#ab7df8"),
    (OTHERS[4], "#db61a2"),
    (OTHERS[5], "#39c5cf"),
    (OTHERS[6], "#d29922"),
];

/// The colours of the systems that were measured.
pub(super) struct Palette {
    others: Vec<String>,
}

impl Palette {
    pub(super) fn new(summary: &Summary) -> Self {
        let systems = ["memory", "sqlite", "postgres"].into_iter().flat_map(|store| summary.systems(store));
        let mut others: Vec<_> = systems
            .filter(|id| !["scratchbook", "limit"].contains(&id.system.as_str()))
            .map(|id| summary.label(id))
            .collect();
        others.sort();
        others.dedup();
        Self { others }
    }

    /// Returns the colour of a system by its name.
    pub(super) fn of(&self, name: &str) -> RGBColor {
        if name == "scratchbook" {
            return OURS;
        }
        let at = self.others.iter().position(|other| other == name);
        at.map_or(LIMIT, |at| OTHERS[at % OTHERS.len()])
    }

    /// Returns the names for a legend. All ways to measure the limit have the one name `limit`.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec!["scratchbook".to_owned()];
        names.extend(self.others.iter().cloned());
        names.push("limit".to_owned());
        names
    }
}

/// Adds the colours of a dark screen to a drawing.
pub(super) fn with_dark(svg: &str) -> String {
    let rules: String = DARK
        .iter()
        .map(|(RGBColor(r, g, b), dark)| {
            let light = format!("#{r:02X}{g:02X}{b:02X}");
            format!("[fill=\"{light}\"] {{ fill: {dark}; }} [stroke=\"{light}\"] {{ stroke: {dark}; }}\n")
        })
        .collect();
    let style = format!("\n<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>");
    match svg.split_once('>') {
        Some((start, rest)) => format!("{start}>{style}{rest}"),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_one_for_dark_screens() {
        let dark = with_dark("<svg><rect fill=\"#FFFFFF\"/></svg>");
        assert!(dark.starts_with("<svg>\n<style>"), "{dark}");
        assert!(dark.contains("[fill=\"#FFFFFF\"] { fill: #0d1117; }"), "{dark}");
        for colour in OTHERS {
            assert!(DARK.iter().any(|(light, _)| *light == colour));
        }
    }
}
