//! Mediators of Micro Integrator that are not supported, and their substitutes.

const SERVICE: &str = "call a service that does it with `call`";
const JAVA: &str = "write the logic as `script`, or call a service with `call`";
const DATABASE: &str = "call a service in front of the database, with `call`";
const OPENAPI: &str = "put an OpenAPI description with security in front of the service";

const EVENTS: &str = "send the event to a collector over HTTP, with `clone` or `call`";

/// Element and substitute, in alphabetical order.
#[rustfmt::skip]
pub const UNSERVED: &[(&str, &str)] = &[
    ("annotatedCommand",   JAVA),
    ("bean",               "keep the values in properties or variables"),
    ("builder",            "remove it: a body is read when a mediator needs it"),
    ("class",              JAVA),
    ("dataServiceCall",    "call the data service over HTTP, with `call`"),
    ("dblookup",           DATABASE),
    ("dbreport",           DATABASE),
    ("ejb",                SERVICE),
    ("enqueue",            "use `sequence`: messages do not wait for threads"),
    ("entitlementService", OPENAPI),
    ("event",              SERVICE),
    ("eventPublisher",     EVENTS),
    ("graphql",            "validate the query in the service"),
    ("jwt",                OPENAPI),
    ("NTLM",               SERVICE),
    ("oauthService",       OPENAPI),
    ("opa",                "query the policy server with `call`, then `filter` on its response"),
    ("pojoCommand",        JAVA),
    ("publishEvent",       EVENTS),
    ("replace",            "use `enrich`, `payloadFactory` or `script`"),
    ("rule",               "use `switch` or `filter`, or call a rule engine with `call`"),
    ("sampler",            "use `throttle`"),
    ("smooks",             "use `xslt`, `payloadFactory` or `script`"),
    ("spring",             JAVA),
    ("store",              "send the message to a queue over HTTP, with `call`"),
    ("transaction",        "undo changes in the fault sequence: requests over HTTP are not transactional"),
    ("xquery",             "use `xslt`"),
];
