//! Fetches a JWKS by https. Each fetch is a short-lived thread: there are few issuers, fetches are
//! minutes apart, and none may hold up the follower.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use base::limits;
use model::KeySource;
use wire::client;
use wire::tls::ClientTls;

/// Gets the bytes behind an URL, or says why not. Blocks; has its own limits of time and size.
pub type Fetch = Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// What a fetch brought.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) name: String,
    pub(crate) source: KeySource,
    pub(crate) answer: Result<Vec<u8>, String>,
}

/// By `wire::client`, trusting whom `tls` trusts.
#[must_use]
pub fn https_fetch(tls: Arc<ClientTls>) -> Fetch {
    Arc::new(move |url| get(url, &tls))
}

/// Starts fetching; the answer goes to `tell`, whatever happens.
pub(crate) fn start<M: Send + 'static>(
    fetch: &Fetch,
    name: String,
    source: KeySource,
    tell: Sender<M>,
    wrap: fn(Fetched) -> M,
) {
    let KeySource::JwksUrl(url) = source.clone() else { return };
    let fetch = Arc::clone(fetch);
    let (for_thread, on_failure) =
        ((name.clone(), source.clone(), tell.clone()), (name, source, tell));
    let spawned = thread::Builder::new().name("jwks".to_owned()).spawn(move || {
        let (name, source, tell) = for_thread;
        let answer = fetch(&url).and_then(bounded);
        // Nobody listens any more: the follower has stopped.
        drop(tell.send(wrap(Fetched { name, source, answer })));
    });
    if let Err(error) = spawned {
        let (name, source, tell) = on_failure;
        let answer = Err(format!("no thread to fetch with: {error}"));
        drop(tell.send(wrap(Fetched { name, source, answer })));
    }
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.len() > limits::JWKS_BYTES_MAX {
        return Err(format!("the JWKS is larger than {} bytes", limits::JWKS_BYTES_MAX));
    }
    Ok(bytes)
}

fn get(url: &str, tls: &ClientTls) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime to fetch with: {error}"))?;
    let bounds =
        client::Limits { bytes_max: limits::JWKS_BYTES_MAX, total_ms: limits::JWKS_FETCH_MS_MAX };
    let fetched = runtime.block_on(client::get(url, Some(tls), bounds));
    let fetched = fetched.map_err(|error| error.to_string())?;
    match fetched.status {
        200 => Ok(fetched.body),
        status => Err(format!("answered {status}")),
    }
}
