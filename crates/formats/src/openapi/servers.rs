//! `servers` of OpenAPI 3, and `host`, `basePath` and `schemes` of Swagger 2.0.

use model::{Endpoint, Place};

use super::values;
use crate::address::{self, Wrong};
use crate::report::{Report, shorten};
use crate::tree::{Map, Node};

/// The help for an API that has no endpoint.
pub(super) const ADD_ENDPOINTS: &str =
    "add `x-wso2-production-endpoints: {urls: [http://host:port]}`, or a whole URL under `servers`";

/// One server's URL, with the defaults of its variables filled in.
#[derive(Clone, Debug)]
pub(super) struct Server {
    url: Result<String, Wrong>,
    place: Place,
}

impl Server {
    /// The path of the URL, which is the base path of an API that sets none. Empty if the URL has none.
    pub(super) fn path(&self) -> Result<String, Wrong> {
        let url = self.url.as_ref().map_err(Clone::clone)?;
        let path = if self.names_a_host() {
            let rest = url.split_once("//").map_or("", |(_, rest)| rest);
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
        } else {
            url
        };
        address::path_prefix(path)
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Whether it is a URL, even an invalid one, and not just a path.
    fn names_a_host(&self) -> bool {
        self.url.as_ref().map_or(true, |url| address::is_absolute(url))
    }

    fn endpoint(&self) -> Result<Endpoint, Wrong> {
        let url = self.url.as_ref().map_err(Clone::clone)?;
        if let Some(rest) = url.strip_prefix("//") {
            let message = format!("the server URL `{}` has no scheme", shorten(url));
            return Err((message, format!("write `https://{0}` or `http://{0}`", shorten(rest))));
        }
        if !self.names_a_host() {
            let message =
                format!("the server URL `{}` does not name the upstream's host", shorten(url));
            return Err((message, ADD_ENDPOINTS.to_owned()));
        }
        address::endpoint(url)
    }
}

/// Reads a `servers` list.
pub(super) fn read(node: &Node<'_>, report: &mut Report) -> Vec<Server> {
    let Some(items) = values::list(node, "servers", report) else { return Vec::new() };
    items.iter().filter_map(|item| server(item, report)).collect()
}

fn server(node: &Node<'_>, report: &mut Report) -> Option<Server> {
    let map = values::map(node, "servers", report)?;
    let Some(url) = map.get("url") else {
        return report.reject(
            node.place,
            "the server has no `url`",
            "add `url: https://host/path`",
        );
    };
    let written = values::text(url, "url", report)?;
    let variables = map.get("variables").and_then(Node::as_map);
    Some(Server { url: with_defaults(written, variables), place: url.place })
}

/// Replaces each `{name}` by the default of that variable.
fn with_defaults(url: &str, variables: Option<&Map<'_>>) -> Result<String, Wrong> {
    let mut out = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        let variable = variables.and_then(|map| map.get(name)).and_then(Node::as_map);
        let Some(default) = variable.and_then(|map| map.get("default")).and_then(Node::as_text)
        else {
            return Err((
                format!("the server variable `{}` has no default", shorten(name)),
                format!("add `variables: {{{}: {{default: ...}}}}`", shorten(name)),
            ));
        };
        out.push_str(before);
        out.push_str(default);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Swagger 2.0: `host` and `basePath`, with https if it is among the `schemes`.
pub(super) fn of_swagger(root: &Map<'_>, report: &mut Report) -> Vec<Server> {
    let base_path = root.get("basePath").and_then(|node| values::text(node, "basePath", report));
    let base_path = base_path.unwrap_or_default();
    let Some(host) = root.get("host") else {
        let place = root.get("basePath").map(|node| node.place);
        let relative = |place| Server { url: Ok(base_path.to_owned()), place };
        return place.map(relative).into_iter().collect();
    };
    let Some(name) = values::text(host, "host", report) else { return Vec::new() };
    let url = scheme(root, report).map(|scheme| format!("{scheme}://{name}{base_path}"));
    vec![Server { url, place: host.place }]
}

fn scheme(root: &Map<'_>, report: &mut Report) -> Result<&'static str, Wrong> {
    let schemes = root.get("schemes").and_then(|node| values::texts(node, "schemes", report));
    let has = |name: &str| schemes.iter().flatten().any(|(scheme, _)| *scheme == name);
    match (has("https"), has("http")) {
        (true, _) => Ok("https"),
        (false, true) => Ok("http"),
        (false, false) => Err((
            "`host` needs `schemes`: http or https".to_owned(),
            "add `schemes: [https]` or `schemes: [http]`".to_owned(),
        )),
    }
}

/// The endpoints of the servers. If one is not valid, it is reported and there are none.
pub(super) fn endpoints(servers: &[Server], report: &mut Report) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for server in servers {
        match server.endpoint() {
            Ok(endpoint) => found.push(endpoint),
            Err((message, help)) => report.error(server.place, message, help),
        }
    }
    if found.len() < servers.len() {
        return Vec::new();
    }
    if let [first, _, ..] = servers {
        let help = "to choose, add `x-wso2-production-endpoints`";
        report.warning(first.place, "requests are balanced over all servers", help);
    }
    found
}

/// Whether a server is more than a path.
pub(super) fn name_a_host(servers: &[Server]) -> bool {
    servers.iter().any(Server::names_a_host)
}
