//! The streams that callers follow: their maximum number, and the choice of the stream that ends to make room for
//! another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scratchbook::{Error, ErrorKind, Result};
use tokio::sync::Notify;

use super::ServerLimits;
use crate::access::{Access, Account, LoginName};

/// The streams that are open.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The maximum number of streams in all.
    most: usize,
    /// The maximum number of streams of one account.
    most_of_one: usize,
    table: Mutex<StreamTable>,
}

#[derive(Debug, Default)]
struct StreamTable {
    next: u64,
    count: usize,
    /// The open streams by login, in the order in which they were opened.
    of_login: HashMap<LoginName, BTreeMap<u64, Arc<Notify>>>,
    of_account: HashMap<Account, usize>,
}

/// A stream, as long as somebody follows it.
#[derive(Debug)]
pub(crate) struct OpenStream {
    streams: Arc<Streams>,
    login: LoginName,
    account: Account,
    id: u64,
    end: Arc<Notify>,
}

impl Streams {
    /// Allows streams on three quarters of the connections. If the server requires no login, an account has no limit of
    /// its own.
    pub(crate) fn new(limits: &ServerLimits, access: &Access) -> Arc<Self> {
        let most_of_one = match access {
            Access::Open => usize::MAX,
            Access::Login(_) => limits.streams,
        };
        Arc::new(Self { most: limits.connections - limits.connections / 4, most_of_one, table: Mutex::default() })
    }

    /// Opens a stream. If there is no room, the login with the most streams loses its oldest stream, if it has at least
    /// two streams more than the login that opens this stream.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` if the account has reached its limit, or if there is no room and the login has its share of
    /// all streams.
    pub(crate) fn open(self: &Arc<Self>, login: LoginName, account: Account) -> Result<OpenStream> {
        let mut table = self.lock();
        if table.of_account.get(&account).copied().unwrap_or_default() >= self.most_of_one {
            let most = self.most_of_one;
            let message =
                format!("{most} streams are open for this token and user, which is the most; end one of them");
            return Err(Error::new(ErrorKind::ResourceExhausted, message));
        }
        if table.count >= self.most && !table.make_room(&login) {
            let most = self.most;
            let message = format!("all of the {most} streams that this server has are in use; try again later");
            return Err(Error::new(ErrorKind::ResourceExhausted, message));
        }
        let (id, end) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        table.count += 1;
        table.of_login.entry(login.clone()).or_default().insert(id, Arc::clone(&end));
        *table.of_account.entry(account.clone()).or_default() += 1;
        drop(table);
        Ok(OpenStream { streams: Arc::clone(self), login, account, id, end })
    }

    fn lock(&self) -> MutexGuard<'_, StreamTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamTable {
    /// Ends the oldest stream of the login with the most streams. Returns false if `login` has as many streams as that
    /// login, or only one less.
    fn make_room(&mut self, login: &LoginName) -> bool {
        let own = self.of_login.get(login).map_or(0, BTreeMap::len);
        let greatest = self.of_login.values_mut().max_by_key(|streams| streams.len());
        let Some(greatest) = greatest.filter(|streams| streams.len() > own + 1) else { return false };
        if let Some((_, end)) = greatest.pop_first() {
            end.notify_one();
            self.count -= 1;
        }
        true
    }

    fn close(&mut self, stream: &OpenStream) {
        if let Some(streams) = self.of_login.get_mut(&stream.login) {
            // A stream that had to make room is no longer counted.
            self.count -= usize::from(streams.remove(&stream.id).is_some());
            if streams.is_empty() {
                self.of_login.remove(&stream.login);
            }
        }
        if let Some(count) = self.of_account.get_mut(&stream.account) {
            *count -= 1;
            if *count == 0 {
                self.of_account.remove(&stream.account);
            }
        }
    }
}

impl OpenStream {
    /// Waits until the stream has to make room for another one.
    pub(crate) async fn has_to_end(&self) {
        self.end.notified().await;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.lock().close(self);
    }
}
