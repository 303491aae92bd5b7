//! Users of an LDAP directory: connections, searches and binds, by ldap3. Source: RFC 4511, RFC 4513.
//!
//! A user signs in by a bind as their own entry, which a search finds first. Connections are kept for the next users,
//! and begin with a bind as `bind_dn` each time, since another user may have used them.
//!
//! ldap3 parses received bytes without limits. Therefore it gets bytes only after TLS has authenticated the server,
//! through [`relay`], which counts them. The one message before TLS, the response to StartTLS, is parsed by `wire`. The
//! configuration allows connections without TLS only to this machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, Scope, SearchEntry, SearchOptions, StdStream,
    ldap_escape,
};
use model::LdapSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use wire::stream::Stream;
use wire::tls::{ClientTls, LDAP_START_TLS, ldap_tls_started};

use crate::directory::{self, Found};
use crate::limits;

/// Results of a bind, and of a search. Source: RFC 4511 appendix A.
const SUCCESS: u32 = 0;
const SIZE_LIMIT_EXCEEDED: u32 = 4;
const NO_SUCH_OBJECT: u32 = 32;
/// The user may not sign in: no password, a wrong one, or an account that is locked or has expired.
const REJECTED: [u32; 5] = [19, 48, 49, 50, 53];

/// Why the directory cannot be asked, for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DirectoryError(String);

impl From<ldap3::LdapError> for DirectoryError {
    fn from(error: ldap3::LdapError) -> Self {
        Self(error.to_string())
    }
}

pub(crate) struct Directory {
    settings: LdapSettings,
    servers: Vec<Server>,
    /// The server that was used last.
    first: AtomicUsize,
    slots: Semaphore,
    /// Connections that are not in use, each with the time of its last use.
    idle: Mutex<Vec<(Ldap, u64)>>,
}

struct Server {
    url: String,
    host: String,
    port: u16,
    tls: Option<Arc<ClientTls>>,
}

impl Directory {
    /// `tls`: for the servers that need it. The error names the option that is wrong.
    pub(crate) fn new(
        settings: LdapSettings,
        tls: Option<&Arc<ClientTls>>,
    ) -> Result<Self, String> {
        let example = |filter: &str| filled(filter, "ann", "cn=ann");
        let groups = settings.group_search.as_ref();
        let filters = [("filter", Some(&settings.filter)), ("group_filter", groups.map(|g| &g.1))];
        for (key, filter) in filters {
            if filter.is_some_and(|filter| ldap3::parse_filter(example(filter)).is_err()) {
                return Err(format!("`{key}` is not an LDAP filter (RFC 4515)"));
            }
        }
        let servers = settings.urls.iter().map(|url| Server::new(url, settings.start_tls, tls));
        Ok(Self {
            servers: servers.collect::<Result<_, _>>()?,
            first: AtomicUsize::new(0),
            slots: Semaphore::new(limits::LDAP_CONNECTIONS_MAX),
            idle: Mutex::default(),
            settings,
        })
    }

    /// A connection that may search.
    pub(crate) async fn open(&self, now_s: u64) -> Result<Connection<'_>, DirectoryError> {
        let opened = async {
            let slot = self.slots.acquire().await.map_err(|e| DirectoryError(e.to_string()))?;
            let ldap = match self.reused(now_s).await {
                Some(ldap) => ldap,
                None => self.connect().await?,
            };
            Ok(Connection { directory: self, ldap, now_s, intact: true, _slot: slot })
        };
        limited(limits::LDAP_OPEN_MS_MAX, opened).await
    }

    /// A connection that was in use before. The bind also shows that it still works.
    async fn reused(&self, now_s: u64) -> Option<Ldap> {
        let (mut ldap, last_s) = self.idle().pop()?;
        let recent = now_s < last_s.saturating_add(limits::LDAP_IDLE_S);
        if recent && self.bind(&mut ldap).await.is_ok() {
            return Some(ldap);
        }
        // The others were in use still earlier.
        self.idle().clear();
        None
    }

    async fn connect(&self) -> Result<Ldap, DirectoryError> {
        let first = self.first.load(Ordering::Relaxed);
        let mut failure = DirectoryError("there is no server".to_owned());
        for (index, server) in self.servers.iter().enumerate().cycle().skip(first) {
            match limited(limits::LDAP_MS_MAX, self.connect_to(server)).await {
                Ok(ldap) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(ldap);
                }
                Err(DirectoryError(problem)) => {
                    failure = DirectoryError(format!("{}: {problem}", server.url));
                }
            }
            if index.saturating_add(1) % self.servers.len() == first {
                break;
            }
            tracing::warn!(problem = %failure, "the next LDAP server is tried");
        }
        Err(failure)
    }

    async fn connect_to(&self, server: &Server) -> Result<Ldap, DirectoryError> {
        let failed = |error: std::io::Error| DirectoryError(error.to_string());
        let address = (server.host.as_str(), server.port);
        let mut tcp = TcpStream::connect(address).await.map_err(failed)?;
        if self.settings.start_tls {
            start_tls(&mut tcp).await.map_err(|why| DirectoryError(format!("StartTLS: {why}")))?;
        }
        let stream = match &server.tls {
            Some(tls) => tls.connect(tcp, &server.host).await.map_err(failed)?,
            None => Stream::Clear(tcp),
        };
        let (own, theirs) = UnixStream::pair().map_err(failed)?;
        tokio::spawn(relay(stream, own));
        let theirs = StdStream::Unix(theirs.into_std().map_err(failed)?);
        let settings = LdapConnSettings::new().set_std_stream(theirs);
        let (connection, mut ldap) = LdapConnAsync::with_settings(settings, "ldapi:///").await?;
        tokio::spawn(async move {
            if let Err(error) = connection.drive().await {
                tracing::debug!(%error, "connection to an LDAP server ended");
            }
        });
        self.bind(&mut ldap).await?;
        Ok(ldap)
    }

    /// Binds as who searches.
    async fn bind(&self, ldap: &mut Ldap) -> Result<(), DirectoryError> {
        let LdapSettings { bind_dn, bind_password, .. } = &self.settings;
        let bound = ldap.with_timeout(milliseconds(limits::LDAP_MS_MAX));
        let bound = bound.simple_bind(bind_dn, bind_password).await?;
        let rejected = |error: ldap3::LdapError| {
            DirectoryError(format!("the bind as `bind_dn` failed: {error}"))
        };
        bound.success().map(drop).map_err(rejected)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Ldap, u64)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn new(url: &str, start_tls: bool, tls: Option<&Arc<ClientTls>>) -> Result<Self, String> {
        let wrong = || format!("`{url}` is not the URL of an LDAP server");
        let uri: http::Uri = url.parse().map_err(|_| wrong())?;
        let (secure, port) = match uri.scheme_str() {
            Some("ldaps") => (true, 636),
            Some("ldap") => (start_tls, 389),
            Some(_) | None => return Err(wrong()),
        };
        let tls = if secure { Some(Arc::clone(tls.ok_or_else(wrong)?)) } else { None };
        Ok(Self {
            url: url.to_owned(),
            host: uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(port),
            tls,
        })
    }
}

/// Copies between the server and ldap3 until either of them ends.
async fn relay(server: Stream, ldap3: UnixStream) {
    let (from_server, mut to_server) = tokio::io::split(server);
    let (mut from_ldap3, mut to_ldap3) = ldap3.into_split();
    let mut from_server = from_server.take(limits::LDAP_CONNECTION_BYTES_MAX);
    tokio::select! {
        _ = copy(&mut from_server, &mut to_ldap3) => {}
        _ = copy(&mut from_ldap3, &mut to_server) => {}
    }
}

/// A connection, which another user gets when it is dropped, unless the last operation failed.
pub(crate) struct Connection<'d> {
    directory: &'d Directory,
    ldap: Ldap,
    now_s: u64,
    intact: bool,
    _slot: SemaphorePermit<'d>,
}

impl Connection<'_> {
    /// The user who signs in as `name`.
    pub(crate) async fn find(&mut self, name: &str) -> Result<Option<Found>, DirectoryError> {
        self.intact = false;
        let found = limited(limits::LDAP_MS_MAX, self.search(name)).await?;
        self.intact = true;
        Ok(found)
    }

    async fn search(&mut self, name: &str) -> Result<Option<Found>, DirectoryError> {
        let settings = &self.directory.settings;
        let filter = filled(&settings.filter, name, "");
        let attributes = directory::attributes(settings);
        let mut entries = self.entries(&settings.base, &filter, &attributes, 2).await?;
        let Some(entry) = entries.pop() else { return Ok(None) };
        if !entries.is_empty() {
            return Err(DirectoryError(format!("`filter` finds several entries for `{name}`")));
        }
        let groups = match &settings.group_search {
            None => directory::groups_of(settings, &entry),
            Some((base, filter)) => {
                let filter = filled(filter, name, &entry.dn);
                let attributes = [settings.groups.as_str()];
                let most = limits::LDAP_GROUPS_MAX;
                let groups = self.entries(base, &filter, &attributes, most).await?;
                groups.iter().flat_map(|group| directory::groups_of(settings, group)).collect()
            }
        };
        directory::found(settings, &entry, &groups).map(Some).map_err(DirectoryError)
    }

    /// At most so many of the entries that `filter` finds.
    async fn entries(
        &mut self,
        base: &str,
        filter: &str,
        attributes: &[&str],
        most: i32,
    ) -> Result<Vec<SearchEntry>, DirectoryError> {
        let options = SearchOptions::new().sizelimit(most);
        let ldap = self.ldap.with_search_options(options);
        let mut found = ldap.streaming_search(base, Scope::Subtree, filter, attributes).await?;
        let mut entries = Vec::new();
        while let Some(entry) = found.next().await? {
            if entry.is_ref() || entry.is_intermediate() {
                continue;
            }
            entries.push(SearchEntry::construct(entry));
            if i32::try_from(entries.len()).unwrap_or(i32::MAX) > most {
                return Err(DirectoryError("more entries than asked for".to_owned()));
            }
        }
        let result = found.finish().await;
        match result.rc {
            SUCCESS => {}
            SIZE_LIMIT_EXCEEDED => {
                tracing::warn!(filter, most, "an LDAP filter finds more entries than are read");
            }
            NO_SUCH_OBJECT => return Err(DirectoryError(format!("there is no entry `{base}`"))),
            _ => return Err(DirectoryError(format!("the search failed: {result}"))),
        }
        Ok(entries)
    }

    /// Whether `password` is that of the entry `dn`. Never an empty one, nor an entry without a name: a server takes
    /// that for an anonymous bind, which succeeds. Source: RFC 4513 sections 5.1.1 and 5.1.2.
    pub(crate) async fn has_password(
        &mut self,
        dn: &str,
        password: &str,
    ) -> Result<bool, DirectoryError> {
        if dn.is_empty() || password.is_empty() {
            return Ok(false);
        }
        self.intact = false;
        let bound = async { Ok(self.ldap.simple_bind(dn, password).await?) };
        let bound = limited(limits::LDAP_MS_MAX, bound).await?;
        self.intact = true;
        match bound.rc {
            SUCCESS => Ok(true),
            rc if REJECTED.contains(&rc) => {
                tracing::debug!(dn, result = %bound, "the directory rejects a user");
                Ok(false)
            }
            _ => Err(DirectoryError(format!("the bind of a user failed: {bound}"))),
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if self.intact {
            self.directory.idle().push((self.ldap.clone(), self.now_s));
        }
    }
}

/// `filter` with the name of a user and their entry in place of `{user}` and `{dn}`, as values that have no other
/// meaning in a filter. Source: RFC 4515 section 3.
fn filled(filter: &str, user: &str, dn: &str) -> String {
    let dn = ldap_escape(dn);
    let parts: Vec<String> = filter.split("{user}").map(|part| part.replace("{dn}", &dn)).collect();
    parts.join(&ldap_escape(user))
}

/// Asks the server for TLS on a connection without it.
async fn start_tls(stream: &mut TcpStream) -> Result<(), String> {
    stream.write_all(LDAP_START_TLS).await.map_err(|error| error.to_string())?;
    let mut received = Vec::new();
    loop {
        if let Some(outcome) = ldap_tls_started(&received) {
            return outcome;
        }
        if received.len() >= limits::LDAP_START_TLS_BYTES_MAX {
            return Err("the response is too long".to_owned());
        }
        let left = limits::LDAP_START_TLS_BYTES_MAX.saturating_sub(received.len());
        let read = (&mut *stream).take(left as u64).read_buf(&mut received).await;
        if read.map_err(|error| error.to_string())? == 0 {
            return Err("the server closed the connection".to_owned());
        }
    }
}

async fn limited<T>(
    most_ms: u64,
    work: impl Future<Output = Result<T, DirectoryError>>,
) -> Result<T, DirectoryError> {
    let late = |_| DirectoryError(format!("no response within {most_ms} ms"));
    timeout(milliseconds(most_ms), work).await.map_err(late)?
}

fn milliseconds(most_ms: u64) -> Duration {
    Duration::from_millis(most_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_value_of_the_filter_whatever_characters_it_has() {
        for (user, dn, expect) in [
            ("ann", "cn=ann", "(&(uid=ann)(member=cn=ann)(!(uid=ann)))"),
            ("*", "cn=a", r"(&(uid=\2a)(member=cn=a)(!(uid=\2a)))"),
            ("a)(uid=*", "a", r"(&(uid=a\29\28uid=\2a)(member=a)(!(uid=a\29\28uid=\2a)))"),
            (r"\2a", "a", r"(&(uid=\5c2a)(member=a)(!(uid=\5c2a)))"),
            ("{dn}", "{user}", "(&(uid={dn})(member={user})(!(uid={dn})))"),
            ("a\0", "(*)", r"(&(uid=a\00)(member=\28\2a\29)(!(uid=a\00)))"),
        ] {
            let filter = filled("(&(uid={user})(member={dn})(!(uid={user})))", user, dn);
            assert_eq!(filter, expect, "{user:?}");
            assert!(ldap3::parse_filter(&filter).is_ok(), "{user:?}");
        }
    }

    #[test]
    fn wrong_options_are_named() {
        let with = |change: &dyn Fn(&mut LdapSettings)| {
            let mut settings = LdapSettings {
                urls: vec!["ldap://localhost".to_owned()],
                filter: "(uid={user})".to_owned(),
                ..LdapSettings::default()
            };
            change(&mut settings);
            Directory::new(settings, None).err().unwrap_or_default()
        };
        assert_eq!(with(&|_| {}), "");
        let unbalanced = with(&|options| options.filter = "(uid={user}".to_owned());
        assert_eq!(unbalanced, "`filter` is not an LDAP filter (RFC 4515)");
        let groups =
            with(&|options| options.group_search = Some((String::new(), "member".to_owned())));
        assert_eq!(groups, "`group_filter` is not an LDAP filter (RFC 4515)");
        let url = with(&|options| options.urls = vec!["http://localhost".to_owned()]);
        assert_eq!(url, "`http://localhost` is not the URL of an LDAP server");
    }
}
