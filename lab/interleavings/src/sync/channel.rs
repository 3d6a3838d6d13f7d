//! The channels of `tokio`, with a point before each operation.

pub(crate) use tokio::sync::mpsc::error::SendTimeoutError;

pub(crate) mod oneshot {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::sync::oneshot;

    use crate::sync::point;

    #[derive(Debug)]
    pub(crate) struct Sender<T>(oneshot::Sender<T>);

    #[derive(Debug)]
    pub(crate) struct Receiver<T>(oneshot::Receiver<T>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Sender(sender), Receiver(receiver))
    }

    impl<T> Sender<T> {
        pub(crate) fn send(self, value: T) -> Result<(), T> {
            point();
            self.0.send(value)
        }

        pub(crate) fn is_closed(&self) -> bool {
            point();
            self.0.is_closed()
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, oneshot::error::RecvError>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            point();
            Pin::new(&mut self.0).poll(context)
        }
    }
}

pub(crate) mod mpsc {
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::sync::mpsc::error::{SendTimeoutError, TryRecvError, TrySendError};

    use crate::sync::{perhaps, point};

    #[derive(Debug)]
    pub(crate) struct Sender<T>(mpsc::Sender<T>);

    #[derive(Debug)]
    pub(crate) struct Receiver<T>(mpsc::Receiver<T>);

    pub(crate) fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Sender(sender), Receiver(receiver))
    }

    impl<T> Sender<T> {
        pub(crate) fn capacity(&self) -> usize {
            self.0.capacity()
        }

        pub(crate) fn max_capacity(&self) -> usize {
            self.0.max_capacity()
        }

        /// If the channel is full, either the time is over at once, or the call waits until there is room.
        pub(crate) async fn send_timeout(&self, value: T, _: Duration) -> Result<(), SendTimeoutError<T>> {
            point();
            match self.0.try_send(value) {
                Ok(()) => Ok(()),
                Err(TrySendError::Closed(value)) => Err(SendTimeoutError::Closed(value)),
                Err(TrySendError::Full(value)) if perhaps() => Err(SendTimeoutError::Timeout(value)),
                Err(TrySendError::Full(value)) => {
                    self.0.send(value).await.map_err(|error| SendTimeoutError::Closed(error.0))
                }
            }
        }
    }

    impl<T> Receiver<T> {
        pub(crate) async fn recv(&mut self) -> Option<T> {
            point();
            self.0.recv().await
        }

        pub(crate) fn try_recv(&mut self) -> Result<T, TryRecvError> {
            point();
            self.0.try_recv()
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            point();
        }
    }
}
