//! What the gateway responds to requests of services itself: their descriptions, and `OPTIONS`.

use std::net::IpAddr;

use base::{Method, limits};
use mediation::{Program, Wsdl};
use model::{Denial, Fault, MethodSet};

use super::head::text;
use crate::artefacts::Service;
use crate::compiled::Compiled;
use crate::forward::fetch::{self, Bounds, Content, FetchError, Fetched};
use crate::message::Request;
use crate::worker::Worker;

/// The query for a WSDL.
const WSDL: &[u8] = b"wsdl";
/// The type of a WSDL.
const XML: &str = "text/xml; charset=UTF-8";

/// The methods of an API's resources at a path.
pub(super) fn methods(
    program: &Program,
    api: usize,
    request: &Request,
    remainder: &[u8],
) -> MethodSet {
    let Some(api) = program.apis().get(api) else { return MethodSet::EMPTY };
    let query = request.head.query(&request.bytes).unwrap_or_default();
    let (rest, query) = (text(remainder), text(query));
    let all = Method::NAMED.into_iter();
    match api.methods(&rest, &query) {
        None => all.fold(MethodSet::EMPTY, MethodSet::with),
        Some(named) => {
            all.filter(|one| named.contains(&one.as_str())).fold(MethodSet::EMPTY, MethodSet::with)
        }
    }
}

/// What a service says of itself.
pub(super) enum Description {
    /// Content type and text.
    Text(&'static str, String),
    /// The WSDL at `from`, for the proxy with this number, which is at `url`.
    Published { proxy: usize, from: String, url: String },
}

/// What a service says of itself, if the query asks for it: its WSDL or its OpenAPI description.
pub(super) fn description(
    program: &Program,
    service: Service,
    request: &Request,
    prefix_len: usize,
) -> Option<Description> {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let query = head.query(bytes).filter(|_| head.method() == Method::Get)?;
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
    /// Content type and text.
    ///
    /// # Errors
    /// The WSDL of an endpoint cannot be fetched, or is none.
    pub(super) async fn text(
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
    let (endpoint, target) = fetch::endpoint(from).map_err(failed)?;
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

/// What the gateway says of `OPTIONS` where resources have other methods alone. Source: Synapse's `Resource.sendOptions`.
pub(super) fn allowed(
    program: &Program,
    api: usize,
    request: &Request,
    remainder: &[u8],
) -> Option<String> {
    if request.head.method() != Method::Options {
        return None;
    }
    let all = methods(program, api, request, remainder);
    let is_mediated = all.is_empty() || all.contains(Method::Options);
    (!is_mediated).then(|| format!("Allow: {all}\r\n"))
}
