//! `servers` of OpenAPI 3; `host`, `basePath` and `schemes` of Swagger 2.0, taken as the same thing.

use model::{Endpoint, Place};

use super::values;
use crate::address::{self, Wrong};
use crate::report::{Report, shorten};
use crate::tree::{Map, Node};

/// One server's URL with its variables put in, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Server {
    url: Result<String, Wrong>,
    place: Place,
}

impl Server {
    /// The URL's path, for the base path where the file gives none. Empty: it has none.
    pub(super) fn path(&self) -> Result<String, Wrong> {
        let url = self.url.as_ref().map_err(Clone::clone)?;
        let path = if address::is_absolute(url) {
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

    fn is_relative(&self) -> bool {
        self.url.as_ref().is_ok_and(|url| !address::is_absolute(url))
    }

    fn endpoint(&self) -> Result<Endpoint, Wrong> {
        let url = self.url.as_ref().map_err(Clone::clone)?;
        if self.is_relative() {
            return Err((
                format!("`{}` says nothing of where the backend is", shorten(url)),
                "write a whole URL, or `x-wso2-production-endpoints: {urls: [http://host:port]}`"
                    .to_owned(),
            ));
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
        report.error(node.place, "the server has no `url`", "add `url: https://host/path`");
        return None;
    };
    let written = values::text(url, "url", report)?;
    let variables = map.get("variables").and_then(Node::as_map);
    Some(Server { url: with_defaults(written, variables), place: url.place })
}

/// Puts each variable's default in the place of its `{name}`.
fn with_defaults(url: &str, variables: Option<&Map<'_>>) -> Result<String, Wrong> {
    let mut out = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        let variable = variables.and_then(|map| map.get(name)).and_then(Node::as_map);
        let Some(default) = variable.and_then(|map| map.get("default")).and_then(Node::as_text)
        else {
            return Err((
                format!("the server's variable `{}` has no default", shorten(name)),
                "give it one under `variables`".to_owned(),
            ));
        };
        out.push_str(before);
        out.push_str(default);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Swagger 2.0: `host` with the better of its `schemes`, and `basePath`.
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
            "`host` without `schemes` leaves open how the backend is called".to_owned(),
            "add `schemes: [https]` or `schemes: [http]`".to_owned(),
        )),
    }
}

/// The endpoints that the servers name; each that is none is a finding, and then there are none.
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
        let help = "write `x-wso2-production-endpoints` to choose";
        report.warning(first.place, "all servers are taken as endpoints, each in turn", help);
    }
    found
}

/// Whether the servers say where a backend is at all.
pub(super) fn name_a_host(servers: &[Server]) -> bool {
    servers.iter().any(|server| !server.is_relative())
}
