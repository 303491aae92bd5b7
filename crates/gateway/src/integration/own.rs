//! Descriptions of services, which the gateway responds with itself.

use std::net::IpAddr;

use base::{Method, limits};
use bytes::Bytes;
use mediation::Wsdl;
use model::{Denial, Fault};

use crate::artefacts::Service;
use crate::body::Held;
use crate::exchange::response::{Body, Response};
use crate::exchange::route::{Route, Target};
use crate::forward::document::{self, Bounds, Content, FetchError, Fetched};
use crate::message::Request;
use crate::own_requests::fetch;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;

/// The query for a WSDL.
const WSDL: &[u8] = b"wsdl";
/// The type of a WSDL.
const XML: &str = "text/xml; charset=UTF-8";

/// The description of a service.
pub(super) enum Description {
    /// Content type and text.
    Text(&'static str, String),
    /// The WSDL at `from`, for the proxy with this number, which is at `url`.
    Published { proxy: usize, from: String, url: String },
}

/// The description of a service, if the query asks for it: its WSDL or its OpenAPI description.
pub(super) fn description(
    revision: &Compiled,
    route: &Route<'_>,
    request: &Request,
) -> Option<Description> {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let Target::Service(service) = route.target else { return None };
    let query = head.query(bytes).filter(|_| head.method() == Method::Get)?;
    let program = &revision.integration.program;
    let prefix_len = head.path(bytes).len().saturating_sub(route.remainder.len());
    let (base_path, below) = head.path(bytes).split_at_checked(prefix_len)?;
    let base_path = std::str::from_utf8(base_path).ok().filter(|_| matches!(below, b"" | b"/"))?;
    let url = || {
        let scheme = if request.secure { "https" } else { "http" };
        format!("{scheme}://{}{base_path}", String::from_utf8_lossy(head.host(bytes)))
    };
    match service {
        Service::Proxy(number) => {
            let proxy = program.proxies().get(number)?;
            if query == WSDL
                && let Some(from) = program.wsdl_url(proxy)
            {
                return Some(Description::Published { proxy: number, from, url: url() });
            }
            let text = proxy.wsdl_text(std::str::from_utf8(query).ok()?, &url())?;
            Some(Description::Text(XML, text))
        }
        Service::Api(number) if query == b"swagger.json" || query == b"swagger.yaml" => {
            let api = program.apis().get(number)?;
            let is_json = query == b"swagger.json";
            let content_type = if is_json { "application/json" } else { "text/yaml" };
            Some(Description::Text(content_type, api.swagger(is_json, &url())))
        }
        Service::Api(_) | Service::Inbound(_) | Service::Main(_) => None,
    }
}

impl Description {
    /// The response with the description.
    ///
    /// # Errors
    /// The WSDL of an endpoint cannot be fetched or read.
    pub(super) async fn respond(
        self,
        worker: &Worker,
        revision: &Compiled,
        client: IpAddr,
    ) -> Result<Response, Box<Fault>> {
        let (content_type, text) = self.text(worker, revision, client).await?;
        let mut response = worker.own_response(200);
        response.head.edits.append(b"Content-Type", content_type.as_bytes());
        Ok(Response { body: Body::Held(Held::new(Bytes::from(text))), ..response })
    }

    /// Content type and text.
    ///
    /// # Errors
    /// The WSDL of an endpoint cannot be fetched, or is none.
    async fn text(
        self,
        worker: &Worker,
        revision: &Compiled,
        client: IpAddr,
    ) -> Result<(&'static str, String), Box<Fault>> {
        let (proxy, from, url) = match self {
            Self::Text(content_type, text) => return Ok((content_type, text)),
            Self::Published { proxy, from, url } => (proxy, from, url),
        };
        let known = revision.integration.wsdls.get(proxy).ok_or(Fault::Denied(Denial::NoApi))?;
        let wsdl = match known.get() {
            Some(wsdl) => wsdl,
            None => {
                let fetched = fetched(worker, revision, &from, client).await?;
                // Another request may have been faster.
                known.get_or_init(|| fetched)
            }
        };
        Ok((XML, wsdl.text("wsdl", &url).unwrap_or_default()))
    }
}

/// The WSDL at a URL, within the limits of documents that are fetched when artefacts are loaded.
async fn fetched(
    worker: &Worker,
    revision: &Compiled,
    from: &str,
    client: IpAddr,
) -> Result<Wsdl, Box<Fault>> {
    let failed = |problem: &str| {
        let reason = format!("the WSDL at {from}: {problem}");
        Box::new(Fault::Mediation { code: 0, reason })
    };
    let (endpoint, target) = document::endpoint(from).map_err(failed)?;
    let authority = endpoint.authority.clone();
    let own = (&worker.resources, &worker.pools);
    let bounds = Bounds { bytes_max: limits::JWKS_BYTES_MAX, total_ms: limits::JWKS_FETCH_MS_MAX };
    let (target, tls) = ((&*target, &Content::default()), &revision.live.client_tls);
    let body = match fetch::within(own, endpoint, target, tls, bounds).await {
        Ok(Fetched { status: 200, body }) => body,
        Ok(Fetched { status, .. }) => return Err(failed(&format!("status {status}"))),
        Err(FetchError::Fault(fault)) => return Err(fault),
        Err(FetchError::Timeout { total_ms: waited_ms }) => {
            return Err(Fault::ResponseTimeout { authority, waited_ms }.into());
        }
        Err(error) => return Err(failed(&error.to_string())),
    };
    let read = worker.heavy.run(client, move || Wsdl::read(&body)).await?;
    read.ok_or_else(|| failed("it cannot be read"))?.map_err(|problem| failed(&problem))
}
