//! The sequences of an API's policies.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Api, Policies, Policy, PolicyFlow};

use super::check::guard;
use super::reading::Compilation;
use super::{PolicyProblem, PolicyReading, interceptor, policy};
use crate::error::{Code, Failure};
use crate::message::Message;
use crate::program::{
    Endpoint, EndpointId, EndpointKind, Flow, Mediator, Next, Program, Scene, Sequence, SequenceId,
    Site, Step,
};

/// The policies of an API, compiled. Operations with the same policies share their sequences.
#[derive(Debug)]
pub struct ApiPolicies {
    pub program: Arc<Program>,
    /// By operation; `None`: it has no policies.
    pub operations: Vec<Option<OperationFlow>>,
}

/// Flow of the messages of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationFlow {
    /// For request and response. A request is sent to the endpoints of the operation.
    pub flow: Flow,
    /// For the response to a fault.
    pub fault: Option<SequenceId>,
    /// Whether a policy reads the claims of the token.
    pub reads_claims: bool,
    /// Whether a policy passes on the host's description of the request: [`super::INVOCATION`].
    pub reads_invocation: bool,
    /// Whether a parameter is a template, which may read properties of the API.
    pub has_templates: bool,
}

impl ApiPolicies {
    /// `None` if no operation has policies.
    #[must_use]
    pub fn compile(api: &Api) -> Option<Self> {
        if api.operations.iter().all(|operation| operation.policies.is_none()) {
            return None;
        }
        let mut compilation = Compilation::default();
        compilation
            .program
            .endpoints
            .push(Endpoint { kind: EndpointKind::Upstream, ..Endpoint::default() });
        let file: Arc<str> = api.source.to_string_lossy().into();
        // By address, so that shared policies are compiled once.
        let mut known: HashMap<*const Policies, OperationFlow> = HashMap::new();
        let operations = api.operations.iter().map(|operation| {
            let policies = operation.policies.as_ref()?;
            let compile = || operation_flow(&mut compilation, policies, &file);
            Some(*known.entry(Arc::as_ptr(policies)).or_insert_with(compile))
        });
        let operations = operations.collect();
        let mut program = compilation.program;
        program.link();
        Some(Self { program: Arc::new(program), operations })
    }
}

fn operation_flow(
    compilation: &mut Compilation,
    policies: &Policies,
    file: &Arc<str>,
) -> OperationFlow {
    let mut first = interceptor::Remember::of(policies);
    let mut sequence = |flow| {
        let first = if flow == PolicyFlow::Request { first.take() } else { None };
        sequence(compilation, policies.flow(flow), first, flow, file)
    };
    let [request, response, fault] = PolicyFlow::ALL.map(&mut sequence);
    let all = || PolicyFlow::ALL.iter().flat_map(|flow| policies.flow(*flow));
    let values = || all().flat_map(|policy| &policy.parameters).map(|(_, value)| value);
    let reads_claims = all().any(|policy| policy.name == "jwtClaimBasedAccessValidator")
        || values().any(|value| value.contains(super::CLAIMS));
    let reads_invocation = all().any(|policy| {
        let mut values = policy.parameters.iter().map(|(_, value)| value);
        policy.name == interceptor::NAME && values.any(|value| value.contains("invocation_context"))
    });
    // Parameters of the path are properties, too.
    let has_templates = values().any(|value| value.contains('{'));
    let endpoint = Some(EndpointId(0));
    OperationFlow {
        flow: Flow { request, response, fault: None, endpoint },
        fault,
        reads_claims,
        reads_invocation,
        has_templates,
    }
}

fn sequence(
    compilation: &mut Compilation,
    policies: &[Policy],
    first: Option<Box<dyn Mediator>>,
    flow: PolicyFlow,
    file: &Arc<str>,
) -> Option<SequenceId> {
    if policies.is_empty() && first.is_none() {
        return None;
    }
    let first = first.map(|mediator| {
        let site = Site { file: Arc::clone(file), line: 0, column: 0 };
        Step { element: interceptor::NAME, site, mediator, reads_to: false }
    });
    let others = policies.iter().flat_map(|policy| {
        let (element, mediator) = match compile(compilation, policy, flow) {
            Ok(compiled) => compiled,
            // The file was checked with the same table.
            Err(_) => ("policy", Box::new(Broken) as Box<dyn Mediator>),
        };
        let (line, column) = (policy.place.line, policy.place.column);
        let guard = guard(element, mediator.as_ref(), flow);
        let mediators = guard.into_iter().chain(std::iter::once(mediator));
        mediators.map(move |mediator| {
            let site = Site { file: Arc::clone(file), line, column };
            Step { element, site, mediator, reads_to: false }
        })
    });
    let steps = first.into_iter().chain(others).collect();
    let program = &mut compilation.program;
    let id = SequenceId(u32::try_from(program.sequences.len()).unwrap_or(u32::MAX));
    program.sequences.push(Sequence { steps, on_error: None });
    Some(id)
}

/// Stands for a policy that could not be compiled: nothing passes.
#[derive(Debug)]
struct Broken;

impl Mediator for Broken {
    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Err(Failure::new(Code::MEDIATION, "the policy could not be compiled"))
    }
}

fn compile(
    compilation: &mut Compilation,
    of: &Policy,
    flow: PolicyFlow,
) -> Result<(&'static str, Box<dyn Mediator>), Vec<PolicyProblem>> {
    let Some(row) = policy(&of.name) else { return Err(Vec::new()) };
    let mut reading = PolicyReading { policy: of, flow, compilation, problems: Vec::new() };
    match (row.compile)(&mut reading) {
        Some(mediator) if reading.problems.is_empty() => Ok((row.name, mediator)),
        Some(_) | None => Err(reading.problems),
    }
}

/// Problems of the values of a policy's parameters. Names are the caller's to check.
#[must_use]
pub fn check(of: &Policy, flow: PolicyFlow) -> Vec<PolicyProblem> {
    compile(&mut Compilation::default(), of, flow).err().unwrap_or_default()
}
