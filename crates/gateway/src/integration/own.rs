//! What the gateway responds to requests of services itself: their descriptions, and `OPTIONS`.

use base::Method;
use mediation::Program;
use model::MethodSet;

use crate::artefacts::Service;
use crate::message::Request;

/// The methods of an API's resources at a path.
pub(super) fn methods(
    program: &Program,
    api: usize,
    request: &Request,
    remainder: &[u8],
) -> MethodSet {
    let Some(api) = program.apis().get(api) else { return MethodSet::EMPTY };
    let query = request.head.query(&request.bytes).unwrap_or_default();
    let (rest, query) = (String::from_utf8_lossy(remainder), String::from_utf8_lossy(query));
    let all = Method::NAMED.into_iter();
    match api.methods(&rest, &query) {
        None => all.fold(MethodSet::EMPTY, MethodSet::with),
        Some(named) => {
            all.filter(|one| named.contains(&one.as_str())).fold(MethodSet::EMPTY, MethodSet::with)
        }
    }
}

/// What a service says of itself, if the query asks for it: its WSDL or its OpenAPI description.
pub(super) fn description(
    program: &Program,
    service: Service,
    request: &Request,
    prefix_len: usize,
) -> Option<(&'static str, String)> {
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
            let text = proxy.wsdl_text(std::str::from_utf8(query).ok()?, &url())?;
            Some(("text/xml; charset=UTF-8", text))
        }
        Service::Api(number) if query == b"swagger.json" || query == b"swagger.yaml" => {
            let api = program.apis().get(number)?;
            let is_json = query == b"swagger.json";
            let content_type = if is_json { "application/json" } else { "text/yaml" };
            Some((content_type, api.swagger(is_json, &url())))
        }
        Service::Api(_) | Service::Inbound(_) | Service::Main(_) => None,
    }
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
