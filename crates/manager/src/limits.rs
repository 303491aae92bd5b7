//! The limits of the control plane. `docs/limits.md` is generated from them.

/// Open connections to the control plane. More: they wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Open connections from one address, or one IPv6 /64. More: closed at once.
pub const ADDRESS_CONNECTIONS_MAX: u32 = 128;
/// Longest wait for a complete request head, in milliseconds, also between two requests. Longer: the connection is
/// closed.
pub const HEAD_MS_MAX: u64 = 15_000;
/// Longest time for a request, from its head to its response, in milliseconds. Longer: 503.
pub const REQUEST_MS_MAX: u64 = 30_000;
/// Longest time without progress while a response is written, in milliseconds. Longer: the connection is closed.
pub const WRITE_MS_MAX: u64 = 10_000;
/// Lifetime of a connection, in milliseconds. It is closed after the request that is in progress then.
pub const CONNECTION_MS_MAX: u64 = 600_000;
/// Time for requests in progress to finish at a shutdown, in milliseconds. Longer: they are cut off.
pub const DRAIN_MS_MAX: u64 = 5_000;
/// Largest request head, in bytes. Larger: 431.
pub const HEAD_BYTES_MAX: usize = 32 * 1_024;
/// Maximum number of header fields in a head. More: 431.
pub const HEADER_FIELDS_MAX: usize = 64;
/// Largest request body, in bytes. Larger: 413.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;
/// Maximum number of parameters of a form. More: 400.
pub const FORM_FIELDS_MAX: usize = 64;

/// Lifetime of authorisation codes, in seconds. Source: RFC 6749 section 4.1.2 recommends at most 10 minutes.
pub const CODE_S: u64 = 60;
/// How long a password that was printed can be replaced, in seconds. Then `user password` prints another.
pub const ONE_TIME_PASSWORD_S: u64 = 7 * 86_400;
/// Lifetime of device codes, in seconds. Source: RFC 8628 section 3.2 has an example of 30 minutes.
pub const DEVICE_CODE_S: u64 = 600;
/// Least time between two polls for a device code, in seconds. Earlier: `slow_down`. Source: RFC 8628 section 3.2.
pub const DEVICE_POLL_S: u64 = 5;
/// Longest lifetime of a client's assertion, in seconds. Longer: 401.
pub const ASSERTION_S_MAX: u64 = 3_600;
/// Time after which the keys of a trusted issuer are read again, in seconds.
pub const TRUSTED_KEYS_S: u64 = 3_600;
/// The same if none of them has signed a JWT, or if there are none, in seconds.
pub const TRUSTED_KEYS_AGAIN_S: u64 = 30;
/// Time for which these keys, and the metadata of a provider of users, are used if they cannot be read again, in
/// seconds. Longer: 503 for requests that need them.
pub const STALE_S_MAX: u64 = 86_400;
const _: () = assert!(TRUSTED_KEYS_S < STALE_S_MAX && PROVIDER_S < STALE_S_MAX);
/// The value of `Retry-After` in responses with status 503, in seconds.
pub const RETRY_AFTER_S: u64 = 5;
/// Tolerance for clocks of clients that are ahead, and of those behind that check `nbf` of our tokens, in seconds.
pub const SKEW_S: u64 = 60;
/// Longest nonce of a request for an ID token, in bytes. Longer: the error `invalid_request`.
pub const NONCE_BYTES_MAX: usize = 255;
/// Clients in the store. More: registration returns 503.
pub const CLIENTS_MAX: u64 = 100_000;
/// Clients in one response to an administrator who lists them. More: in the next one.
pub const CLIENTS_PAGE_MAX: u32 = 1_000;
/// Opaque and refresh tokens, codes, revocations of JWTs, and assertions that were used, in the store. More: 503 until
/// some expire, except for revocations. A million takes about 300 MB.
pub const TOKENS_MAX: u64 = 1_000_000;
/// The same of one client. More, when they are counted every [`PURGE_S`]: the client gets 503 until some expire.
pub const CLIENT_TOKENS_MAX: u64 = 100_000;
/// Device codes in the store, each for [`DEVICE_CODE_S`]. More: 503 for further ones.
pub const DEVICES_MAX: u64 = 100_000;
/// The same of one client, when they are counted every [`PURGE_S`]. More: 503 for further ones.
pub const CLIENT_DEVICES_MAX: u64 = 10_000;
/// Valid API keys of one user. More: 403 until some expire or are revoked.
pub const USER_API_KEYS_MAX: u64 = 100;
/// Interval at which expired tokens are removed from the store, in seconds.
pub const PURGE_S: u64 = 60;
/// Revocations in one response to a gateway that follows them. More: in the next one.
pub const REVOCATIONS_PAGE_MAX: u32 = 10_000;
/// Applications in the store. More: 503. Removed ones count for a week.
pub const APPLICATIONS_MAX: u64 = 100_000;
/// Plans in the store. More: 503. Removed ones count for a week.
pub const PLANS_MAX: u64 = 1_000;
const _: () = assert!(PLANS_MAX <= base::limits::PUBLISHED_PLANS_MAX as u64);
/// Applications in one response to a gateway that follows them. More: in the next one.
pub const APPLICATIONS_PAGE_MAX: u32 = 1_000;
/// Bytes of applications in one such response, if there is more than one. More: in the next one.
pub const APPLICATIONS_PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Longest wait for the next change, in seconds. Longer: a response without one.
pub const REVOCATIONS_WAIT_S_MAX: u64 = 20;
/// Requests of gateways that wait for changes. More: 503. Half of the connections is left for those who want
/// tokens.
pub const READERS_MAX: usize = 512;
const _: () = assert!(2 * READERS_MAX <= CONNECTIONS_MAX);
/// Interval at which the store is asked whether there are changes, in milliseconds, while a gateway waits for them:
/// another instance, or a command, may have made them. Changes of
/// this instance are noticed at once.
pub const REVISION_POLL_MS: u64 = 250;
/// Longest client name and user name, in bytes. Longer: 400.
pub const NAME_BYTES_MAX: usize = 190;

/// Longest name of a gateway, in bytes. Longer: an error of `control gateway add`. Source: it is the client's id, whose
/// column in the database has that many characters.
pub const GATEWAY_NAME_BYTES_MAX: usize = 64;
/// Longest list of scopes, redirect URIs or keys of a client, in bytes. Longer: 400.
pub const LIST_BYTES_MAX: usize = 4_000;
/// Longest `tls_client_auth_subject_dn` of a client, in bytes. Longer: 400.
pub const SUBJECT_BYTES_MAX: usize = 380;

/// Passwords that are verified at the same time; each takes 19 MiB and some 20 ms. More: they wait.
pub const PASSWORD_CHECKS_MAX: usize = 2;
/// Longest wait for the verification of a password to begin, in milliseconds. Longer: 503.
pub const PASSWORD_WAIT_MS_MAX: u64 = 5_000;
/// Failed attempts for one user or client from one address after which further ones are slowed.
pub const ACCOUNT_FAILURES_MAX: u32 = 10;
/// Failed attempts for one user from all addresses after which further ones are slowed. Source: NIST SP 800-63B section
/// 3.2.2.
pub const USER_FAILURES_MAX: u32 = 100;
/// Failed attempts of users from one address, or one IPv6 /64, after which further ones are slowed. Many users can
/// share an address. HTTP Basic with names that neither a user nor a client has is counted apart, with the same limit.
pub const ADDRESS_FAILURES_MAX: u32 = 50;
/// Time for which browsers keep the response to a preflight request, in seconds.
pub const PREFLIGHT_S: u64 = 600;
/// Device codes that clients without a secret get at once for one address, or one IPv6 /64; one more every
/// [`FAILURE_S`]. Further requests are slowed.
pub const ADDRESS_DEVICES_MAX: u32 = 100;
/// Longest pause between slowed attempts, in seconds. Earlier ones: 429, without verification. The pause doubles from
/// one second on.
pub const SLOWED_S_MAX: u64 = 60;
/// Time after which one more failed attempt is forgotten, in seconds.
pub const FAILURE_S: u64 = 60;
/// Time for which a user who signed in from an address is not slowed by failures elsewhere, in seconds.
pub const KNOWN_ADDRESS_S: u64 = 30 * 86_400;
/// Connections to an LDAP directory. More users at the same time: they wait for one.
pub const LDAP_CONNECTIONS_MAX: usize = 8;
/// Longest wait for a connection to an LDAP directory that may search, in milliseconds, whichever of its servers
/// responds. Longer: 503.
pub const LDAP_OPEN_MS_MAX: u64 = 12_000;
/// Longest wait for an LDAP server: for a connection, for the entry and groups of a user, and for a bind, in
/// milliseconds. Longer: the next server, or 503.
pub const LDAP_MS_MAX: u64 = 5_000;
const _: () =
    assert!(LDAP_OPEN_MS_MAX + 2 * LDAP_MS_MAX < REQUEST_MS_MAX, "a failure is not cut off");
/// Time after which an unused connection to an LDAP directory is not used again, in seconds.
pub const LDAP_IDLE_S: u64 = 60;
/// Bytes that are received on one connection to an LDAP server. More: it ends, and another one is opened.
pub const LDAP_CONNECTION_BYTES_MAX: u64 = 64 * 1_024 * 1_024;
/// Groups of a user that are read from an LDAP directory. More: they are ignored, with a warning.
pub const LDAP_GROUPS_MAX: i32 = 1_000;
/// Longest response to a request for StartTLS, in bytes. Longer: the server is not used. Before TLS has begun, anybody
/// on the way could have sent it.
pub const LDAP_START_TLS_BYTES_MAX: usize = 512;
/// Time after which the discovery document and the keys of a provider of users are read again, in seconds.
pub const PROVIDER_S: u64 = 300;
/// Longest request to a provider of users, in milliseconds. Longer: the sign-in fails.
pub const PROVIDER_MS_MAX: u32 = 4_000;
/// Longest wait of a sign-in for others that ask the same provider, in milliseconds. Longer: 503.
pub const PROVIDER_WAIT_MS_MAX: u64 = 5_000;
const _: () = assert!(
    PROVIDER_WAIT_MS_MAX + 6 * (PROVIDER_MS_MAX as u64) < REQUEST_MS_MAX,
    "metadata twice, tokens and claims"
);
/// Largest response of a provider of users, in bytes. Larger: the sign-in fails.
pub const PROVIDER_BYTES_MAX: usize = 256 * 1_024;
/// Sign-ins that ask the same provider at once. More: they wait, up to [`PROVIDER_WAIT_MS_MAX`].
pub const PROVIDER_SIGN_INS_MAX: usize = 16;
/// Longest request of a client, in bytes, with which a user can go to a provider. Longer: 400. A cookie holds it,
/// sealed.
pub const PROVIDER_TARGET_BYTES_MAX: usize = 2_048;
/// Users and addresses whose failures are counted, in one half of a table of fixed size; the other half is for clients.
/// Several can share an entry.
pub const FAILURE_ENTRIES: usize = 65_536;
