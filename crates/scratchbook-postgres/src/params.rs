//! Parameters that nobody reads but the server.

use std::fmt;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

type Sent = Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

/// A parameter that shows nothing of itself: the driver writes all parameters to the log of a program whose level is
/// debug.
pub(super) struct Unshown<'a>(pub(super) &'a (dyn ToSql + Sync));

impl fmt::Debug for Unshown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl ToSql for Unshown<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Sent {
        self.0.to_sql_checked(ty, out)
    }

    /// What is inside is asked when it is sent: a type alone cannot say.
    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Sent {
        self.0.to_sql_checked(ty, out)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }
}
