//! The thinnest path: a request through a running gateway to a real backend and back.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use base::Method;
use model::*;
use penstock_gateway::{Gateway, Parts, Texts};
use wire::tls::{CertificateSet, ClientTls, ServerCertificates};

fn settings() -> Settings {
    Settings {
        gateway: GatewaySettings {
            http: Some("127.0.0.1:0".parse().unwrap()),
            https: None,
            workers: Some(1),
            apis: vec![],
            data: "/nonexistent".into(),
            trusted_proxies: vec![],
            fault_status: FaultStatus::Wso2,
            drain_s: 1,
            response_head_ms: 5000,
            connect_ms: 1000,
            stall_ms: 5000,
            head_ms: 5000,
            idle_ms: 5000,
            connections_max: 100,
        },
        tls: TlsSettings::default(),
        admin: AdminSettings { listen: None },
        upstream_tls: UpstreamTls::default(),
        access_log: AccessLog::Off,
        log: LogSettings { level: "info".into(), format: LogFormat::Text },
        issuers: vec![],
    }
}

#[test]
fn a_request_passes_through_and_back() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = backend.local_addr().unwrap().port();
    let api = Api {
        name: "echo".into(),
        version: "1.0.0".into(),
        base_path: "/echo/1.0.0".into(),
        default_path: None,
        hosts: vec![],
        transports: Transports { http: true, https: true },
        auth_header: "authorization".into(),
        forward_auth_header: false,
        cors: None,
        upgrades: vec![],
        operations: vec![Operation {
            method: Method::Post,
            template: "/*".into(),
            security: Security::Open,
            production: None,
            sandbox: None,
        }],
        upstreams: vec![Upstream {
            kind: UpstreamKind::Single,
            endpoints: vec![Endpoint {
                scheme: Scheme::Http,
                host: "127.0.0.1".into(),
                port,
                path: "/base".into(),
                authority: format!("127.0.0.1:{port}"),
            }],
            response_head_ms: 5000,
            suspension: Suspension::default(),
        }],
        production: Some(0),
        sandbox: None,
        source: "x".into(),
    };
    let snapshot = Snapshot {
        revision: 1,
        apis: vec![LoadedApi { api: Arc::new(api), state: ApiState::Serving }],
        issuers: vec![],
    };
    let parts = Parts {
        certificates: Arc::new(ServerCertificates::new(
            CertificateSet::load(None, vec![]).unwrap(),
        )),
        client_tls: ClientTls::insecure(),
        texts: Texts { diagnostics: Box::new(String::new), metrics: Box::new(String::new) },
        build: "test",
    };
    let gateway = Gateway::start(&settings(), &snapshot, parts).unwrap();
    let mut client = TcpStream::connect(gateway.addresses().http.unwrap()).unwrap();
    client
        .write_all(
            b"POST /echo/1.0.0/a?b=c HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\nX-Y: z\r\n\r\nhi",
        )
        .unwrap();
    let (mut server, _) = backend.accept().unwrap();
    let mut got = [0; 4096];
    let n = server.read(&mut got).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&got[..n]),
        format!(
            "POST /base/a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Y: z\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: me\r\nContent-Length: 2\r\n\r\nhi"
        )
    );
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    let n = client.read(&mut got).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&got[..n]),
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    );
    assert!(gateway.drain() || true);
}
