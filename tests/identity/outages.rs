//! The key manager, its database, or both are killed (`kill -9`) and restarted under load: gateways go on serving every
//! credential that they know, and nothing that was acknowledged is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use harness::{Client, PATIENCE, Process, Response, Upstream, wait_until};
use serde_json::{Value, json};

use crate::applications::{self, ADMIN};
use crate::key_manager::{KeyManager, PASSWORD, basic};
use crate::revocations;
use crate::servers::Server;

const API_KEY: &str = "a-long-random-text";
/// Requests of each connection to a gateway between two events.
const REQUESTS: u64 = 40;
/// Acknowledged writes of each writer before something is killed.
const WRITES: usize = 4;

#[test]
fn known_credentials_work_and_nothing_is_lost_while_the_key_manager_is_killed() {
    survives(KeyManager::start(), None);
}

/// Outages of `manager`, and of its database if that is a `server`.
pub(crate) fn survives(mut manager: KeyManager, mut server: Option<&mut Server>) {
    let own = manager.register(
        "gateway",
        json!({ "grantType": "client_credentials password", "tokenScope": "penstock_gateway" }),
    );
    let [jwt, opaque] = ["JWT", "OAUTH"].map(|kind| {
        let login = manager.register(kind, json!({ "tokenType": kind }));
        let issued = manager.token((&login.0, &login.1), "grant_type=client_credentials");
        (login, issued["access_token"].as_str().unwrap().to_owned())
    });
    subscribe(&manager, &[&jwt.0.0, &opaque.0.0]);
    let upstream = Upstream::fixed("from the upstream");
    let gateways = [(); 2].map(|()| gateway(&manager, (&own.0, &own.1), &upstream));
    let addresses = gateways.each_ref().map(|(_, process)| process.address("http"));
    let password = BASE64_STANDARD.encode(format!("admin:{PASSWORD}"));
    let known = [
        format!("Authorization: Bearer {}\r\n", jwt.1),
        format!("Authorization: Bearer {}\r\n", opaque.1),
        format!("apikey: {API_KEY}\r\n"),
        format!("Authorization: Basic {password}\r\n"),
    ];
    let (stop, served) = (AtomicBool::new(false), [(); 2].map(|()| AtomicU64::new(0)));
    let mut acknowledged = Acknowledged::default();
    let manager = thread::scope(|scope| {
        let _stops = Stops(&stop);
        for (address, served) in addresses.iter().zip(&served) {
            let (known, stop) = (&known, &stop);
            scope.spawn(move || {
                let mut client = Client::connect(*address);
                while !stop.load(Ordering::Relaxed) {
                    for credential in known {
                        let response = client.fetch("GET /a/x", credential);
                        assert_eq!(response.status_and_code(), "200", "{credential}");
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more_are_served = || {
            let before = served.each_ref().map(|count| count.load(Ordering::Relaxed));
            for (count, before) in served.iter().zip(before) {
                wait_until(|| count.load(Ordering::Relaxed) >= before + REQUESTS);
            }
        };
        more_are_served();
        let rounds: &[(bool, bool)] = match server {
            None => &[(false, true), (false, true)],
            Some(_) => &[(true, false), (false, true), (true, true)],
        };
        for (round, (of_server, of_manager)) in rounds.iter().enumerate() {
            let writer = |number: usize, done: Sender<()>| Writer {
                client: manager.connect(),
                name: format!("{round}-{number}"),
                logins: [&opaque.0, &jwt.0],
                gateway: addresses[number % 2],
                acknowledged: Acknowledged::default(),
                done,
            };
            let (done, progress) = mpsc::channel();
            let writers = [0, 1, 2].map(|number| {
                let writer = writer(number, done.clone());
                scope.spawn(move || if number == 0 { writer.register() } else { writer.issue() })
            });
            writers.iter().for_each(|_| progress.recv_timeout(PATIENCE).unwrap());
            if *of_manager {
                manager.process.signal(nix::sys::signal::Signal::SIGKILL);
            }
            if let Some(server) = server.as_mut().filter(|_| *of_server) {
                server.kill();
            }
            for writer in writers {
                acknowledged.add(writer.join().unwrap());
            }
            more_are_served();
            if let Some(server) = server.as_mut().filter(|_| *of_server) {
                server.restart();
            }
            if *of_manager {
                manager = manager.stop().start();
            }
            more_are_served();
        }
        manager
    });
    acknowledged.check(&manager, &opaque.0, addresses);
}

/// Ends the load, also when the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn subscribe(manager: &KeyManager, ids: &[&String]) {
    let mut keys: Vec<Value> = ids.iter().map(|id| json!({ "client_id": id })).collect();
    let key = jose::sha256(API_KEY.as_bytes());
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    keys.push(json!({ "api_key_sha256": hex }));
    let subscription = json!({ "api": "A", "version": "1", "plan": "Unlimited" });
    let body = json!({ "owner": "admin", "keys": keys, "subscriptions": [subscription] });
    assert_eq!(applications::send(manager, "PUT", "known", &body).status, 201);
}

/// One that gets everything that it knows from `manager`.
fn gateway(
    manager: &KeyManager,
    login: (&str, &str),
    upstream: &Upstream,
) -> (harness::Files, Process) {
    let origin = format!("https://{}", manager.process.address("https"));
    let passwords = format!(
        "passwords = {{ url = \"{origin}/oauth2/token\", client_id = \"{}\", \
         client_secret = {{ file = \"secret\" }} }}\n[upstream_tls]",
        login.0
    );
    let toml = revocations::toml(manager, login)
        .replace("keys.json", &format!("{origin}/oauth2/jwks"))
        .replace("[upstream_tls]", &passwords);
    let security = "x-wso2-application-security: {security-types: [oauth2, api_key, basic_auth]}";
    let files = applications::files(manager, login, upstream, (security, &toml));
    let process = Process::gateway(&files);
    (files, process)
}

/// A client of the key manager that writes until a request is not acknowledged.
struct Writer<'a> {
    client: Client,
    /// Unique name of the writer.
    name: String,
    /// Logins of clients with opaque tokens and with JWTs.
    logins: [&'a (String, String); 2],
    gateway: SocketAddr,
    acknowledged: Acknowledged,
    done: Sender<()>,
}

#[derive(Default)]
struct Acknowledged {
    clients: Vec<(String, String)>,
    applications: Vec<String>,
    opaque: Vec<String>,
    revoked: Vec<String>,
}

impl Writer<'_> {
    /// The response to a request that succeeds, if there is one.
    fn send(&mut self, request: &str, fields: &str, body: &str) -> Option<Response> {
        self.client.try_send(format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let response = self.client.try_read()?;
        if response.status == 503 {
            return None;
        }
        assert!([200, 201].contains(&response.status), "{request}: {}", response.text());
        Some(response)
    }

    fn post(&mut self, path: &str, login: &(String, String), form: &str) -> Option<Response> {
        let fields = basic(Some((&login.0, &login.1)))
            + "Content-Type: application/x-www-form-urlencoded\r\n";
        self.send(&format!("POST {path}"), &fields, form)
    }

    fn token(&mut self, login: &(String, String)) -> Option<String> {
        let response = self.post("/oauth2/token", login, "grant_type=client_credentials")?;
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        Some(body["access_token"].as_str().unwrap().to_owned())
    }

    /// Registers clients, and stores an application for each.
    fn register(mut self) -> Acknowledged {
        let fields = basic(ADMIN) + "Content-Type: application/json\r\n";
        for number in 0.. {
            let name = format!("{}-{number}", self.name);
            let profile = json!({ "clientName": name, "owner": "admin", "saasApp": true });
            let path = "POST /client-registration/v0.17/register";
            let Some(registered) = self.send(path, &fields, &profile.to_string()) else { break };
            let body: Value = serde_json::from_slice(&registered.body).unwrap();
            let text = |name: &str| body[name].as_str().unwrap().to_owned();
            let login = (text("clientId"), text("clientSecret"));
            let application = json!({ "keys": [{ "client_id": login.0 }] }).to_string();
            self.acknowledged.clients.push(login);
            let path = format!("PUT {}/{name}", applications::PATH);
            if self.send(&path, &fields, &application).is_none() {
                break;
            }
            self.acknowledged.applications.push(name);
            self.report(self.acknowledged.applications.len());
        }
        self.acknowledged
    }

    /// Gets opaque tokens, and JWTs that a gateway has accepted when they are revoked.
    fn issue(mut self) -> Acknowledged {
        let [opaque, jwt] = self.logins;
        let mut gateway = Client::connect(self.gateway);
        while let Some(kept) = self.token(opaque) {
            self.acknowledged.opaque.push(kept);
            let Some(revoked) = self.token(jwt) else { break };
            let fields = format!("Authorization: Bearer {revoked}\r\n");
            assert_eq!(gateway.fetch("GET /a/x", &fields).status_and_code(), "200");
            if self.post("/oauth2/revoke", jwt, &format!("token={revoked}")).is_none() {
                break;
            }
            self.acknowledged.revoked.push(revoked);
            self.report(self.acknowledged.revoked.len());
        }
        self.acknowledged
    }

    fn report(&self, count: usize) {
        if count == WRITES {
            self.done.send(()).unwrap();
        }
    }
}

impl Acknowledged {
    fn add(&mut self, more: Self) {
        self.clients.extend(more.clients);
        self.applications.extend(more.applications);
        self.opaque.extend(more.opaque);
        self.revoked.extend(more.revoked);
    }

    /// It is all there, at the key manager and at `gateways`.
    fn check(&self, manager: &KeyManager, asking: &(String, String), gateways: [SocketAddr; 2]) {
        let login = (asking.0.as_str(), asking.1.as_str());
        for (id, secret) in &self.clients {
            manager.token((id, secret), "grant_type=client_credentials");
        }
        let names = applications::names(&applications::changes(manager, "?after=0"));
        for name in &self.applications {
            assert!(names.split(' ').any(|other| other == name), "{name} in {names}");
        }
        for token in &self.opaque {
            assert!(manager.is_active(login, token));
        }
        for gateway in gateways {
            let mut client = Client::connect(gateway);
            for token in &self.revoked {
                let fields = format!("Authorization: Bearer {token}\r\n");
                wait_until(|| client.fetch("GET /a/x", &fields).status_and_code() == "401 900901");
            }
        }
    }
}
