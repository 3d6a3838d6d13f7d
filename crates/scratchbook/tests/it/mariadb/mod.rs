//! Tests only for MySQL and MariaDB, on a MariaDB that the tests start. Some of them are also run [on
//! MySQL](crate::mysql).

mod answers;
mod certificates;
mod connect;
mod migrate;
mod plans;
mod processes;
pub(crate) mod server;
mod stress;
mod versions;
mod waiting;
mod wire;
