//! A gauge that counts values while they exist.

use metrics::gauge;

/// Counts as one in the gauge of this name until it is dropped.
#[derive(Debug)]
pub(crate) struct Gauge(&'static str);

impl Gauge {
    /// Adds one to the gauge of this name.
    pub(crate) fn one_more(name: &'static str) -> Self {
        gauge!(name).increment(1.0);
        Self(name)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        gauge!(self.0).decrement(1.0);
    }
}
