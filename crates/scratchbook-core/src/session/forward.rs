//! Macros that write methods of a [`SessionService`](super::SessionService) or an
//! [`ArtifactService`](crate::artifact::ArtifactService): for layers, which forward most calls, and for stores that do
//! not support some methods.

use crate::error::{Error, ErrorKind};

/// Returns the error of a method that a store does not support.
pub fn unsupported(method: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the store does not support {method}; {instead}"))
}

/// Forwards methods of a [`SessionService`](crate::session::SessionService) to the wrapped service. Use it inside of
/// the `impl` of a layer.
///
/// The trait has no default methods, so a layer has to name or write every method: if a method is missing, the layer
/// does not compile. A new method of the trait cannot be forgotten.
///
/// ```
/// use async_trait::async_trait;
/// use scratchbook::error::{Error, ErrorKind};
/// use scratchbook::prelude::*;
/// use scratchbook::session::{Prune, forward_sessions};
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
///         capabilities, create_session, get_session, get_initial_state, get_state_at, blame, fork_session,
///         list_sessions, locate_session, append, get_state, state_bytes, list_state, put_state, list_state_changes, list_feed,
///         commits, update_session, list_event_hashes, list_owners, check_writable, close);
///
///     async fn delete_session(&self, key: &SessionKey) -> Result<()> {
///         Err(Error::new(ErrorKind::PermissionDenied, format!("{key} stays")))
///     }
///
///     async fn prune(&self, what: Prune, limit: usize) -> Result<u64> {
///         if what == Prune::Expired { Ok(0) } else { self.service.prune(what, limit).await }
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
/// A missing method is a compiler error:
///
/// ```compile_fail,E0046
/// use scratchbook::session::{SessionService, forward_sessions};
///
/// #[derive(Debug)]
/// struct Forgetful<S>(S);
///
/// impl<S: SessionService> SessionService for Forgetful<S> {
///     forward_sessions!(self.0 => get_session);
/// }
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
        $($crate::__signature! { $method { pass $this (**$this) } })+
    };
    ($this:ident.$service:tt => $($method:ident),+ $(,)?) => {
        $($crate::__signature! { $method { pass $this ($this.$service) } })+
    };
    ($this:ident.$around:ident($that:ident.$service:tt) => $($method:ident),+ $(,)?) => {
        $($crate::__signature! { $method { around $this ($this.$around) ($that.$service) } })+
    };
}

/// Refuses methods of a [`SessionService`](crate::session::SessionService) as `Unsupported`. Use it inside of the
/// `impl` of a store whose [`capabilities`](crate::session::SessionService::capabilities) do not include them.
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
///         locate_session, delete_session, append, get_state, state_bytes, list_state, put_state, list_state_changes,
///         update_session, prune, list_event_hashes, list_owners, delete_user, check_writable, close);
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
        $($crate::__signature! { $method { refuse ($instead) } })+
    };
}

/// Works like [`forward_sessions!`](crate::forward_sessions), for an
/// [`ArtifactService`](crate::artifact::ArtifactService).
#[macro_export]
macro_rules! forward_artifacts {
    ($($call:tt)+) => { $crate::forward_sessions! { $($call)+ } };
}

/// Works like [`unsupported_sessions!`](crate::unsupported_sessions), for an
/// [`ArtifactService`](crate::artifact::ArtifactService).
#[macro_export]
macro_rules! unsupported_artifacts {
    ($($call:tt)+) => { $crate::unsupported_sessions! { $($call)+ } };
}

/// Finds the signature of a method by its name. A method of the trait that is not here cannot be forwarded.
#[doc(hidden)]
#[macro_export]
macro_rules! __signature {
    (capabilities $how:tt) => {
        $crate::__method! { $how sync capabilities() -> $crate::sig::Capabilities }
    };
    (create_session $how:tt) => {
        $crate::__method! { $how create_session<'a, 'b>(app_name: &'a str, user_id: &'b str,
        config: $crate::sig::CreateSessionConfig) -> $crate::sig::Session }
    };
    (get_session $how:tt) => {
        $crate::__method! { $how get_session<'a, 'b>(key: &'a $crate::sig::SessionKey,
        config: &'b $crate::sig::GetSessionConfig) -> Option<$crate::sig::Session> }
    };
    (get_initial_state $how:tt) => {
        $crate::__method! { $how get_initial_state<'a>(key: &'a $crate::sig::SessionKey)
        -> Option<$crate::sig::InitialState> }
    };
    (get_state_at $how:tt) => {
        $crate::__method! { $how get_state_at<'a>(key: &'a $crate::sig::SessionKey, seq: u64) -> $crate::sig::StateMap }
    };
    (blame $how:tt) => {
        $crate::__method! { $how blame<'a>(key: &'a $crate::sig::SessionKey)
        -> $crate::sig::BTreeMap<String, $crate::sig::KeyWriter> }
    };
    (fork_session $how:tt) => {
        $crate::__method! { $how fork_session<'a>(key: &'a $crate::sig::SessionKey, config: $crate::sig::ForkConfig)
        -> $crate::sig::Session }
    };
    (list_sessions $how:tt) => {
        $crate::__method! { $how list_sessions<'a, 'b>(app_name: &'a str, config: &'b $crate::sig::ListSessionsConfig)
        -> $crate::sig::ListSessionsResponse }
    };
    (locate_session $how:tt) => {
        $crate::__method! { $how locate_session<'a, 'b>(app_name: &'a str, session_id: &'b str)
        -> Option<$crate::sig::SessionKey> }
    };
    (delete_session $how:tt) => {
        $crate::__method! { $how delete_session<'a>(key: &'a $crate::sig::SessionKey) -> () }
    };
    (append $how:tt) => {
        $crate::__method! { $how append<'a>(key: &'a $crate::sig::SessionKey, event: $crate::sig::Event,
        options: $crate::sig::AppendOptions) -> $crate::sig::Committed }
    };
    (get_state $how:tt) => {
        $crate::__method! { $how get_state<'a>(owner: &'a $crate::sig::StateOwner) -> $crate::sig::JsonObject }
    };
    (state_bytes $how:tt) => {
        $crate::__method! { $how state_bytes<'a, 'b>(owner: &'a $crate::sig::StateOwner, session_id: Option<&'b str>)
        -> $crate::sig::StateBytes }
    };
    (list_state $how:tt) => {
        $crate::__method! { $how list_state<'a, 'b>(owner: &'a $crate::sig::StateOwner,
        config: &'b $crate::sig::ListStateConfig) -> $crate::sig::StatePage }
    };
    (put_state $how:tt) => {
        $crate::__method! { $how put_state<'a>(owner: &'a $crate::sig::StateOwner, delta: $crate::sig::StateDelta,
        options: $crate::sig::PutStateOptions) -> u64 }
    };
    (list_state_changes $how:tt) => {
        $crate::__method! { $how list_state_changes<'a, 'b>(owner: &'a $crate::sig::StateOwner,
        query: &'b $crate::sig::ChangeQuery, limit: usize) -> Vec<$crate::sig::StateChange> }
    };
    (list_feed $how:tt) => {
        $crate::__method! { $how list_feed<'a, 'b>(owner: &'a $crate::sig::StateOwner,
        start: &'b $crate::sig::FeedStart, limit: usize) -> $crate::sig::FeedPage }
    };
    (commits $how:tt) => {
        $crate::__method! { $how sync commits() -> $crate::sig::Result<$crate::sig::CommitNotices> }
    };
    (update_session $how:tt) => {
        $crate::__method! { $how update_session<'a>(key: &'a $crate::sig::SessionKey,
        update: $crate::sig::SessionUpdate) -> () }
    };
    (prune $how:tt) => {
        $crate::__method! { $how prune<>(what: $crate::sig::Prune, limit: usize) -> u64 }
    };
    (list_event_hashes $how:tt) => {
        $crate::__method! { $how list_event_hashes<'a>(key: &'a $crate::sig::SessionKey, after: u64, limit: usize)
        -> Option<$crate::sig::EventHashes> }
    };
    (list_owners $how:tt) => {
        $crate::__method! { $how list_owners<'a>(after: Option<&'a $crate::sig::StateOwner>, limit: usize)
        -> Vec<$crate::sig::StateOwner> }
    };
    (delete_user $how:tt) => {
        $crate::__method! { $how delete_user<'a, 'b>(app_name: &'a str, user_id: &'b str) -> () }
    };
    (check_writable $how:tt) => {
        $crate::__method! { $how check_writable<>() -> Vec<String> }
    };
    (close $how:tt) => {
        $crate::__method! { $how close<>() -> () }
    };
    (save_artifact $how:tt) => {
        $crate::__method! { $how save_artifact<'a, 'b>(session: &'a $crate::sig::SessionKey, filename: &'b str,
        artifact: $crate::sig::Part, custom_metadata: $crate::sig::JsonObject) -> u64 }
    };
    (load_artifact $how:tt) => {
        $crate::__method! { $how load_artifact<'a, 'b>(session: &'a $crate::sig::SessionKey, filename: &'b str,
        version: Option<u64>) -> Option<$crate::sig::Part> }
    };
    (list_artifacts $how:tt) => {
        $crate::__method! { $how list_artifacts<'a>(session: &'a $crate::sig::SessionKey) -> Vec<String> }
    };
    (list_artifact_versions $how:tt) => {
        $crate::__method! { $how list_artifact_versions<'a, 'b, 'c>(session: &'a $crate::sig::SessionKey,
        filename: &'b str, config: &'c $crate::sig::ListVersionsConfig)
        -> Vec<$crate::sig::ArtifactVersion> }
    };
    (delete_artifact $how:tt) => {
        $crate::__method! { $how delete_artifact<'a, 'b>(session: &'a $crate::sig::SessionKey, filename: &'b str)
        -> () }
    };
}

/// Writes a method as `async_trait` would. The future of the wrapped service is returned as it is.
#[doc(hidden)]
#[macro_export]
macro_rules! __method {
    ({ pass $this:ident $service:tt } sync $name:ident() -> $answer:ty) => {
        fn $name(&$this) -> $answer {
            $service.$name()
        }
    };
    (
        { pass $this:ident $service:tt }
        $name:ident<$($life:lifetime),*>($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'s, $($life,)* 'f>(&'s $this, $($argument: $type),*) -> $crate::sig::ServiceFuture<'f, $answer>
        where 's: 'f, $($life: 'f,)* Self: 'f {
            $service.$name($($argument),*)
        }
    };
    ({ refuse $instead:tt } sync $name:ident() -> $answer:ty) => {
        fn $name(&self) -> $answer {
            Err($crate::session::unsupported(stringify!($name), $instead))
        }
    };
    (
        { refuse $instead:tt }
        $name:ident<$($life:lifetime),*>($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'s, $($life,)* 'f>(&'s self, $(_: $type),*) -> $crate::sig::ServiceFuture<'f, $answer>
        where 's: 'f, $($life: 'f,)* Self: 'f {
            let error = $crate::session::unsupported(stringify!($name), $instead);
            Box::pin(::std::future::ready(Err(error)))
        }
    };
    (
        { around $this:ident ($($around:tt)+) $service:tt }
        $name:ident<$($life:lifetime),*>($($argument:ident: $type:ty),*) -> $answer:ty
    ) => {
        fn $name<'s, $($life,)* 'f>(&'s $this, $($argument: $type),*) -> $crate::sig::ServiceFuture<'f, $answer>
        where 's: 'f, $($life: 'f,)* Self: 'f {
            Box::pin($($around)+($service.$name($($argument),*)))
        }
    };
}
