//! The stages: 1,000 APIs of four operations, and 1,000 tokens as long as RS256 ones, all in the cache.

use std::hint::black_box;
use std::sync::Arc;

use base::{Entropy, Method, Now};
use gateway::bench::Account;
use jose::{Algorithm, Header, KeySet, PasswordHash, SALT_BYTES, SigningKey};
use model::{
    Accepts, Api, ApiState, Application, ApplicationKey, Endpoint, Introspection, Issuer,
    KeyCredential, KeyType, Limit, LimitBy, LoadedApi, Operation, Plan, Plans, Quantity, Scheme,
    ScopeRule, Security, Snapshot, Subscription, SubscriptionState, Upstream, UpstreamKind, User,
};
use stages::authenticate::Users;
use stages::throttle::{self, Level, Meters, Sender, WorkerMeters};
use stages::{Identity, PlanTable, Routes, Subscribers, TokenCache, authenticate, authorise};

const APIS: usize = 1_000;
const TOKENS: usize = 1_000;
const CACHE_BYTES: usize = 32 * 1024 * 1024;
const HOST: &[u8] = b"api.example.org:8280";
const PATH: &[u8] = b"/orders-0500/1.0.0/orders/12345";
const SECRET: &[u8] = b"a secret of the benchmarks, for nothing else";
const NOW: Now = Now { unix_s: 1_800_000_000, mono_us: 1_000_000 };

/// The same bytes each time, so that runs can be compared.
struct Fixed;

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }
}

pub(super) fn route(times: usize) {
    let routes = Routes::compile(&snapshot(), None);
    for _ in 0..times {
        let found = routes.find(black_box(HOST), Method::Get, black_box(PATH), false);
        assert!(found.is_ok_and(|found| found.operation == 2));
    }
}

pub(super) fn token_cache_hit(times: usize) {
    let snapshot = snapshot();
    let (credentials, mut cache) = warm(&snapshot.issuers);
    for credential in credentials.iter().cycle().take(times) {
        black_box(known(&mut cache, black_box(credential), &snapshot.issuers));
    }
}

pub(super) fn opaque_token_hit(times: usize) {
    let introspection = Introspection {
        url: "https://bench.example/introspect".to_owned(),
        client_id: "bench".to_owned(),
        client_secret: SECRET.to_vec(),
        cache_s: 900,
    };
    let issuers = [Arc::new(Issuer { introspection: Some(introspection), ..issuer() })];
    let mut cache = TokenCache::new(CACHE_BYTES, &Fixed);
    let response = br#"{"active":true,"sub":"bench","client_id":"bench","aud":"bench","scope":"orders:write"}"#;
    // 256 random bits in base64url, as the signature at the end of a JWT is.
    let random = |jwt: Vec<u8>| jwt.last_chunk::<43>().map(|end| end.to_vec());
    let tokens: Vec<Vec<u8>> = (0..TOKENS).map(credential).filter_map(random).collect();
    for token in &tokens {
        let told = authenticate::conclude(&mut cache, token, &issuers, 0, response, NOW);
        assert!(told.is_ok_and(|caller| caller.is_some()));
    }
    assert_eq!(cache.len(), TOKENS);
    let credentials: Vec<_> =
        tokens.iter().map(|token| [b"Bearer ", &token[..]].concat()).collect();
    for credential in credentials.iter().cycle().take(times) {
        black_box(known(&mut cache, black_box(credential), &issuers));
    }
}

/// The API keys of 1,000 applications, as long as docs/api-keys.md generates them.
pub(super) fn api_key_hit(times: usize) {
    let routes = Routes::compile(&snapshot(), None);
    let random = |number: usize| jose::sha256(&number.to_le_bytes());
    let text = |hash: [u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let keys: Vec<Vec<u8>> = (0..TOKENS).map(|number| text(random(number)).into()).collect();
    let credential = |key: &Vec<u8>| KeyCredential::ApiKeySha256(jose::sha256(key));
    let applications = keys.iter().map(credential).enumerate().map(application).collect();
    let plans = PlanTable::compile(&Arc::new(Plans::default()), None);
    let subscribers = Subscribers::compile(&Arc::new(applications), &plans, None);
    let mut cache = TokenCache::new(CACHE_BYTES, &Fixed);
    let mut identify = |key: &[u8]| {
        authenticate::identify_key(&mut cache, key, routes.issuers(), Some(&subscribers), NOW)
    };
    let is_known = |identity: &Identity| matches!(identity, Identity::Known(_));
    assert!(keys.iter().all(|key| is_known(&identify(key))));
    for key in keys.iter().cycle().take(times) {
        assert!(is_known(&black_box(identify(black_box(key)))));
    }
}

pub(super) fn login_hit(times: usize) {
    let made = PasswordHash::create(b"a long password", [7; SALT_BYTES]).expect("there is memory");
    let password = PasswordHash::parse(&made).expect("it was made just now");
    let user = User { name: "user 1".to_owned(), password, scopes: Vec::new() };
    let users = Users::compile(&[user]);
    let mut cache = TokenCache::new(CACHE_BYTES, &Fixed);
    // As long as name and password of 22 bytes in all.
    let fields: Vec<_> =
        (0..TOKENS).map(|n| format!("Basic dXNlciAxOmEgbG9uZyBwYXNz{n:06}==")).collect();
    for field in &fields {
        let login = authenticate::login(field.as_bytes()).expect("it is Basic");
        let user = users.find("user 1").0;
        assert!(authenticate::conclude_login(&mut cache, login, &users, user, NOW).is_ok());
    }
    for field in fields.iter().cycle().take(times) {
        let login = authenticate::login(black_box(field.as_bytes())).expect("it is Basic");
        let found = authenticate::identify_login(&mut cache, login, &users, &[], NOW);
        assert!(matches!(black_box(found), Identity::Known(_)));
    }
}

/// Route, token, scope and choice of the endpoint set, which are all decisions before a request is forwarded; and its
/// record, opened and closed, with the counters and three clock readings.
pub(super) fn pure_pipeline(times: usize) {
    let snapshot = snapshot();
    let routes = Arc::new(Routes::compile(&snapshot, None));
    let account = Account::of(Arc::clone(&routes));
    let (credentials, mut cache) = warm(&snapshot.issuers);
    for credential in credentials.iter().cycle().take(times) {
        let mut record = account.open();
        let found = routes.find(black_box(HOST), Method::Get, black_box(PATH), false);
        let Ok(found) = found else { panic!("no such operation") };
        account.found(&mut record, found.api, found.operation);
        let api = &found.api.api;
        let Some(operation) = api.operations.get(found.operation) else {
            panic!("no such operation")
        };
        let Security::Required(Accepts { token: Some(rule), .. }) = &operation.security else {
            panic!("not secured")
        };
        let caller = known(&mut cache, black_box(credential), routes.issuers());
        assert_eq!(authorise::grant(&caller, rule), Ok(()));
        let upstream = authorise::upstream(api, operation, Some(caller.key_type));
        assert_eq!(black_box(upstream), Ok(0));
        account.close(record, 200, 1_024);
    }
    let found = routes.find(HOST, Method::Get, PATH, false).expect("it was found before");
    assert_eq!(account.closed(found.api), times as u64);
}

/// One turn of a scrape: the counters of 200 APIs with four operations each, which have responses of three statuses.
/// However many APIs there are, requests wait for one turn at most.
pub(super) fn scrape_turn(times: usize) {
    let routes = Arc::new(Routes::compile(&snapshot(), None));
    let account = Account::of(Arc::clone(&routes));
    for api in routes.apis() {
        for (operation, status) in
            (0..4).flat_map(|operation| [200, 404, 500].map(|status| (operation, status)))
        {
            let mut record = account.open();
            account.found(&mut record, api, operation);
            account.close(record, status, 1_024);
        }
    }
    let mut from = 0;
    for _ in 0..times {
        let (next, copied) = account.scrape(black_box(from));
        assert_eq!(copied, 200);
        from = next.unwrap_or(0);
    }
}

/// The additional cost of a subscription and its plans: the subscription check, a limit of the application, one of the
/// subscription, and its burst. 1,000 applications are subscribed to ten APIs each.
pub(super) fn subscription_and_quotas(times: usize) {
    let routes = Routes::compile(&snapshot(), None);
    let found = routes.find(HOST, Method::Get, PATH, false);
    let Ok(found) = found else { panic!("no such operation") };
    let mut plans = Plans::default();
    let limit = |period_ms| Limit {
        quantity: Quantity::Requests,
        amount: 1 << 40,
        period_ms,
        by: LimitBy::All,
    };
    let (limits, burst) = (vec![limit(60_000)], Some(limit(1_000)));
    plans.insert(Plan { name: "Application".to_owned(), limits: limits.clone(), burst: None });
    plans.insert(Plan { name: "Subscription".to_owned(), limits, burst });
    let plans = PlanTable::compile(&Arc::new(plans), None);
    let applications = (0..TOKENS).map(|number| {
        let client = if number == 500 { "bench".to_owned() } else { format!("client {number}") };
        application((number, KeyCredential::ClientId(client)))
    });
    let subscribers = Subscribers::compile(&Arc::new(applications.collect()), &plans, None);
    let (credentials, mut cache) = warm(routes.issuers());
    let caller = known(&mut cache, credentials.first().expect("there are some"), routes.issuers());
    let mut meters = WorkerMeters::new(Arc::new(Meters::default()));
    let sender = Sender { user: None, network: &|| 0, values: &|_, _| {} };
    for number in 0..times {
        let (api, key) = (black_box(&*found.api.api), found.api.key);
        let granted = authorise::subscription(&caller, (api, key), Some(&subscribers), &plans);
        let Ok(grant) = granted else { panic!("it is subscribed") };
        let uses =
            [(Level::Subscription, grant.subscription), (Level::Application, grant.application)];
        let uses = uses.into_iter().filter_map(|(level, of)| Some((level, of?)));
        let now_ms = 1_800_000_000_000 + number as u64;
        let admitted = throttle::admit(&mut meters, &plans, uses, sender, now_ms);
        assert!(black_box(admitted).is_ok());
    }
}

fn application((number, credential): (usize, KeyCredential)) -> Arc<Application> {
    let key = ApplicationKey { credential, key_type: KeyType::Production, permitted: None };
    let subscription = |api| {
        Arc::new(Subscription {
            api: format!("Orders {api:04}"),
            version: "1.0.0".to_owned(),
            plan: Some("Subscription".to_owned()),
            state: SubscriptionState::Active,
        })
    };
    Arc::new(Application {
        name: format!("application {number}"),
        owner: None,
        plan: Some("Application".to_owned()),
        attributes: Box::default(),
        keys: Box::new([key]),
        subscriptions: (495..505).map(subscription).collect(),
    })
}

fn known(
    cache: &mut TokenCache,
    credential: &[u8],
    issuers: &[Arc<Issuer>],
) -> std::rc::Rc<model::Caller> {
    let token = authenticate::bearer(credential);
    match token.map(|token| authenticate::identify(cache, token, issuers, NOW)) {
        Ok(Identity::Known(caller)) => caller,
        other => panic!("the token is valid: {other:?}"),
    }
}

/// Header values, and a cache that holds each of their tokens.
fn warm(issuers: &[Arc<Issuer>]) -> (Vec<Vec<u8>>, TokenCache) {
    let credentials: Vec<Vec<u8>> = (0..TOKENS).map(credential).collect();
    let mut cache = TokenCache::new(CACHE_BYTES, &Fixed);
    for credential in &credentials {
        known(&mut cache, credential, issuers);
    }
    assert_eq!(cache.len(), TOKENS);
    (credentials, cache)
}

fn credential(number: usize) -> Vec<u8> {
    let header = Header { alg: Algorithm::Hs256, kid: None, typ: Some("at+jwt".to_owned()) };
    let filling = "x".repeat(250);
    let claims = format!(
        r#"{{"iss":"https://bench.example","sub":"bench","client_id":"bench","aud":"bench","exp":4102444800,
            "jti":"{number}","scope":"openid orders:read orders:write","filling":"{filling}"}}"#
    );
    let key = SigningKey::from_secret(SECRET).expect("the secret is long enough");
    let token = key.sign(&header, &claims).expect("the claims are an object");
    format!("Bearer {token}").into_bytes()
}

fn issuer() -> Issuer {
    Issuer {
        name: "bench".to_owned(),
        iss: "https://bench.example".to_owned(),
        revision: 1,
        keys: KeySet::from_secret(SECRET).expect("the secret is long enough"),
        audiences: vec!["bench".to_owned()],
        leeway_s: 0,
        padded_segments: false,
        api_keys: false,
        internal_keys: false,
        allow_unlimited: false,
        introspection: None,
        passwords: None,
        revoked: None,
    }
}

fn snapshot() -> Snapshot {
    let apis = (0..APIS)
        .map(|number| LoadedApi { api: Arc::new(api(number)), state: ApiState::Serving })
        .collect();
    Snapshot { revision: 1, apis, issuers: vec![Arc::new(issuer())], ..Snapshot::default() }
}

fn api(number: usize) -> Api {
    let operation = |method, template: &str| Operation {
        method,
        template: template.to_owned(),
        security: Security::Required(Accepts::token(ScopeRule::AnyOf(vec![
            "orders:write".to_owned(),
        ]))),
        production: None,
        sandbox: None,
        plan: None,
        policies: None,
        response_cache: None,
    };
    let base_path = format!("/orders-{number:04}/1.0.0");
    Api {
        operations: vec![
            operation(Method::Get, "/orders"),
            operation(Method::Post, "/orders"),
            operation(Method::Get, "/orders/{id}"),
            operation(Method::Delete, "/orders/{id}"),
        ],
        upstreams: vec![upstream()],
        production: Some(0),
        ..Api::new(format!("Orders {number:04}"), "1.0.0".to_owned(), base_path)
    }
}

fn upstream() -> Upstream {
    let endpoint = Endpoint {
        scheme: Scheme::Http,
        host: "127.0.0.1".to_owned(),
        port: 8688,
        path: String::new(),
        authority: "127.0.0.1:8688".to_owned(),
    };
    Upstream::new(UpstreamKind::Single, vec![endpoint])
}
