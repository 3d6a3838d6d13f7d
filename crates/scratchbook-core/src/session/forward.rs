//! Macros that write methods of [`SessionService`](super::SessionService): for layers, which pass most calls on, and for
//! stores that lack some.

use std::pin::Pin;

use crate::error::{Error, ErrorKind, Result};

/// What an `async` method of a service returns, as `async_trait` writes it.
pub type ServiceFuture<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'f>>;

/// The type of [`get_state`](super::SessionService::get_state).
pub type JsonObject = serde_json::Map<String, serde_json::Value>;

/// The error of a method that a store does not support.
pub fn unsupported(method: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the store does not support {method}; {instead}"))
}

/// Passes methods of a [`SessionService`](crate::session::SessionService) on to the service within, inside of the
/// `impl` of a layer.
///
/// Every method is named, because the trait has no defaults: a method that is neither named nor written does not
/// compile, so a new one cannot be forgotten.
///
/// ```
/// use async_trait::async_trait;
/// use scratchbook::error::{Error, ErrorKind};
/// use scratchbook::prelude::*;
/// use scratchbook::session::forward_sessions;
///
/// /// A service whose sessions stay.
/// #[derive(Debug)]
/// struct Undeletable<S> {
///     service: S,
/// }
///
/// #[async_trait]
/// impl<S: SessionService> SessionService for Undeletable<S> {
///     forward_sessions!(self.service =>
///         capabilities, create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_sessions,
///         locate_session, append, get_state, list_state, put_state, list_state_changes, list_key_changes, list_feed,
///         commits, set_expiry, update_session, prune_events, prune_state_log, list_owners, check_writable, close);
///
///     async fn delete_session(&self, key: &SessionKey) -> Result<()> {
///         Err(Error::new(ErrorKind::PermissionDenied, format!("{key} stays")))
///     }
///
///     async fn delete_expired(&self, _: usize) -> Result<u64> {
///         Ok(0)
///     }
///
///     async fn delete_user(&self, _: &str, user_id: &str) -> Result<()> {
///         Err(Error::new(ErrorKind::PermissionDenied, format!("the sessions of {user_id} stay")))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = Undeletable { service: InMemorySessionService::new() };
/// let session = sessions.create_session("app", "alice", Default::default()).await?;
/// assert!(sessions.delete_session(session.key()).await.is_err());
/// # Ok(()) }
/// ```
///
/// A method of the layer may take the call's future and return its result. Here each call goes through `bound`:
///
/// ```text
/// forward_sessions!(self.bound(self.service) => create_session, get_session);
/// ```
#[macro_export]
macro_rules! forward_sessions {
    (**$this:ident => $($method:ident),+ $(,)?) => {
        $($crate::__session_method! { $method { pass $this (**$this) } })+
    };
    ($this:ident.$service:ident => $($method:ident),+ $(,)?) => {
        $($crate::__session_method! { $method { pass $this ($this.$service) } })+
    };
    ($this:ident.$around:ident($that:ident.$service:ident) => $($method:ident),+ $(,)?) => {
        $($crate::__session_method! { $method { around $this ($this.$around) ($that.$service) } })+
    };
}

/// Refuses methods of a [`SessionService`](crate::session::SessionService) as `Unsupported`, inside of the `impl` of a
/// store whose [`capabilities`](crate::session::SessionService::capabilities) do not include them.
///
/// The error names the method and says what to do instead:
///
/// ```
/// use async_trait::async_trait;
/// use scratchbook::prelude::*;
/// use scratchbook::session::{Capabilities, Capability, forward_sessions, unsupported_sessions};
///
/// /// A store without a feed.
/// #[derive(Debug)]
/// struct Quiet {
///     service: InMemorySessionService,
/// }
///
/// #[async_trait]
/// impl SessionService for Quiet {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::all().without([Capability::Feed, Capability::Removals])
///     }
///
///     unsupported_sessions!("read the session again" => list_feed, commits);
///
///     forward_sessions!(self.service =>
///         create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_sessions,
///         locate_session, delete_session, append, get_state, list_state, put_state, list_state_changes,
///         list_key_changes, set_expiry, update_session, delete_expired, prune_events, prune_state_log, list_owners,
///         delete_user, check_writable, close);
/// }
///
/// # fn main() {
/// let error = Quiet { service: InMemorySessionService::new() }.commits().unwrap_err();
/// assert_eq!(error.to_string(), "the store does not support commits; read the session again");
/// # }
/// ```
#[macro_export]
macro_rules! unsupported_sessions {
    ($instead:expr => $($method:ident),+ $(,)?) => {
        $($crate::__session_method! { $method { refuse ($instead) } })+
    };
}

/// Finds the signature of a method by its name. A method of the trait that is not here cannot be forwarded.
#[doc(hidden)]
#[macro_export]
macro_rules! __session_method {
    (capabilities $how:tt) => {
        $crate::__session_fn! { $how
        sync capabilities() -> $crate::session::Capabilities }
    };
    (create_session $how:tt) => {
        $crate::__session_fn! { $how
        create_session<'a, 'b>(
            app_name: &'a str, user_id: &'b str, config: $crate::session::CreateSessionConfig
        ) -> $crate::session::Session }
    };
    (get_session $how:tt) => {
        $crate::__session_fn! { $how
        get_session<'a, 'b>(key: &'a $crate::session::SessionKey, config: &'b $crate::session::GetSessionConfig)
            -> ::core::option::Option<$crate::session::Session> }
    };
    (get_initial_state $how:tt) => {
        $crate::__session_fn! { $how
        get_initial_state<'a>(key: &'a $crate::session::SessionKey)
            -> ::core::option::Option<$crate::session::InitialState> }
    };
    (get_state_at $how:tt) => {
        $crate::__session_fn! { $how
        get_state_at<'a>(key: &'a $crate::session::SessionKey, seq: u64) -> $crate::state::StateMap }
    };
    (blame $how:tt) => {
        $crate::__session_fn! { $how
        blame<'a>(key: &'a $crate::session::SessionKey)
            -> ::std::collections::BTreeMap<::std::string::String, $crate::error::KeyWriter> }
    };
    (fork_session $how:tt) => {
        $crate::__session_fn! { $how
        fork_session<'a>(key: &'a $crate::session::SessionKey, config: $crate::session::ForkConfig)
            -> $crate::session::Session }
    };
    (list_sessions $how:tt) => {
        $crate::__session_fn! { $how
        list_sessions<'a, 'b>(app_name: &'a str, config: &'b $crate::session::ListSessionsConfig)
            -> $crate::session::ListSessionsResponse }
    };
    (locate_session $how:tt) => {
        $crate::__session_fn! { $how
        locate_session<'a, 'b>(app_name: &'a str, session_id: &'b str)
            -> ::core::option::Option<$crate::session::SessionKey> }
    };
    (delete_session $how:tt) => {
        $crate::__session_fn! { $how
        delete_session<'a>(key: &'a $crate::session::SessionKey) -> () }
    };
    (append $how:tt) => {
        $crate::__session_fn! { $how
        append<'a>(
            key: &'a $crate::session::SessionKey, event: $crate::event::Event, options: $crate::session::AppendOptions
        ) -> $crate::session::Committed }
    };
    (get_state $how:tt) => {
        $crate::__session_fn! { $how
        get_state<'a>(owner: &'a $crate::session::StateOwner) -> $crate::session::JsonObject }
    };
    (list_state $how:tt) => {
        $crate::__session_fn! { $how
        list_state<'a, 'b>(owner: &'a $crate::session::StateOwner, config: &'b $crate::session::ListStateConfig)
            -> $crate::session::StatePage }
    };
    (put_state $how:tt) => {
        $crate::__session_fn! { $how
        put_state<'a>(
            owner: &'a $crate::session::StateOwner,
            delta: $crate::state::StateDelta,
            options: $crate::session::PutStateOptions
        ) -> u64 }
    };
    (list_state_changes $how:tt) => {
        $crate::__session_fn! { $how
        list_state_changes<'a>(owner: &'a $crate::session::StateOwner, after: u64, limit: usize)
            -> ::std::vec::Vec<$crate::session::StateChange> }
    };
    (list_key_changes $how:tt) => {
        $crate::__session_fn! { $how
        list_key_changes<'a, 'b>(owner: &'a $crate::session::StateOwner, name: &'b str, before: u64, limit: usize)
            -> ::std::vec::Vec<$crate::session::StateChange> }
    };
    (list_feed $how:tt) => {
        $crate::__session_fn! { $how
        list_feed<'a, 'b>(owner: &'a $crate::session::StateOwner, start: &'b $crate::session::FeedStart, limit: usize)
            -> $crate::session::FeedPage }
    };
    (commits $how:tt) => {
        $crate::__session_fn! { $how
        sync commits() -> $crate::error::Result<$crate::session::CommitNotices> }
    };
    (set_expiry $how:tt) => {
        $crate::__session_fn! { $how
        set_expiry<'a>(
            key: &'a $crate::session::SessionKey, expiry: ::core::option::Option<$crate::session::Expiry>
        ) -> () }
    };
    (update_session $how:tt) => {
        $crate::__session_fn! { $how
        update_session<'a>(key: &'a $crate::session::SessionKey, update: $crate::session::SessionUpdate) -> () }
    };
    (delete_expired $how:tt) => {
        $crate::__session_fn! { $how
        delete_expired<>(limit: usize) -> u64 }
    };
    (prune_events $how:tt) => {
        $crate::__session_fn! { $how
        prune_events<'a>(key: &'a $crate::session::SessionKey, before: u64, limit: usize) -> u64 }
    };
    (prune_state_log $how:tt) => {
        $crate::__session_fn! { $how
        prune_state_log<'a>(owner: &'a $crate::session::StateOwner, before: u64, limit: usize) -> u64 }
    };
    (list_owners $how:tt) => {
        $crate::__session_fn! { $how
        list_owners<'a>(after: ::core::option::Option<&'a $crate::session::StateOwner>, limit: usize)
            -> ::std::vec::Vec<$crate::session::StateOwner> }
    };
    (delete_user $how:tt) => {
        $crate::__session_fn! { $how
        delete_user<'a, 'b>(app_name: &'a str, user_id: &'b str) -> () }
    };
    (check_writable $how:tt) => {
        $crate::__session_fn! { $how check_writable<>() -> () }
    };
    (close $how:tt) => {
        $crate::__session_fn! { $how close<>() -> () }
    };
}

/// Writes a method as `async_trait` would, so that the future of the service within is returned as it is.
#[doc(hidden)]
#[macro_export]
macro_rules! __session_fn {
    ({ pass $this:ident $service:tt } sync $name:ident() -> $answer:ty) => {
        fn $name(&$this) -> $answer {
            $service.$name()
        }
    };
    (
        { pass $this:ident $service:tt }
        $name:ident<$($life:lifetime),*>($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'s, $($life,)* 'f>(&'s $this, $($argument: $type),*) -> $crate::session::ServiceFuture<'f, $answer>
        where 's: 'f, $($life: 'f,)* Self: 'f {
            $service.$name($($argument),*)
        }
    };
    ({ refuse $instead:tt } sync $name:ident() -> $answer:ty) => {
        fn $name(&self) -> $answer {
            ::core::result::Result::Err($crate::session::unsupported(::core::stringify!($name), $instead))
        }
    };
    (
        { refuse $instead:tt }
        $name:ident<$($life:lifetime),*>($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'s, $($life,)* 'f>(&'s self, $(_: $type),*) -> $crate::session::ServiceFuture<'f, $answer>
        where 's: 'f, $($life: 'f,)* Self: 'f {
            let error = $crate::session::unsupported(::core::stringify!($name), $instead);
            ::std::boxed::Box::pin(::core::future::ready(::core::result::Result::Err(error)))
        }
    };
    (
        { around $this:ident ($($around:tt)+) $service:tt }
        $name:ident<$($life:lifetime),*>($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'s, $($life,)* 'f>(&'s $this, $($argument: $type),*) -> $crate::session::ServiceFuture<'f, $answer>
        where 's: 'f, $($life: 'f,)* Self: 'f {
            ::std::boxed::Box::pin($($around)+($service.$name($($argument),*)))
        }
    };
}
