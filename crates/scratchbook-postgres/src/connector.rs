//! Making one connection: host by host, with the settings that the statements need.

use std::collections::hash_map::RandomState;
use std::future::{Future, poll_fn};
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deadpool_postgres::{Connect, PoolError, TimeoutType, Timeouts};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::LoadBalanceHosts;
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::listen::Notices;
use super::{error, uri};
use scratchbook_core::error::Result;
use scratchbook_database::{Attempt, DatabaseOptions, DatabaseUri, client_config};

/// The facts that earlier connections have found out.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    /// Whether the schema is known, so that the search path is not needed to find the tables. The search path then
    /// contains only the server's own functions and operators: objects that others create in a schema must not run with
    /// our rights.
    pub(super) schema: AtomicBool,
    /// Whether settings are left out, because a pooler refuses them, or because the statements are not ours.
    pub(super) without_settings: AtomicBool,
}

pub(super) struct Connector {
    tls: MakeRustlsConnect,
    settings: String,
    time: Duration,
    learnt: Arc<Learnt>,
    /// The server's notices, which a connection has to subscribe to.
    notices: Arc<Notices>,
}

type Connected = Result<(Client, JoinHandle<()>), tokio_postgres::Error>;

impl Connector {
    pub(super) fn new(options: &DatabaseOptions, learnt: Arc<Learnt>) -> Result<Self> {
        let tls = MakeRustlsConnect::new(client_config(options)?);
        let settings = uri::settings(options);
        Ok(Self { tls, settings, time: options.connect_timeout, learnt, notices: Arc::default() })
    }

    /// Connects to a database that need not be ours, without the settings that our statements need.
    pub(super) async fn connect_to_any(address: &DatabaseUri, options: &DatabaseOptions) -> Attempt<Client> {
        let learnt = Learnt { without_settings: AtomicBool::new(true), ..Learnt::default() };
        let connector = Self::new(options, Arc::new(learnt))?;
        let config = uri::config(address, options)?;
        let connected = timeout(options.connect_timeout, connector.connect(&config)).await;
        let error = match connected {
            Ok(Ok((client, _))) => return Ok(client),
            Ok(Err(error)) => PoolError::Backend(error),
            Err(_) => PoolError::Timeout(TimeoutType::Create),
        };
        let timeouts = Timeouts { create: Some(options.connect_timeout), ..Timeouts::default() };
        Err(error::of_pool(&address.to_string(), error, &timeouts))
    }

    pub(super) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    pub(super) fn notices(&self) -> Arc<Notices> {
        Arc::clone(&self.notices)
    }

    /// Tries the hosts in order. Each host has its share of the time, including startup and encryption, so that a
    /// silent host leaves time for the next one. The pool limits the time of the last host.
    async fn first_of(&self, hosts: Vec<Config>) -> Option<Connected> {
        let start = Instant::now();
        let (last, others) = hosts.split_last()?;
        for (host, left) in others.iter().zip((2..=hosts.len() as u32).rev()) {
            let share = self.time.saturating_sub(start.elapsed()) / left;
            if let Ok(Ok(connected)) = timeout(share, self.connect_to(host)).await {
                return Some(Ok(connected));
            }
        }
        Some(self.connect_to(last).await)
    }

    async fn connect_to(&self, host: &Config) -> Connected {
        if self.learnt.without_settings.load(Ordering::Relaxed) {
            return self.connect_with(host).await;
        }
        let mut with_settings = host.clone();
        with_settings.options(self.options(host.get_options().unwrap_or_default()));
        match self.connect_with(&with_settings).await {
            Err(e) if refuses_settings(&e) => {}
            connected => return connected,
        }
        let connected = self.connect_with(host).await?;
        if !self.learnt.without_settings.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                settings = self.settings,
                "the server, or a pooler before it, refuses the settings of a connection; set them for the role, by \
                 ALTER ROLE ... SET"
            );
        }
        Ok(connected)
    }

    /// Returns our settings followed by the user's, which take precedence: if a setting occurs twice, the last one
    /// counts. Once the tables are found, our search path replaces the user's.
    fn options(&self, users: &str) -> String {
        let path = if self.learnt.schema.load(Ordering::Relaxed) { "-c search_path=pg_catalog" } else { "" };
        format!("{} {users} {path}", self.settings)
    }

    async fn connect_with(&self, config: &Config) -> Connected {
        let (client, mut connection) = config.connect(self.tls.clone()).await?;
        let notices = self.notices();
        let task = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(notice)) => notices.push(notice.payload()),
                    Ok(_) => {}
                    // The waiting call gets an error of its own. The reason is not logged here, because it may quote
                    // what was sent.
                    Err(_) => return tracing::debug!("a connection to PostgreSQL has ended"),
                }
            }
        });
        // A pooler accepts a connection before it has one to the server for it, and the first statement then waits. A
        // round trip here finds this out within the time for connecting.
        client.check_connection().await?;
        Ok((client, task))
    }
}

impl Connect for Connector {
    fn connect(&self, config: &Config) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move {
            match self.first_of(hosts(&config)).await {
                Some(connected) => connected,
                None => self.connect_to(&config).await,
            }
        })
    }
}

/// Returns a configuration for each host. Returns an empty list if the numbers of names, addresses and ports do not
/// match, because the driver reports this better.
fn hosts(config: &Config) -> Vec<Config> {
    let names = config.get_hosts();
    let addresses = config.get_hostaddrs();
    let ports = config.get_ports();
    let count = names.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    if !fits(names.len()) || !fits(addresses.len()) || !(fits(ports.len()) || ports.len() == 1) {
        return Vec::new();
    }
    let one = |index: usize| {
        let mut one = without_hosts(config);
        match names.get(index) {
            Some(tokio_postgres::config::Host::Tcp(name)) => drop(one.host(name.as_str())),
            #[cfg(unix)]
            Some(tokio_postgres::config::Host::Unix(path)) => drop(one.host_path(path)),
            None => {}
        }
        if let Some(address) = addresses.get(index) {
            one.hostaddr(*address);
        }
        if let Some(port) = ports.get(index).or_else(|| ports.first()) {
            one.port(*port);
        }
        one
    };
    let mut order: Vec<usize> = (0..count).collect();
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        let random = RandomState::new();
        order.sort_by_cached_key(|index| random.hash_one(index));
    }
    order.into_iter().map(one).collect()
}

/// Copies a configuration without its hosts, which the driver cannot remove.
fn without_hosts(from: &Config) -> Config {
    let mut to = Config::new();
    if let Some(user) = from.get_user() {
        to.user(user);
    }
    if let Some(password) = from.get_password() {
        to.password(password);
    }
    if let Some(name) = from.get_dbname() {
        to.dbname(name);
    }
    if let Some(options) = from.get_options() {
        to.options(options);
    }
    if let Some(name) = from.get_application_name() {
        to.application_name(name);
    }
    if let Some(time) = from.get_connect_timeout() {
        to.connect_timeout(*time);
    }
    if let Some(time) = from.get_tcp_user_timeout() {
        to.tcp_user_timeout(*time);
    }
    if let Some(time) = from.get_keepalives_interval() {
        to.keepalives_interval(time);
    }
    if let Some(retries) = from.get_keepalives_retries() {
        to.keepalives_retries(retries);
    }
    to.keepalives(from.get_keepalives())
        .keepalives_idle(from.get_keepalives_idle())
        .ssl_mode(from.get_ssl_mode())
        .ssl_negotiation(from.get_ssl_negotiation())
        .target_session_attrs(from.get_target_session_attrs())
        .channel_binding(from.get_channel_binding())
        .load_balance_hosts(from.get_load_balance_hosts());
    to
}

/// Returns whether a pooler may have refused our settings: PgBouncer and RDS Proxy report this in different ways. If
/// the error means something else, one more attempt costs little.
pub(super) fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        let message = error.message().to_ascii_lowercase();
        let words = ["startup parameter", "configuration parameter", "command-line", "options"];
        let code = error.code().code();
        // Class 28 refuses the user, whose name may have one of these words.
        code.starts_with("0A") || !code.starts_with("28") && words.iter().any(|words| message.contains(words))
    })
}

#[cfg(test)]
mod tests {
    use tokio_postgres::Config;

    use super::hosts;

    #[test]
    fn each_host_has_a_configuration_with_all_that_was_said() {
        let text = "postgresql://me:secret@one:1,two:2/db?application_name=a&options=-c%20x%3D1&connect_timeout=3\
            &target_session_attrs=read-write&keepalives_idle=5&keepalives_interval=6&keepalives_retries=7\
            &tcp_user_timeout=8&channel_binding=require&sslmode=require";
        let hosts = hosts(&text.parse().unwrap());
        let alone = |host| text.replace("one:1,two:2", host).parse::<Config>().unwrap();
        assert_eq!(hosts, [alone("one:1"), alone("two:2")]);
        let shared: Config = "host=one,two hostaddr=127.0.0.1,127.0.0.2 port=7".parse().unwrap();
        assert_eq!(super::hosts(&shared).len(), 2);
        let unclear: Config = "host=one,two,three port=1,2".parse().unwrap();
        assert_eq!(super::hosts(&unclear).len(), 0);
    }
}
