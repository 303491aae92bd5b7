//! The client as the pipeline sees it, independent of its protocol.

use std::task::{Context, Poll};

use wire::http1::Rejection;

use crate::body::request_body::RequestBody;
use crate::body::{FlowError, Source};
use crate::forward::UpstreamBody;
use crate::message::{Framing, Head, Request};
use crate::shares::gate::Pass;

/// A client's side of one exchange. Each protocol has an adapter in `listen`.
pub(crate) trait Client: RequestBody {
    /// The turn with which the request was read, if it had to wait for one. A request that waits for something else
    /// before it is forwarded has to drop it, so that others can use it meanwhile.
    fn take_turn(&mut self) -> Option<Pass> {
        None
    }

    /// Begins the response. The head is sent with the first bytes of the body, or alone if there are none yet.
    /// May be called again while [`Client::sent`] is zero; then the new response replaces the first.
    ///
    /// # Errors
    /// The protocol cannot represent this head; nothing was sent.
    fn begin(&mut self, request: &Request, response: &Begin<'_>) -> Result<(), Rejection>;

    /// Sends the head, then payload of `body`, as far as possible without waiting. Ready when everything was sent.
    fn poll_send<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut S,
    ) -> Poll<Result<(), FlowError>>;

    /// Bytes of the response that were sent.
    fn sent(&self) -> u64;

    /// Whether everything available was sent, so that [`Client::poll_send`] waits for the body's source.
    fn waits_for_body(&self) -> bool;

    /// Whether the client has closed. Polled while [`Client::waits_for_body`].
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool;

    /// Ends the response. If it is not `complete`, the client is made to notice.
    async fn end(&mut self, complete: bool);

    /// Sends the head of a 101, then copies bytes in both directions until both sides have ended or are idle.
    /// `moved` gets the bytes that went up so far, and those that went down, the head included.
    async fn tunnel(
        &mut self,
        request: &Request,
        head: &Head,
        upstream: &mut UpstreamBody,
        moved: &dyn Fn(u64, u64),
    );
}

/// A response that is about to be sent.
pub(crate) struct Begin<'a> {
    pub(crate) head: &'a Head,
    pub(crate) framing: Framing,
    /// No payload follows.
    pub(crate) is_bodiless: bool,
    /// The rest of the request's body is still wanted.
    pub(crate) uploads: bool,
}
