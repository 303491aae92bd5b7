use std::io;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::client::ClientConfig;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// 2026-01-01, in seconds since the Unix epoch.
const NEW_YEAR_2026_S: u64 = 1_767_225_600;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A leaf for `hosts`, valid from and until the first of January of two years.
fn leaf(authority: &Authority, hosts: &[&str], years: (i32, i32)) -> (Vec<u8>, Vec<u8>) {
    let names = hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
}

const LONG: (i32, i32) = (2020, 2090);

fn trusting(authority: &Authority) -> Arc<ClientTls> {
    ClientTls::new(&[authority.pem().into_bytes()], false).unwrap()
}

fn serving(default: &(Vec<u8>, Vec<u8>), sni: Vec<SniPair>) -> Arc<ServerCertificates> {
    let set = CertificateSet::load(Some((&default.0, &default.1)), sni).unwrap();
    Arc::new(ServerCertificates::new(set))
}

/// Both ends of one handshake over a loopback socket.
async fn shake(
    client: &ClientTls,
    config: &Arc<rustls::ServerConfig>,
    name: &str,
) -> (io::Result<Stream>, io::Result<Stream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connect = async {
        let tcp = TcpStream::connect(address).await?;
        client.connect(tcp, name).await
    };
    let serve = async {
        let (tcp, _) = listener.accept().await?;
        accept(tcp, Arc::clone(config)).await
    };
    tokio::join!(connect, serve)
}

async fn connected(
    client: &ClientTls,
    config: &Arc<rustls::ServerConfig>,
    name: &str,
) -> (Stream, Stream) {
    let (near, far) = shake(client, config, name).await;
    (near.unwrap(), far.unwrap())
}

fn session(stream: &Stream) -> &rustls::CommonState {
    let Stream::Tls(tls) = stream else { panic!("not TLS") };
    tls.get_ref().1
}

fn socket(stream: &Stream) -> &TcpStream {
    stream.clear().unwrap_or_else(|| {
        let Stream::Tls(tls) = stream else { panic!("no socket") };
        tls.get_ref().0
    })
}

async fn exchange(near: &mut Stream, far: &mut Stream) {
    let mut got = [0; 4];
    near.write_all(b"ping").await.unwrap();
    near.flush().await.unwrap();
    far.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"ping");
    far.write_all(b"pong").await.unwrap();
    far.flush().await.unwrap();
    near.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"pong");
}

/// A client that supports one version only and offers `alpn`.
fn client_of(
    version: &'static SupportedProtocolVersion,
    root: CertificateDer<'static>,
    alpn: &[&str],
) -> ClientTls {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    ClientTls::from_client_config(config)
}

#[tokio::test]
async fn both_versions_work_and_resume_sessions() {
    check(&TLS12, ProtocolVersion::TLSv1_2).await;
    check(&TLS13, ProtocolVersion::TLSv1_3).await;

    async fn check(version: &'static SupportedProtocolVersion, expect: ProtocolVersion) {
        let authority = authority("root");
        let pair = leaf(&authority, &["a.test"], LONG);
        let config = server_config(serving(&pair, Vec::new()), true);
        let client = client_of(version, authority.der().clone(), &["http/1.1"]);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let (mut near, mut far) = connected(&client, &config, "a.test").await;
            exchange(&mut near, &mut far).await;
            assert_eq!(session(&far).protocol_version(), Some(expect));
            assert_eq!(session(&far).handshake_kind(), Some(kind), "{expect:?}");
            assert!(near.is_secure() && far.is_secure());
        }
    }
}

#[tokio::test]
async fn no_session_is_resumed_where_clients_have_certificates() {
    for version in [&TLS12, &TLS13] {
        let authority = authority("root");
        let pair = leaf(&authority, &["a.test"], LONG);
        let clients = ClientAuth::new(&[authority.pem().into_bytes()], false).unwrap();
        let config = server_config_for(serving(&pair, Vec::new()), true, Some(&clients));
        let client = client_of(version, authority.der().clone(), &["http/1.1"]);
        for _ in 0..2 {
            let (mut near, mut far) = connected(&client, &config, "a.test").await;
            exchange(&mut near, &mut far).await;
            assert_eq!(session(&far).handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

#[test]
fn a_certificate_that_is_listed_itself_is_accepted_while_it_is_valid() {
    const NOW_S: u64 = 1_800_000_000;
    // A CA, as `openssl req -x509` makes them.
    let [own, other] = ["client", "client"].map(authority);
    for clients in [
        ClientAuth::new(&[own.pem().into_bytes()], false).unwrap(),
        ClientAuth::of_issuers(&[own.der().to_vec()]).unwrap(),
    ] {
        assert!(clients.has_issued(&[own.der().clone()], NOW_S));
        assert!(!clients.has_issued(&[other.der().clone()], NOW_S));
        assert!(!clients.has_issued(&[own.der().clone()], 0), "before it is valid");
        assert!(!clients.has_issued(&[own.der().clone()], u64::MAX / 2), "after that");
    }
}

#[tokio::test]
async fn alpn_selects_the_first_server_protocol_that_the_client_supports() {
    //    h2 enabled  client's list    negotiated
    check(true, &["http/1.1", "h2"], Some("h2")).await;
    check(true, &["http/1.1"], Some("http/1.1")).await;
    check(true, &[], None).await;
    check(false, &["h2", "http/1.1"], Some("http/1.1")).await;
    check(true, &["spdy/3"], Some("rejected")).await;

    async fn check(alpn_h2: bool, offered: &[&str], expect: Option<&str>) {
        let authority = authority("root");
        let pair = leaf(&authority, &["a.test"], LONG);
        let config = server_config(serving(&pair, Vec::new()), alpn_h2);
        let client = client_of(&TLS13, authority.der().clone(), offered);
        let agreed = match shake(&client, &config, "a.test").await.1 {
            Ok(far) => far.alpn().map(|name| String::from_utf8(name.to_vec()).unwrap()),
            Err(_) => Some("rejected".to_owned()),
        };
        assert_eq!(agreed.as_deref(), expect, "offered {offered:?}");
    }
}

#[tokio::test]
async fn the_certificate_is_selected_by_sni() {
    let authority = authority("root");
    let default = leaf(&authority, &["default.test"], LONG);
    let exact = leaf(&authority, &["api.a.test"], LONG);
    let wild = leaf(&authority, &["*.a.test"], LONG);
    let pair = |hosts: &[&str], pair: &(Vec<u8>, Vec<u8>)| {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        (hosts, pair.0.clone(), pair.1.clone())
    };
    let sni = vec![pair(&["API.a.test", "other.test"], &exact), pair(&["*.A.test"], &wild)];
    let config = server_config(serving(&default, sni), true);
    let client = ClientTls::insecure();
    let table = [
        ("api.a.test", "exact", &exact),
        ("Api.A.Test", "exact", &exact),
        ("other.test", "exact", &exact),
        ("shop.a.test", "wild", &wild),
        ("SHOP.A.TEST", "wild", &wild),
        ("deep.shop.a.test", "default", &default),
        ("a.test", "default", &default),
        ("elsewhere.test", "default", &default),
        ("127.0.0.1", "default", &default),
    ];
    for (name, which, expect) in table {
        let (near, _far) = connected(&client, &config, name).await;
        let shown = session(&near).peer_certificates().unwrap().first().unwrap();
        let expect = CertificateDer::from_pem_slice(&expect.0).unwrap();
        assert_eq!(*shown, expect, "{name} should be shown {which}");
    }
}

#[tokio::test]
async fn without_a_default_an_unknown_name_is_rejected() {
    let authority = authority("root");
    let (cert, key) = leaf(&authority, &["a.test"], LONG);
    let set = CertificateSet::load(None, vec![(vec!["a.test".to_owned()], cert, key)]).unwrap();
    let config = server_config(Arc::new(ServerCertificates::new(set)), true);
    let client = trusting(&authority);
    connected(&client, &config, "a.test").await;
    assert!(shake(&client, &config, "b.test").await.1.is_err());
}

#[tokio::test]
async fn a_new_set_applies_to_new_handshakes_only() {
    let authority = authority("root");
    let (old, new) = (leaf(&authority, &["a.test"], LONG), leaf(&authority, &["a.test"], LONG));
    let certs = serving(&old, Vec::new());
    let config = server_config(Arc::clone(&certs), true);
    let client = ClientTls::insecure();
    let (mut near, mut far) = connected(&client, &config, "a.test").await;

    certs.replace(CertificateSet::load(Some((&new.0, &new.1)), Vec::new()).unwrap());

    exchange(&mut near, &mut far).await;
    // A client without a session of the old set, so that the handshake includes a certificate.
    let (later, _far) = connected(&ClientTls::insecure(), &config, "a.test").await;
    let shown = session(&later).peer_certificates().unwrap().first().unwrap();
    assert_eq!(*shown, CertificateDer::from_pem_slice(&new.0).unwrap());
}

#[tokio::test]
async fn a_server_needs_a_valid_certificate_for_its_name_from_a_trusted_ca() {
    let (known, unknown) = (authority("known"), authority("unknown"));
    check(&known, leaf(&known, &["api.a.test"], LONG), "ok").await;
    check(&known, leaf(&known, &["*.a.test"], LONG), "ok").await;
    check(&known, leaf(&known, &["b.test"], LONG), "NotValidForName").await;
    check(&known, leaf(&known, &["api.a.test"], (2000, 2001)), "Expired").await;
    check(&known, leaf(&known, &["api.a.test"], (2089, 2090)), "NotValidYet").await;
    check(&known, leaf(&unknown, &["api.a.test"], LONG), "UnknownIssuer").await;

    async fn check(trusted: &Authority, pair: (Vec<u8>, Vec<u8>), expect: &str) {
        let config = server_config(serving(&pair, Vec::new()), true);
        let outcome = match shake(&trusting(trusted), &config, "api.a.test").await.0 {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        assert!(outcome.contains(expect), "{outcome} instead of {expect}");
        // The lab's client accepts all of them.
        connected(&ClientTls::insecure(), &config, "api.a.test").await;
    }
}

/// A server that requires a client certificate issued by `clients`.
fn requiring(
    server: &(Vec<u8>, Vec<u8>),
    clients: &Authority,
    version: &'static SupportedProtocolVersion,
) -> Arc<rustls::ServerConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(clients.pem().as_bytes()).unwrap()).unwrap();
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_cert_resolver(serving(server, Vec::new()));
    Arc::new(config)
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_certificate_is_sent_to_the_hosts_that_it_is_configured_for() {
    let (servers, clients, others) = (authority("servers"), authority("clients"), authority("o"));
    let server = leaf(&servers, &["one.test", "two.test", "a.sub.test", "127.0.0.1"], LONG);
    let endpoint = |hosts: &[&str], identity| EndpointTls {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        identity: Some(identity),
        ca_pems: Vec::new(),
    };
    let ours = endpoint(&["One.test", "*.sub.test", "127.0.0.1"], leaf(&clients, &["us"], LONG));
    let wrong = endpoint(&["two.test"], leaf(&others, &["us"], LONG));
    let roots = [servers.pem().into_bytes()];
    let client = ClientTls::with_endpoints(&roots, false, &[ours, wrong]).unwrap();
    for version in [&TLS12, &TLS13] {
        let config = requiring(&server, &clients, version);
        for name in ["one.test", "a.sub.test", "127.0.0.1"] {
            let (mut near, mut far) = connected(&client, &config, name).await;
            exchange(&mut near, &mut far).await;
            assert_eq!(session(&far).peer_certificates().unwrap().len(), 1, "{name}");
        }
        let (_, rejected) = shake(&client, &config, "two.test").await;
        assert!(rejected.is_err(), "of another CA");
        let (_, rejected) = shake(&trusting(&servers), &config, "one.test").await;
        assert!(rejected.is_err(), "none");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_endpoint_may_have_cas_of_its_own() {
    let (general, own) = (authority("general"), authority("own"));
    let config = |authority| {
        server_config(serving(&leaf(authority, &["own.test", "x.test"], LONG), Vec::new()), false)
    };
    let endpoint = EndpointTls {
        hosts: vec!["own.test".to_owned()],
        identity: None,
        ca_pems: vec![own.pem().into_bytes()],
    };
    let roots = [general.pem().into_bytes()];
    let client = ClientTls::with_endpoints(&roots, false, &[endpoint]).unwrap();
    for (issuer, name, works) in [
        (&own, "own.test", true),
        (&general, "own.test", false),
        (&general, "x.test", true),
        (&own, "x.test", false),
    ] {
        let (near, _) = shake(&client, &config(issuer), name).await;
        assert_eq!(near.is_ok(), works, "{name}");
    }
}

#[test]
fn an_invalid_part_of_an_endpoint_is_named_by_its_hosts() {
    let authority = authority("a");
    let (cert, key) = leaf(&authority, &["us"], LONG);
    let (_, other_key) = leaf(&authority, &["us"], LONG);
    let hosts = || vec!["a.test".to_owned(), "b.test".to_owned()];
    let reject = |identity, ca_pems| {
        let endpoint = EndpointTls { hosts: hosts(), identity, ca_pems };
        let roots = [authority.pem().into_bytes()];
        let error = ClientTls::with_endpoints(&roots, false, &[endpoint]).err().unwrap();
        assert!(error.to_string().contains("`a.test, b.test`"), "{error}");
        error
    };
    assert!(matches!(reject(Some((cert, other_key)), vec![]), TlsError::KeyMismatch { .. }));
    assert!(matches!(reject(Some((b"x".to_vec(), key)), vec![]), TlsError::NoCertificate { .. }));
    assert!(matches!(reject(None, vec![b"x".to_vec()]), TlsError::BadEndpointRoot { .. }));
}

#[tokio::test]
async fn an_invalid_server_name_is_rejected_before_a_byte_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for name in ["", "under score!.test", "[::1", "a b"] {
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let error = ClientTls::insecure().connect(tcp, name).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
    }
}

#[tokio::test]
async fn a_generated_certificate_is_valid_for_its_hosts_once_trusted() {
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let hosts = ["localhost", "127.0.0.1", "::1"];
    let (cert, key) = generate_self_signed(&hosts, now_s).unwrap();
    let client = ClientTls::new(&[cert.clone().into_bytes()], false).unwrap();
    let pair = (cert.into_bytes(), key.into_bytes());
    let config = server_config(serving(&pair, Vec::new()), true);
    for host in ["localhost", "127.0.0.1", "::1", "[::1]"] {
        let (mut near, mut far) = connected(&client, &config, host).await;
        exchange(&mut near, &mut far).await;
    }
    assert!(shake(&client, &config, "example.org").await.0.is_err());
    assert!(matches!(generate_self_signed(&["no host"], now_s), Err(TlsError::BadHost { .. })));
}

#[test]
fn lapses_name_the_pair_and_the_time() {
    let (cert, key) = generate_self_signed(&["localhost"], NEW_YEAR_2026_S).unwrap();
    let set = CertificateSet::load(Some((cert.as_bytes(), key.as_bytes())), Vec::new()).unwrap();
    let from_s = NEW_YEAR_2026_S - 3_600;
    let since_s = NEW_YEAR_2026_S + 365 * 86_400;
    for (now_s, expect) in [
        (from_s - 1, Some(Lapse::NotYet { from_s })),
        (from_s, None),
        (since_s, None),
        (since_s + 1, Some(Lapse::Expired { since_s })),
    ] {
        let expect = expect.map(|lapse| ("default".to_owned(), lapse));
        assert_eq!(set.lapses(now_s), Vec::from_iter(expect), "at {now_s}");
    }
}

#[test]
fn an_invalid_pair_is_an_error_that_names_it() {
    let authority = authority("root");
    let (cert, key) = leaf(&authority, &["a.test"], LONG);
    let (_, other_key) = leaf(&authority, &["a.test"], LONG);
    let no_end = &cert[..cert.len() / 2];
    let not_x509 = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let not_key = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let no_base64 = b"-----BEGIN PRIVATE KEY-----\n!secret!\n-----END PRIVATE KEY-----\n";

    check(&cert, &key, "ok");
    check(&cert, &other_key, "KeyMismatch");
    check(b"", &key, "NoCertificate");
    check(&key, &key, "NoCertificate");
    check(&cert, b"", "NoKey");
    check(&cert, &cert, "NoKey");
    check(no_end, &key, "BrokenPem certificate");
    check(not_x509, &key, "BrokenCertificate");
    check(&cert, not_key, "UnusableKey");
    check(&cert, no_base64, "BrokenPem key");

    fn check(cert: &[u8], key: &[u8], expect: &str) {
        let result = CertificateSet::load(Some((cert, key)), Vec::new()).map(drop);
        assert_eq!(kind(&result), expect);
        if let Err(error) = result {
            let message = error.to_string();
            assert!(message.contains("`default`"), "{message}");
            assert!(!message.contains("secret"), "key material in a message: {message}");
        }
    }
}

#[test]
fn a_host_is_a_name_or_a_wildcard_with_one_certificate() {
    check(&["a.test", "*.a.test", "b.test"], "ok");
    check(&["a.test", "A.TEST"], "DuplicateHost A.TEST");
    check(&["*.a.test", "*.A.test"], "DuplicateHost *.A.test");
    for host in ["*", "*.", "", "a.*.test", "*a.test", "127.0.0.1", "a test"] {
        check(&[host], &format!("BadHost {host}"));
    }

    fn check(hosts: &[&str], expect: &str) {
        let (cert, key) = generate_self_signed(&["a.test"], NEW_YEAR_2026_S).unwrap();
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        let sni = vec![(hosts, cert.into_bytes(), key.into_bytes())];
        assert_eq!(kind(&CertificateSet::load(None, sni).map(drop)), expect);
    }
}

#[test]
fn no_trusted_ca_is_an_error() {
    check(&[], "NoRoots");
    check(&[b""], "BadRoot 0");
    let root = authority("root").pem().into_bytes();
    check(&[&root, b"-----BEGIN CERTIFICATE-----\n"], "BadRoot 1");
    check(&[&root], "ok");

    fn check(pems: &[&[u8]], expect: &str) {
        let pems = pems.iter().map(|pem| pem.to_vec()).collect::<Vec<_>>();
        assert_eq!(kind(&ClientTls::new(&pems, false).map(drop)), expect);
    }
}

/// The kind of error, and its distinguishing part.
fn kind(result: &Result<(), TlsError>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(TlsError::NoCertificate { .. }) => "NoCertificate".to_owned(),
        Err(TlsError::NoKey { .. }) => "NoKey".to_owned(),
        Err(TlsError::BrokenPem { part, .. }) => format!("BrokenPem {part}"),
        Err(TlsError::BrokenCertificate { .. }) => "BrokenCertificate".to_owned(),
        Err(TlsError::UnusableKey { .. }) => "UnusableKey".to_owned(),
        Err(TlsError::KeyMismatch { .. }) => "KeyMismatch".to_owned(),
        Err(TlsError::BadHost { host }) => format!("BadHost {host}"),
        Err(TlsError::DuplicateHost { host }) => format!("DuplicateHost {host}"),
        Err(TlsError::BadEndpointRoot { .. }) => "BadEndpointRoot".to_owned(),
        Err(TlsError::BadRoot { index, .. }) => format!("BadRoot {index}"),
        Err(TlsError::NoRoots { .. }) => "NoRoots".to_owned(),
        Err(TlsError::Generate(_)) => "Generate".to_owned(),
    }
}

#[tokio::test]
async fn an_idle_connection_is_stale_once_the_peer_closes_or_sends() {
    for secure in [false, true] {
        let authority = authority("root");
        let pair = leaf(&authority, &["a.test"], LONG);
        let config = server_config(serving(&pair, Vec::new()), true);
        let client = trusting(&authority);
        let pair = async || {
            if secure {
                return connected(&client, &config, "a.test").await;
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
            (Stream::Clear(near.unwrap()), Stream::Clear(far.unwrap().0))
        };

        let (mut near, mut far) = pair().await;
        if secure {
            // The session tickets after a handshake do not make the connection stale.
            socket(&near).readable().await.unwrap();
        }
        assert!(!near.is_stale(), "idle, secure: {secure}");
        exchange(&mut near, &mut far).await;
        assert!(!near.is_stale(), "idle after an exchange, secure: {secure}");
        far.write_all(b"x").await.unwrap();
        far.flush().await.unwrap();
        socket(&near).readable().await.unwrap();
        assert!(near.is_stale(), "unexpected bytes, secure: {secure}");

        let (mut near, mut far) = pair().await;
        exchange(&mut near, &mut far).await;
        drop(far);
        socket(&near).readable().await.unwrap();
        assert!(near.is_stale(), "closed, secure: {secure}");
    }
}

#[test]
fn a_clients_certificate_has_only_the_names_that_it_lists() {
    let hosts = ["a.example", "*.b.example", "127.0.0.9"];
    let (pem, _) = leaf(&authority("ca"), &hosts, (2020, 2100));
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    for (name, expect) in [
        ("a.example", true),
        ("A.Example", true),
        ("127.0.0.9", true),
        ("c.a.example", false),
        ("a.b.example", false),
        ("*.b.example", false),
        ("127.0.0.1", false),
        ("ca", false),
        ("", false),
    ] {
        assert_eq!(has_name(&certificate, name), expect, "{name}");
    }
}
