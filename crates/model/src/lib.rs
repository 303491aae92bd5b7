//! The types that the other crates share: APIs, callers, settings, faults, denials. Plain immutable data:
//! formats build it, the gateway compiles it, stages read it.
//!
//! Architecture invariant: no I/O, no clock, no randomness, no dependency on the gateway.

mod api;
mod application;
mod artefact;
mod auth_failure;
mod backend;
mod caller;
mod denial;
mod diagnostic;
mod fault;
mod grant;
mod methods;
mod plan;
mod policy;
mod revoked;
mod settings;
mod snapshot;
mod upstream;

pub use api::{
    Accepts, Api, BackendLimits, ClientTrust, Cors, IDENTITY_FIELDS, KeyPlace, Lifecycle,
    Operation, ScopeRule, Security, ServiceAccess, TokenRule, Transports, TrustedClients,
};
pub use application::{
    Application, ApplicationKey, Applications, KeyCredential, Permitted, Subscription,
    SubscriptionState,
};
pub use artefact::{
    Artefact, ArtefactKind, ArtefactSet, CompositeApplication, Resource, api_key, resource_path,
};
pub use auth_failure::AuthFailure;
pub use backend::{AwsCredential, BackendAuth, BackendClient, BackendCredential, BackendGrant};
pub use caller::{Caller, CredentialKind, KeptClaims, KeyType, TokenType};
pub use denial::{Denial, DenialRow, TABLE};
pub use diagnostic::{Diagnostic, Place, Severity};
pub use fault::{Blame, Fault};
pub use grant::{Grant, PlanUse};
pub use methods::MethodSet;
pub use plan::{
    Condition, ConditionGroup, CustomRule, Deny, KeyPart, Limit, LimitBy, Plan, Plans, Quantity,
    Subject,
};
pub use policy::{Policies, Policy, PolicyFlow};
pub use revoked::{Extent, Revoked};
pub use settings::{
    AccessLog, AdminSettings, ApiKeySettings, ArtefactRules, BackendJwt, CertificateFiles,
    ClientCertificates, ControlSettings, EndpointTls, FaultStatus, Feed, FeedRequest,
    GatewaySettings, Http2Listeners, IntegrationSettings, Introspection, IssuerSettings, KeySource,
    LdapSettings, LogFormat, LogSettings, Login, PlanFiles, PlanText, QuotaSettings, ServiceRules,
    Settings, SniCertificate, StoreSettings, TlsSettings, TokenLifetimes, TrustedIssuer,
    UpstreamTls, User, UserMapping, UserProvider, VaultField, VaultLogin, VaultRequest,
    VaultSettings, WhenDown,
};
pub use snapshot::{ApiState, Issuer, LoadedApi, Snapshot};
pub use upstream::{
    CircuitBreaker, ConnectionLimits, Endpoint, HealthCheck, Retry, Scheme, Suspension,
    SuspensionTime, Upstream, UpstreamKind,
};
