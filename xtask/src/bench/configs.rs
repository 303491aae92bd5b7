//! The configuration of each target, as fast as we can make it, so that the comparison is fair: one worker, unlimited
//! keep-alive on both sides, no access log, bodies in memory, the same certificate.

use super::targets::Variant;
use super::test_bed::{ISSUER, SCOPE, TestBed};

/// The ports of a target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) clear: u16,
    pub(crate) tls: u16,
    pub(crate) admin: u16,
}

/// Penstock with its defaults; nothing is turned off.
pub(crate) fn penstock(bed: &TestBed, ports: Ports, workers: u32) -> String {
    let Ports { clear, tls, admin } = ports;
    format!(
        r#"[gateway]
http = "127.0.0.1:{clear}"
https = "127.0.0.1:{tls}"
workers = {workers}
apis = ["apis/"]
data = "data/"
[tls]
cert = "{}"
key = "{}"
[admin]
listen = "127.0.0.1:{admin}"
[[issuer]]
name = "bench"
iss = "{ISSUER}"
pem = "{}"
algorithms = ["RS256"]
"#,
        bed.certificate.display(),
        bed.certificate_key.display(),
        bed.token_public_key.display(),
    )
}

/// The measured path, of an API in the middle, so that a lookup does not benefit from it being first or last.
pub(crate) fn path(variant: &Variant) -> String {
    format!("/orders-{:04}/1.0.0/orders", variant.apis / 2)
}

/// An API with `operations` operations, at least four; one of the first four is measured.
pub(crate) fn api(bed: &TestBed, number: u32, operations: u32) -> String {
    let more: String = (4..operations).map(more_operation).collect();
    api_with(number, bed.backend_port, &more)
}

/// An edition of an API. Only this edition has the operation `GET /edition-{edition}`.
pub(crate) fn edition(number: u32, operations: u32, backend_port: u16, edition: u32) -> String {
    let more: String = (5..operations).map(more_operation).collect();
    let own = format!(
        r#"  /edition-{edition}:
    get:
      security:
        - default: []
      responses: {{"200": {{description: this edition is live}}}}
"#
    );
    api_with(number, backend_port, &(own + &more))
}

fn api_with(number: u32, backend_port: u16, more: &str) -> String {
    format!(
        r#"openapi: 3.0.3
info:
  title: Orders {number:04}
  version: 1.0.0
x-wso2-basePath: /orders-{number:04}/1.0.0
x-wso2-production-endpoints:
  urls:
    - http://127.0.0.1:{backend_port}/
paths:
  /orders:
    get:
      security:
        - default: []
      responses: {{"200": {{description: all orders}}}}
    post:
      security:
        - default: ["{SCOPE}"]
      responses: {{"201": {{description: the order}}}}
  /orders/{{id}}:
    get:
      security:
        - default: []
      responses: {{"200": {{description: one order}}}}
    delete:
      security:
        - default: ["{SCOPE}"]
      responses: {{"204": {{description: gone}}}}
{more}components:
  securitySchemes:
    default:
      type: oauth2
      flows:
        clientCredentials:
          tokenUrl: https://bench.example/oauth2/token
          scopes:
            "{SCOPE}": change orders
"#
    )
}

fn more_operation(number: u32) -> String {
    format!(
        r#"  /reports/{number}/{{period}}:
    get:
      security:
        - default: []
      responses: {{"200": {{description: a report}}}}
"#
    )
}

/// The fastest of six configurations tried: responses are not buffered (`proxy_buffering off`), and one buffer holds
/// the largest measured body. The default buffers cost up to 17 % more at 10 KiB; larger or more buffers gain nothing.
/// Nothing is written to a file. Request buffering makes no difference and keeps its default.
pub(crate) fn nginx(bed: &TestBed, ports: Ports) -> String {
    let Ports { clear, tls, .. } = ports;
    let folder = bed.folder.join("nginx");
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 8192; use epoll; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  tcp_nodelay on;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  client_max_body_size 10m;
  client_body_buffer_size 128k;
  client_header_buffer_size 4k;
  upstream backend {{
    server 127.0.0.1:{};
    keepalive 2048;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
  }}
  server {{
    listen 127.0.0.1:{clear} backlog=4096;
    listen 127.0.0.1:{tls} ssl backlog=4096;
    ssl_certificate {};
    ssl_certificate_key {};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:tls:10m;
    location / {{
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_buffer_size 128k;
      proxy_buffers 32 8k;
      proxy_busy_buffers_size 128k;
      proxy_max_temp_file_size 0;
    }}
  }}
}}
",
        bed.backend_port,
        bed.certificate.display(),
        bed.certificate_key.display(),
    )
}

/// `jwt`: verifies tokens as shown in HAProxy's manual: algorithm, signature, issuer, lifetime.
pub(crate) fn haproxy(bed: &TestBed, ports: Ports, jwt: bool) -> String {
    let Ports { clear, tls, .. } = ports;
    let verify = if jwt { haproxy_jwt(bed) } else { String::new() };
    format!(
        "global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout client 1h
  timeout server 1h
  timeout connect 5s
  timeout http-keep-alive 1h
  timeout http-request 15s
  http-reuse always
frontend all
  bind 127.0.0.1:{clear} backlog 4096
  bind 127.0.0.1:{tls} backlog 4096 ssl crt {} alpn http/1.1
{verify}  default_backend echo
backend echo
  server echo 127.0.0.1:{} pool-max-conn -1 pool-purge-delay 1h
",
        bed.certificate_pair.display(),
        bed.backend_port,
    )
}

fn haproxy_jwt(bed: &TestBed) -> String {
    format!(
        "  http-request set-var(txn.bearer) http_auth_bearer
  http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg')
  http-request deny deny_status 401 unless {{ var(txn.alg) -m str RS256 }}
  http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_payload_query('$.iss') -m str {ISSUER} }}
  http-request deny deny_status 401 unless {{ var(txn.bearer),jwt_verify(txn.alg,\"{}\") 1 }}
  http-request set-var(txn.exp) var(txn.bearer),jwt_payload_query('$.exp','int')
  http-request set-var(txn.now) date()
  http-request deny deny_status 401 if {{ var(txn.exp),sub(txn.now) -m int lt 0 }}
",
        bed.token_public_key.display()
    )
}

/// `jwt`: verifies tokens with the jwt_authn filter and a token cache large enough for all of them.
///
/// # Errors
/// The JWKS cannot be read.
pub(crate) fn envoy(bed: &TestBed, ports: Ports, jwt: bool) -> Result<String, String> {
    let filter = if jwt { envoy_jwt(bed)? } else { String::new() };
    let clear = envoy_listener("clear", ports.clear, &filter, "");
    let tls = envoy_listener("tls", ports.tls, &filter, &envoy_tls(bed));
    Ok(format!(
        "static_resources:
  listeners:
{clear}{tls}  clusters:
  - name: echo
    type: STATIC
    connect_timeout: 5s
    circuit_breakers:
      thresholds: [{{max_connections: 8192, max_pending_requests: 8192, max_requests: 8192}}]
    load_assignment:
      cluster_name: echo
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}
",
        bed.backend_port
    ))
}

fn envoy_listener(name: &str, port: u16, filter: &str, transport: &str) -> String {
    format!(
        "  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {name}
          codec_type: HTTP1
          generate_request_id: false
          stream_idle_timeout: 0s
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{prefix: /}}
                route: {{cluster: echo, timeout: 0s}}
          http_filters:
{filter}          - name: router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{transport}"
    )
}

fn envoy_tls(bed: &TestBed) -> String {
    format!(
        "      transport_socket:
        name: tls
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [http/1.1]
            tls_params: {{tls_maximum_protocol_version: TLSv1_3}}
            tls_certificates:
            - certificate_chain: {{filename: {}}}
              private_key: {{filename: {}}}
",
        bed.certificate.display(),
        bed.certificate_key.display()
    )
}

fn envoy_jwt(bed: &TestBed) -> Result<String, String> {
    let jwks = super::test_bed::read(&bed.token_jwks)?;
    Ok(format!(
        "          - name: jwt
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
                bench:
                  issuer: {ISSUER}
                  forward: true
                  local_jwks: {{inline_string: '{jwks}'}}
                  jwt_cache_config: {{jwt_cache_size: 8192}}
              rules:
              - match: {{prefix: /}}
                requires: {{provider_name: bench}}
"
    ))
}
