//! A gauge that counts living values.

use metrics::gauge;

/// One of them, as long as it lives.
#[derive(Debug)]
pub(crate) struct Gauge(&'static str);

impl Gauge {
    /// One more.
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
