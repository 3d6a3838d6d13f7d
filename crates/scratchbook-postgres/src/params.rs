//! Parameters that do not appear in logs.

use std::fmt;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

type ParamResult = Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

/// A parameter whose `Debug` output is hidden: the driver logs all parameters at debug level.
pub(super) struct Unshown<'a>(pub(super) &'a (dyn ToSql + Sync));

impl fmt::Debug for Unshown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl ToSql for Unshown<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> ParamResult {
        self.0.to_sql_checked(ty, out)
    }

    /// Accepts every type here. The inner parameter checks the type when it is sent, because the check depends on the
    /// value.
    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> ParamResult {
        self.0.to_sql_checked(ty, out)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }
}
