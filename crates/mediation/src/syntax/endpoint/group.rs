//! Endpoints of several members.

use base::Method;
use expression::Expression;
use model::Severity;

use super::{group, is_note};
use crate::limits;
use crate::program::{
    Endpoint, EndpointFormat, EndpointId, EndpointKind, Retry, Site, TimeoutAction,
};
use crate::syntax::{Compiler, Element};

/// Whether Synapse reads the body before it chooses. Here it is held if a second member may need it.
pub(super) const BUILD: &[&str] = &["buildMessage"];

impl Compiler {
    pub(super) fn load_balance(&mut self, child: &Element<'_>) -> Option<Endpoint> {
        child.ignore(BUILD);
        let fails_over = child.flag(self, "failover", true)?;
        child.choice(self, "policy", &[("roundRobin", ())])?;
        let algorithm = child.optional("algorithm").unwrap_or("RoundRobin");
        let algorithm = algorithm.rsplit('.').next().unwrap_or_default();
        let is_weighted = algorithm == "WeightedRoundRobin";
        if !is_weighted && !matches!(algorithm, "RoundRobin" | "roundRobin") {
            let help = "write `RoundRobin` or `WeightedRoundRobin`";
            self.error(child, format!("unknown value `{algorithm}` of `algorithm`"), Some(help));
        }
        let (members, weights): (_, Vec<_>) = self.members(child)?.into_iter().unzip();
        if !is_weighted && weights.iter().any(Option::is_some) {
            let help = "write algorithm=\"WeightedRoundRobin\"";
            self.warning(child, "the weights of the members have no effect", Some(help));
        }
        let weight = |own: Option<u32>| own.filter(|_| is_weighted).unwrap_or(1);
        let weights = weights.into_iter().map(weight).collect();
        Some(group(EndpointKind::LoadBalance { members, weights, fails_over }))
    }

    pub(super) fn recipient_list(&mut self, child: &Element<'_>) -> Option<Endpoint> {
        child.ignore(BUILD);
        let Some(dynamic) = child.children().find(|part| part.name() == "endpoints") else {
            let members = self.members(child)?.into_iter().map(|(id, _)| id).collect();
            return Some(group(EndpointKind::RecipientList { members }));
        };
        let source = dynamic.required(self, "value")?;
        let list = dynamic.computed(self, source)?;
        let list = list.unwrap_or_else(|| Expression::literal(source));
        dynamic.optional("max-cache");
        dynamic.finish(self);
        Some(group(EndpointKind::Recipients(list)))
    }

    /// The members of a group, with the weights that they say.
    pub(super) fn members(
        &mut self,
        child: &Element<'_>,
    ) -> Option<Vec<(EndpointId, Option<u32>)>> {
        let mut members = Vec::new();
        for part in child.children().filter(|part| !is_note(part)) {
            match part.name() {
                "endpoint" => {
                    let id = self.endpoint(&part)?;
                    // The weight of a member that is defined elsewhere is ignored. Source: Synapse's
                    // `WeightedRoundRobin`.
                    let own = part.attribute("key").is_none().then_some(id);
                    let weight = own.and_then(|id| self.program.endpoint_at(id)?.weight);
                    members.push((id, weight));
                }
                "member" => members.push((self.member(&part)?, None)),
                _ => child.ignores(self, &part, &["endpoint", "member"]),
            }
        }
        let ids = members.iter().map(|(id, _)| *id).collect();
        let (site, artefact) = (self.site(child), self.artefacts.current);
        let has_copies = child.name() == "recipientlist";
        self.groups.push(Group { site, artefact, members: ids, has_copies });
        if members.is_empty() || members.len() > limits::ENDPOINT_MEMBERS_MAX {
            let most = limits::ENDPOINT_MEMBERS_MAX;
            let message = format!("`{}` needs 1 to {most} endpoints", child.name());
            return self.reject(child, message, None);
        }
        Some(members)
    }

    /// Settings of a member that have no effect, since one message is written for all members, with one wait. Members
    /// may be defined after the group.
    pub(crate) fn check_groups(&mut self) {
        for Group { site, artefact, members, has_copies } in std::mem::take(&mut self.groups) {
            let all: Vec<_> =
                members.iter().filter_map(|id| self.program.endpoint_at(*id)).collect();
            let has_properties = all.iter().any(|one| !one.properties.is_empty());
            let discards = all.iter().any(|one| one.timeout.action == TimeoutAction::Discard);
            let differ = [
                ("format", differs(all.iter().map(|one| one.format))),
                ("encoding", differs(members.iter().map(|id| self.program.charset_of(*id)))),
                ("enableAddressing", differs(all.iter().map(|one| one.addressing))),
            ];
            if has_properties {
                self.artefacts.current = artefact;
                self.artefacts.has_error();
                let help = "set it on the group, or with the mediator `property` before".to_owned();
                let message = "properties of members are not supported".to_owned();
                self.report_at(Severity::Error, site.clone(), message, Some(help));
            }
            // Each recipient gets a copy.
            if has_copies {
                continue;
            }
            for (name, _) in differ.into_iter().filter(|(_, differs)| *differs) {
                let help = format!("give them the same `{name}`, or choose one with `filter`");
                let message = format!("all members get the `{name}` of the first that has one");
                self.report_at(Severity::Warning, site.clone(), message, Some(help));
            }
            if discards {
                let help = "write `drop` into the fault sequence for the error 101504".to_owned();
                let message = "`discard` of a member has no effect: the message fails".to_owned();
                self.report_at(Severity::Warning, site, message, Some(help));
            }
        }
    }

    /// Groups that Synapse makes send any request to the next member, unless the members say after which errors. They
    /// may be defined after the group.
    pub(crate) fn check_failovers(&mut self) {
        for (site, members) in std::mem::take(&mut self.failovers) {
            let all: Vec<_> =
                members.iter().filter_map(|id| self.program.endpoint_at(*id)).collect();
            let is_default = all.iter().all(|one| one.retry == Retry::All);
            if all.len() < 2 || !is_default || all.iter().all(|one| is_repeatable(one)) {
                continue;
            }
            let message = "a POST is not sent to the next member after the errors 101504 and 101505, since it may have been processed";
            let help = "if it is safe to repeat, list them in `enabledErrorCodes` of the members' `retryConfig`";
            self.report_at(Severity::Warning, site, message.to_owned(), Some(help.to_owned()));
        }
    }

    /// `member hostName="..." httpPort="..." httpsPort="..."`
    fn member(&mut self, part: &Element<'_>) -> Option<EndpointId> {
        let host = part.required(self, "hostName")?;
        let ports = (part.optional("httpPort"), part.optional("httpsPort"));
        part.finish(self);
        let address = |scheme: &str, port: &str| format!("{scheme}://{host}:{port}");
        let (http, https) = match ports {
            (None, None) => (Some(format!("http://{host}")), Some(format!("https://{host}"))),
            (http, https) => {
                (http.map(|port| address("http", port)), https.map(|port| address("https", port)))
            }
        };
        let kind = EndpointKind::Member { http, https };
        Some(self.new_endpoint(Endpoint { kind, ..Endpoint::default() }))
    }
}

/// A group that was compiled, when its members perhaps were not yet.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) site: Site,
    artefact: usize,
    members: Vec<EndpointId>,
    /// Each member gets a copy of the message.
    has_copies: bool,
}

/// Whether all that it is sent is safe to repeat.
fn is_repeatable(endpoint: &Endpoint) -> bool {
    if let EndpointKind::Http { method: Some(method), .. } = &endpoint.kind {
        return Method::from_bytes(method.as_bytes()).is_idempotent();
    }
    endpoint.format == Some(EndpointFormat::Get)
}

/// Whether not all members say the same, of those that say something.
fn differs<T: PartialEq>(all: impl Iterator<Item = Option<T>>) -> bool {
    let mut all = all.flatten();
    let first = all.next();
    all.any(|one| Some(one) != first)
}
