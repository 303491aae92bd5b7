//! Artefacts as they are served: compiled, with the last good version of those that are broken.

pub(crate) mod origins;
pub(crate) mod policies;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base::Method;
use expression::Budget;
use mediation::{
    Bindings, Code, Compiler, Failure, InboundTarget, Memory, Program, SequenceId, Wsdl,
};
use model::{
    Api, ApiState, Artefact, ArtefactRules, ArtefactSet, Denial, Diagnostic, Fault, LoadedApi,
    MethodSet, Place, Resource, Security, ServiceRules, Severity, Snapshot, Transports,
};
use stages::{ApiRoutes, NotFound, Routes};

use crate::message::{Request, Serves};

/// The log target of artefacts and their authors. The log does not sample it: lines with one text may have different
/// causes.
pub(crate) const LOG: &str = "penstock_mediation::log";

/// Compiled artefacts. Workers share them.
pub(crate) struct Integration {
    /// Artefacts as found: compiled again only if they changed.
    found: Arc<ArtefactSet>,
    /// Artefacts that the program was compiled from.
    pub(crate) artefacts: Arc<ArtefactSet>,
    /// How it was compiled.
    rules: ArtefactRules,
    /// The units of it that are broken nevertheless.
    broken: BTreeSet<PathBuf>,
    /// Problems of the artefacts as found.
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) program: Arc<Program>,
    /// The base paths of the services, and their accounts. Services have no operations: their resources are in the
    /// artefacts.
    pub(crate) routes: Arc<Routes>,
    /// By slot in `routes`.
    pub(crate) services: Vec<Option<Service>>,
    /// State that the program's mediators keep between messages, for all workers.
    pub(crate) memory: Memory,
    /// By the number of the proxy: the WSDL of an endpoint, fetched on the first request for it.
    pub(crate) wsdls: Vec<OnceLock<Wsdl>>,
}

/// The number of a service in its program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Proxy(usize),
    Api(usize),
    /// An inbound endpoint's own sequence, at no base path.
    Inbound(usize),
    /// The sequence `main` gets requests that no other service takes, at the empty base path.
    Main(SequenceId),
}

/// The service that a request is for.
pub(crate) struct FoundService<'s, 'p> {
    pub(crate) routes: &'s Arc<ApiRoutes>,
    pub(crate) service: Service,
    pub(crate) remainder: &'p [u8],
    /// Not on another transport alone.
    pub(crate) is_served: bool,
}

/// A compiled set.
struct Compiled {
    artefacts: Arc<ArtefactSet>,
    program: Program,
    diagnostics: Vec<Diagnostic>,
    broken: BTreeSet<PathBuf>,
}

impl Compiled {
    fn of(artefacts: Arc<ArtefactSet>, rules: &ArtefactRules) -> Self {
        let (mut program, diagnostics) = Compiler::compile_set(&artefacts);
        program.map_json(&rules.json);
        let errors = diagnostics.iter().filter(|one| one.severity == Severity::Error);
        let broken = errors.map(|one| file_of(&artefacts, &one.file)).collect();
        Self { artefacts, program, diagnostics, broken }
    }
}

impl Compiled {
    /// Removes the archives that have errors: an archive is served whole or not at all. Artefacts outside of them may
    /// have used theirs, so the rest is compiled again.
    fn whole(self, rules: &ArtefactRules) -> Self {
        let mut compiled = self;
        loop {
            let all = &compiled.artefacts.artefacts;
            let is_broken = |file: &Path| compiled.broken.contains(file);
            let archives = all.iter().filter(|one| one.application.is_some()).map(unit);
            let broken: BTreeSet<_> =
                archives.filter(|file| is_broken(file)).map(Path::to_owned).collect();
            if broken.is_empty() {
                return compiled;
            }
            for file in &broken {
                tracing::error!(target: LOG, "{}: not served, since it has errors", file.display());
            }
            let mut artefacts = ArtefactSet::clone(&compiled.artefacts);
            artefacts.artefacts.retain(|one| !broken.contains(unit(one)));
            artefacts.resources.retain(|_, one| !broken.iter().any(|file| is_in(one, file)));
            let mut rest = Self::of(Arc::new(artefacts), rules);
            rest.broken.append(&mut compiled.broken);
            compiled = rest;
        }
    }
}

impl Integration {
    /// Compiles the artefacts of `snapshot`, unless `previous` has them already. A unit that is broken now keeps its
    /// version in `previous`, if it was not broken there.
    pub(crate) fn compile(
        snapshot: &Snapshot,
        rules: &ArtefactRules,
        previous: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let found = &snapshot.artefacts;
        if let Some(previous) = previous
            && Arc::ptr_eq(&previous.found, found)
            && previous.rules == *rules
        {
            return Arc::clone(previous);
        }
        let new = Compiled::of(Arc::clone(found), rules);
        for diagnostic in &new.diagnostics {
            match diagnostic.severity {
                Severity::Error => tracing::error!(target: LOG, "{diagnostic}"),
                Severity::Warning => tracing::warn!(target: LOG, "{diagnostic}"),
            }
        }
        let kept = previous.and_then(|previous| previous.keep(&new));
        let (compiled, diagnostics) = match kept {
            Some(kept) => (Compiled::of(Arc::new(kept), rules), new.diagnostics),
            None => (Compiled { diagnostics: Vec::new(), ..new }, new.diagnostics),
        };
        let Compiled { artefacts, program, broken, .. } = compiled.whole(rules);
        let unknown = program.check_services(&rules.services);
        unknown.iter().for_each(|diagnostic| tracing::error!(target: LOG, "{diagnostic}"));
        let diagnostics = [diagnostics, unknown].concat();
        let served = services(&program, rules);
        let apis = served
            .iter()
            .map(|(_, api)| LoadedApi { api: Arc::clone(api), state: ApiState::Serving });
        let snapshot =
            Snapshot { revision: snapshot.revision, apis: apis.collect(), ..Snapshot::default() };
        let routes = Routes::compile(&snapshot, previous.map(|previous| &*previous.routes));
        let mut services = vec![None; routes.slots()];
        for api in routes.apis() {
            let service = served.iter().find(|(_, known)| Arc::ptr_eq(known, &api.api));
            if let (Some((service, _)), Some(slot)) = (service, services.get_mut(api.slot as usize))
            {
                *slot = Some(*service);
            }
        }
        Arc::new(Self {
            found: Arc::clone(found),
            artefacts,
            rules: rules.clone(),
            broken,
            diagnostics,
            memory: Memory::new(&program),
            wsdls: program.proxies().iter().map(|_| OnceLock::new()).collect(),
            program: Arc::new(program),
            services,
            routes: Arc::new(routes),
        })
    }

    /// The same with other rules.
    pub(crate) fn with_rules(self: &Arc<Self>, rules: &ArtefactRules) -> Arc<Self> {
        let (revision, artefacts) = (self.routes.revision(), Arc::clone(&self.found));
        let snapshot = Snapshot { revision, artefacts, ..Snapshot::default() };
        Self::compile(&snapshot, rules, Some(self))
    }

    /// The set of `new` with this one's versions of the units that are broken there. `None` if this set has no version
    /// of them.
    fn keep(&self, new: &Compiled) -> Option<ArtefactSet> {
        let found = &new.artefacts;
        let of = |set: &ArtefactSet, file: &PathBuf| -> Vec<Artefact> {
            set.artefacts.iter().filter(|one| unit(one) == *file).cloned().collect()
        };
        let mut artefacts = found.artefacts.clone();
        let mut kept = Vec::new();
        for file in new.broken.difference(&self.broken) {
            let (old, broken) = (of(&self.artefacts, file), of(found, file));
            let others = artefacts.iter().filter(|one| unit(one) != *file).flat_map(names);
            let others: HashSet<_> = others.collect();
            // Another file may have the names by now.
            let is_taken = old.iter().flat_map(names).any(|name| others.contains(&name));
            if old.is_empty() || old == broken || is_taken {
                continue;
            }
            tracing::warn!(target: LOG, "{}: the last good version stays in service", file.display());
            let at = artefacts.iter().position(|one| unit(one) == *file).unwrap_or_default();
            artefacts.retain(|one| unit(one) != *file);
            artefacts.splice(at..at, old);
            kept.push(file);
        }
        if kept.is_empty() {
            return None;
        }
        // An archive has resources of its own; the others are shared, and an old version may refer to one that is gone.
        let is_kept = |one: &Resource| kept.iter().any(|file| is_in(one, file));
        let (own, mut resources): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.artefacts.resources.clone().into_iter().partition(|(_, one)| is_kept(one));
        resources.extend(found.resources.clone().into_iter().filter(|(_, one)| !is_kept(one)));
        resources.extend(own);
        Some(ArtefactSet { artefacts, resources })
    }

    /// Where a request goes: its account, its service, and the rest of its path.
    ///
    /// # Errors
    /// No service has the path; the budget of `dispatch.filter.pattern`.
    pub(crate) fn find<'r>(
        &'r self,
        request: &'r Request,
    ) -> Result<FoundService<'r, 'r>, Box<Fault>> {
        let Serves::Inbound(port) = request.peer.serves else {
            return self.bound(request, |bindings| bindings.default);
        };
        let mut all = self.program.inbounds().iter().enumerate();
        // An inbound endpoint that was removed still has connections.
        let found = all.find(|(_, inbound)| inbound.port == port);
        let (number, inbound) = found.ok_or(Fault::Denied(Denial::NoApi))?;
        // APIs that are bound to the inbound endpoint come before its dispatch pattern. Source:
        // `InboundHttpServerWorker`.
        let is_bound = |api: &mediation::Api| api.bindings.inbounds.contains(&inbound.name);
        let own = self.at_path(request, is_bound)?.filter(|target| match target.service {
            Service::Api(number) => self.program.apis().get(number).is_some_and(is_bound),
            Service::Proxy(_) | Service::Inbound(_) | Service::Main(_) => false,
        });
        if let Some(own) = own {
            return Ok(own);
        }
        // The routed target, not the one that was sent: the pattern may be there to keep requests out.
        let (head, bytes) = (&request.head, request.bytes.as_slice());
        let mut target = String::from_utf8_lossy(head.path(bytes)).into_owned();
        if let Some(query) = head.query(bytes) {
            target.push('?');
            target.push_str(&String::from_utf8_lossy(query));
        }
        match inbound.target(&target, &Budget::default()).map_err(fault_of)? {
            InboundTarget::Service => self.bound(request, |_| true),
            InboundTarget::Main => self.elsewhere(request, |of| matches!(of, Service::Main(_))),
            InboundTarget::Own => {
                self.elsewhere(request, |of| matches!(of, Service::Inbound(one) if one == number))
            }
        }
    }

    /// The service at the path of a request: a proxy whose bindings are right, or an API that is bound to the listeners
    /// of `[integration]`; else the sequence `main`.
    fn bound<'r>(
        &'r self,
        request: &'r Request,
        is_right: impl Fn(&Bindings) -> bool,
    ) -> Result<FoundService<'r, 'r>, Box<Fault>> {
        let found = self.at_path(request, |api| api.bindings.default)?;
        let found = found.ok_or(Fault::Denied(Denial::NoApi))?;
        let is_bound = match found.service {
            Service::Proxy(number) => {
                self.program.proxies().get(number).is_some_and(|proxy| is_right(&proxy.bindings))
            }
            Service::Api(number) => {
                self.program.apis().get(number).is_some_and(|api| api.bindings.default)
            }
            Service::Inbound(_) | Service::Main(_) => true,
        };
        if is_bound {
            return Ok(found);
        }
        self.elsewhere(request, |of| matches!(of, Service::Main(_)))
    }

    /// The service with the longest base path. APIs are candidates only if `is_right` holds and they admit the host. A
    /// proxy has the paths of its ports, too.
    fn at_path<'r>(
        &'r self,
        request: &'r Request,
        is_right: impl Fn(&mediation::Api) -> bool,
    ) -> Result<Option<FoundService<'r, 'r>>, Box<Fault>> {
        let path = request.head.path(&request.bytes);
        let is_proxy = |target: &FoundService<'_, '_>| matches!(target.service, Service::Proxy(_));
        let found = self.below(path, request)?;
        if !found.as_ref().is_some_and(is_proxy)
            && let Some((path, remainder)) = port_of_proxy(path)
            && let Some(proxy) = self.below(&path, request)?.filter(is_proxy)
        {
            return Ok(Some(FoundService { remainder, ..proxy }));
        }
        let Some(FoundService { service: Service::Api(number), .. }) = &found else {
            return Ok(found);
        };
        let host = String::from_utf8_lossy(request.head.host(&request.bytes));
        let is_right = |api: &mediation::Api| is_right(api) && api.is_at(&host, request.secure);
        if self.program.apis().get(*number).is_some_and(is_right) {
            return Ok(found);
        }
        Ok(self.other_api(request, is_right).or(found))
    }

    /// The API with the longest base path of those that are right. Source: Synapse's `RESTRequestHandler`, which asks
    /// all.
    fn other_api<'r>(
        &'r self,
        request: &'r Request,
        is_right: impl Fn(&mediation::Api) -> bool,
    ) -> Option<FoundService<'r, 'r>> {
        let path = request.head.path(&request.bytes);
        let rest = |api: &mediation::Api| {
            let rest = path.strip_prefix(api.base_path.as_bytes())?;
            (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
        };
        let apis = self.program.apis().iter().enumerate().filter(|(_, api)| is_right(api));
        let apis = apis.filter_map(|(number, api)| Some((number, api, rest(api)?)));
        let (number, api, remainder) = apis.min_by_key(|(_, _, rest)| rest.len())?;
        let service = Service::Api(number);
        let is_its = |slot: u32| {
            let known = self.services.get(slot as usize).copied().flatten();
            matches!(known, Some(Service::Api(one)) if one == number)
        };
        let routes = self.routes.apis().find(|routes| is_its(routes.slot))?;
        let is_served = if request.secure { api.transports.https } else { api.transports.http };
        Some(FoundService { routes, service, remainder, is_served })
    }

    fn below<'s, 'p>(
        &'s self,
        path: &'p [u8],
        request: &Request,
    ) -> Result<Option<FoundService<'s, 'p>>, Box<Fault>> {
        let host = request.head.host(&request.bytes);
        // Services have no operations: only their base path is found.
        let found = self.routes.find(host, request.head.method(), path, request.secure);
        let Err(NotFound { denial, api, remainder, .. }) = found else {
            return Err(Fault::Denied(Denial::NoResource).into());
        };
        let Some(routes) = api else { return Ok(None) };
        let service = self.services.get(routes.slot as usize).copied().flatten();
        let service = service.ok_or(Fault::Denied(Denial::NoApi))?;
        let is_served = denial != Denial::UnsupportedTransport;
        Ok(Some(FoundService { routes, service, remainder, is_served }))
    }

    /// A service that is selected by a predicate, independently of the path.
    fn elsewhere<'r>(
        &'r self,
        request: &'r Request,
        is_it: impl Fn(Service) -> bool,
    ) -> Result<FoundService<'r, 'r>, Box<Fault>> {
        let mut all = self.routes.apis();
        let found = all.find_map(|routes| {
            let service = self.services.get(routes.slot as usize).copied().flatten()?;
            is_it(service).then_some((routes, service))
        });
        let (routes, service) = found.ok_or(Fault::Denied(Denial::NoApi))?;
        let remainder = request.head.path(&request.bytes);
        Ok(FoundService { routes, service, remainder, is_served: true })
    }

    /// The methods of the resources of the API with this number, at a path below its base path.
    pub(crate) fn methods(&self, api: usize, request: &Request, remainder: &[u8]) -> MethodSet {
        let Some(api) = self.program.apis().get(api) else { return MethodSet::EMPTY };
        let query = request.head.query(&request.bytes).unwrap_or_default();
        let (rest, query) = (String::from_utf8_lossy(remainder), String::from_utf8_lossy(query));
        let all = Method::NAMED.into_iter();
        match api.methods(&rest, &query) {
            None => all.fold(MethodSet::EMPTY, MethodSet::with),
            Some(named) => all
                .filter(|one| named.contains(&one.as_str()))
                .fold(MethodSet::EMPTY, MethodSet::with),
        }
    }

    /// The plans of `[[service]]` that do not exist. A service with such a plan admits nothing.
    pub(crate) fn unknown_plans(&self, exists: impl Fn(&str) -> bool) -> Vec<Diagnostic> {
        let named = self.rules.services.iter().flat_map(|rule| {
            let plans = rule.access.plans.iter().zip(&rule.plan_places);
            plans.map(move |(name, place)| (rule, name, *place))
        });
        let unknown = named.filter(|(_, name, _)| !exists(name));
        let diagnostic = |(rule, name, place): (&ServiceRules, &String, Place)| Diagnostic {
            severity: Severity::Error,
            file: rule.file.clone(),
            place: Some(place),
            message: format!(
                "there is no plan `{name}`: the service `{}` admits nothing",
                rule.name
            ),
            help: Some("add it to plans.toml or to the control plane".to_owned()),
        };
        unknown.map(diagnostic).collect()
    }

    /// The ports of inbound endpoints, and whether they use TLS.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (u16, bool)> {
        self.program.inbounds().iter().map(|inbound| (inbound.port, inbound.secure))
    }

    /// A problem of the inbound endpoint with this port.
    pub(crate) fn port_problem(
        &self,
        port: u16,
        message: String,
        help: &str,
    ) -> Option<Diagnostic> {
        let inbound = self.program.inbounds().iter().find(|inbound| inbound.port == port)?;
        Some(inbound.diagnostic(Severity::Error, message, help))
    }

    /// Whether they are other artefacts than those of `other`.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        !Arc::ptr_eq(&self.program, &other.program)
    }
}

/// The path of the proxy of `/services/NAME.PORT`, and the rest of the path: the addresses in Micro Integrator's WSDLs.
fn port_of_proxy(path: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    const SERVICES: &[u8] = b"/services/";
    let below = path.strip_prefix(SERVICES)?;
    let end = below.iter().position(|byte| *byte == b'/').unwrap_or(below.len());
    let (segment, remainder) = below.split_at_checked(end)?;
    let name = segment.split(|byte| *byte == b'.').next().filter(|name| name.len() < end)?;
    Some(([SERVICES, name].concat(), remainder))
}

/// The unit that is served whole or not at all: an archive, or a file.
fn unit(artefact: &Artefact) -> &Path {
    artefact.application.as_ref().map_or(&artefact.file, |application| &application.file)
}

/// Whether a resource is in an archive.
fn is_in(resource: &Resource, archive: &Path) -> bool {
    let (file, archive) = (resource.file.to_string_lossy(), archive.to_string_lossy());
    file.strip_prefix(&*archive).is_some_and(|entry| entry.starts_with("!/"))
}

/// The unit of an artefact's file.
fn file_of(set: &ArtefactSet, file: &Path) -> PathBuf {
    let found = set.artefacts.iter().find(|one| one.file == file);
    found.map_or(file, unit).to_owned()
}

/// Kinds and names that an artefact defines.
fn names(artefact: &Artefact) -> impl Iterator<Item = (model::ArtefactKind, String)> {
    let own = (artefact.kind, artefact.name.clone());
    std::iter::once(own).chain(artefact.contains.iter().cloned())
}

/// The services of a program, each as an API without operations.
fn services(program: &Program, rules: &ArtefactRules) -> Vec<(Service, Arc<Api>)> {
    let transports =
        |given: mediation::Transports| Transports { http: given.http, https: given.https };
    let proxies = program.proxies().iter().enumerate().map(|(number, proxy)| {
        let path = format!("/services/{}", proxy.name);
        let transports = transports(proxy.transports);
        let api = service(rules, &[&proxy.name], Api::new(proxy.name.clone(), String::new(), path));
        let api = Api { transports, ..api };
        (Service::Proxy(number), Arc::new(api))
    });
    let apis = program.apis().iter().enumerate().map(|(number, api)| {
        let path = api.base_path.clone();
        let transports = transports(api.transports);
        let cors = rules.cors.clone();
        let version = api.version.clone().unwrap_or_default();
        let found = Api::new(api.name.clone(), version, path);
        let found = Api { transports, cors, ..service(rules, &[&api.key(), &api.name], found) };
        (Service::Api(number), Arc::new(found))
    });
    let inbounds = program.inbounds().iter().enumerate().map(|(number, inbound)| {
        // No path of a request begins like this.
        let path = format!("inbound:{}", inbound.name);
        let api = Api::new(inbound.name.clone(), String::new(), path);
        let api = service(rules, &[&inbound.name], api);
        (Service::Inbound(number), Arc::new(api))
    });
    let main = program.sequence("main").map(|main| {
        let api = Api::new("main".to_owned(), String::new(), String::new());
        let api = service(rules, &["main"], api);
        (Service::Main(main), Arc::new(api))
    });
    // The first of two services with one path is served: an API at `/` comes before `main`.
    proxies.chain(apis).chain(inbounds).chain(main).collect()
}

/// An API without operations, with the security and the plans of the service with the first of these names that has
/// some. A service that requires no credential forwards the field `Authorization` of clients, as in Micro Integrator.
fn service(rules: &ArtefactRules, names: &[&str], api: Api) -> Api {
    let rule = |name: &&str| rules.services.iter().find(|rule| rule.name == **name);
    let access =
        names.iter().find_map(rule).map_or_else(Default::default, |rule| rule.access.clone());
    let forward_auth_header = access.security == Security::Open;
    Api { forward_auth_header, subscription: false, service: Some(access), ..api }
}

/// The response to the client if no sequence handles a failure.
pub(crate) fn fault_of(failure: Failure) -> Box<Fault> {
    if let Some(denial) = failure.denial {
        return Fault::Denied(denial).into();
    }
    if failure.code == Code::MALFORMED_BODY {
        return Fault::MalformedBody { blame: failure.sender, reason: failure.to_string() }.into();
    }
    Fault::Mediation { code: failure.code.0, reason: failure.to_string() }.into()
}
