//! The snippet at the beginning of each section of the manual of `penstock.toml`. A test reads each of them.

/// A table of the manual, and lines that begin its section. Sections below a table that has a snippet need none.
pub(super) const SNIPPETS: &[(&str, &str)] = &[
    (
        "gateway",
        r#"[gateway]
http = "0.0.0.0:8280"
https = "0.0.0.0:8243"            # without [tls], a certificate is generated
apis = ["apis/"]
strict_paths = true
trusted_proxies = ["10.0.0.0/8"]  # the load balancers in front
"#,
    ),
    (
        "integration",
        r#"[integration]
http = "127.0.0.1:8290"
https = "127.0.0.1:8253"
artifacts = ["artifacts/"]        # XML files, folders and .car archives
cors_origins = ["https://shop.example"]
cors_headers = ["Content-Type", "Authorization"]
"#,
    ),
    (
        "service",
        r#"[[service]]
name = "StockQuote"               # a proxy service, or a Synapse API
security = ["control"]            # names of issuers
scopes = ["quotes"]
plans = ["Gold"]
"#,
    ),
    (
        "tls",
        r#"[tls]
cert = "tls.crt"
key = "tls.key"
client_ca = ["clients.pem"]       # clients may present certificates of this authority
"#,
    ),
    (
        "tls.sni",
        r#"[[tls.sni]]
hosts = ["api.example.org", "*.shop.example"]
cert = "shop.crt"
key = "shop.key"
"#,
    ),
    (
        "admin",
        r#"[admin]
listen = "127.0.0.1:9201"
"#,
    ),
    (
        "control",
        r#"[control]
https = "0.0.0.0:9443"
issuer = "https://control.example:9443/oauth2/token"
admin_password = { env = "PENSTOCK_ADMIN_PASSWORD" }
"#,
    ),
    (
        "control.scope",
        r#"[[control.scope]]
name = "orders:write"
roles = ["clerk"]
"#,
    ),
    (
        "control.trusted_issuer",
        r#"[[control.trusted_issuer]]
name = "partner"
iss = "https://partner.example"
jwks = "https://partner.example/keys"
"#,
    ),
    (
        "control.ldap",
        r#"[control.ldap]
urls = ["ldaps://ldap.example.org"]
bind_dn = "cn=penstock,dc=example,dc=org"
bind_password = { env = "LDAP_PASSWORD" }
base = "ou=people,dc=example,dc=org"
claim = [{ name = "email", from = "mail" }]
role = [{ name = "admin", groups = ["cn=operators,ou=groups,dc=example,dc=org"] }]
"#,
    ),
    (
        "control.provider",
        r#"[[control.provider]]
name = "corp"
title = "Corporate account"
issuer = "https://id.example/realms/staff"
client_id = "penstock"
client_secret = { env = "CORP_CLIENT_SECRET" }
scopes = ["profile", "email"]
role = [{ name = "reader", groups = ["/staff/readers"] }]
"#,
    ),
    (
        "store",
        r#"[store]
url = "sqlite:penstock.db"        # or { env = "DATABASE_URL" } with postgres://... or mysql://...
"#,
    ),
    (
        "quotas",
        r#"[quotas]
redis = "rediss://redis.example:6379"
password = { env = "REDIS_PASSWORD" }
when_down = "local"
"#,
    ),
    (
        "backend_jwt",
        r#"[backend_jwt]
key = { file = "backend.pem" }
"#,
    ),
    (
        "snapshot",
        r#"[snapshot]
directory = "snapshots"
"#,
    ),
    (
        "upstream_tls",
        r#"[upstream_tls]
ca = ["internal-ca.pem"]          # besides the authorities of the operating system
"#,
    ),
    (
        "upstream_tls.endpoint",
        r#"[[upstream_tls.endpoint]]
hosts = ["orders.internal", "*.payments.internal"]
cert = "gateway.crt"
key = "gateway.key"
"#,
    ),
    (
        "access_log",
        r#"[access_log]
to = "file"
file = "/var/log/penstock/access.log"
"#,
    ),
    (
        "log",
        r#"[log]
level = "info"
format = "json"
"#,
    ),
    (
        "issuer",
        r#"[[issuer]]
issuer = "https://idp.example/realms/a"    # keys and endpoints by its discovery document
audiences = ["orders"]

[[issuer]]
name = "control"                           # or each of them by itself
iss = "https://control.example:9443/oauth2/token"
jwks = "https://control.example:9443/oauth2/jwks"
"#,
    ),
    (
        "credential",
        r#"[[credential]]
name = "orders"
type = "basic"
username = "gateway"
password = { file = "orders.password" }

[[credential]]
name = "stock"
type = "oauth2"
token_url = "https://idp.example/token"
client_id = "gateway"
client_secret = { env = "STOCK_SECRET" }
"#,
    ),
    (
        "vault",
        r#"[vault]
url = "https://vault.internal:8200"
approle = { role_id = "gateway", secret_id = { file = "vault.secret-id" } }
"#,
    ),
    (
        "login",
        r#"[[login]]
name = "staff"
issuer = "https://idp.example/realms/a"    # an [[issuer]] as well
client_id = "gateway"
client_secret = { env = "LOGIN_SECRET" }
scopes = ["offline_access"]
"#,
    ),
    (
        "user",
        r#"[[user]]
name = "ann"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
scopes = ["orders:read"]
"#,
    ),
    (
        "plan",
        r#"[[plan]]
name = "Gold"
limits = [{ requests = 5000, per = "1m" }, { kilobytes = 100000, per = "1h" }]
burst = { requests = 50, per = "1s" }
"#,
    ),
    (
        "custom",
        r#"[[custom]]
plan = "Gold"
api = "/orders/1.0"
"#,
    ),
    (
        "deny",
        r#"[[deny]]
addresses = ["192.0.2.0/24"]
"#,
    ),
    (
        "application",
        r#"[application]
name = "orders"
owner = "admin"
plan = "50PerMin"
keys = [{ client_id = "tIXQ9zvWz0jVQqXzB2lW", type = "production" }]
subscriptions = [{ api = "Echo", version = "1.0.0", plan = "Gold" }]
"#,
    ),
];
