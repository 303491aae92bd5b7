//! Fetches key sets by https, and documents that artefacts name. Each fetch of a key set runs on a short-lived thread,
//! because there are few issuers, fetches are minutes apart, and none may delay the follower.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use base::limits;
use model::KeySource;

use crate::discovery;

/// Fetches a URL. Blocks, within its own limits of time and size.
pub type Fetch = Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// The result of a fetch.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) name: String,
    pub(crate) source: KeySource,
    pub(crate) result: Result<Vec<u8>, String>,
}

/// Starts a fetch. The result is sent to `sender` in every case.
pub(crate) fn start<M: Send + 'static>(
    fetch: &Fetch,
    name: String,
    source: KeySource,
    sender: Sender<M>,
    wrap: fn(Fetched) -> M,
) {
    if !is_fetched(&source) {
        return;
    }
    let fetch = Arc::clone(fetch);
    let (for_thread, on_failure) =
        ((name.clone(), source.clone(), sender.clone()), (name, source, sender));
    let spawned = thread::Builder::new().name("jwks".to_owned()).spawn(move || {
        let (name, source, sender) = for_thread;
        let result = match &source {
            KeySource::Discovery(issuer) => discovery::fetch_keys(&fetch, issuer),
            KeySource::JwksUrl(url) => fetch(url),
            KeySource::JwksFile(_)
            | KeySource::Pem(_)
            | KeySource::Secret(_)
            | KeySource::Absent => Err("its keys have no URL".to_owned()),
        };
        let result = result.and_then(bounded);
        // Fails if the follower has stopped.
        drop(sender.send(wrap(Fetched { name, source, result })));
    });
    if let Err(error) = spawned {
        let (name, source, sender) = on_failure;
        let result = Err(format!("cannot start a thread: {error}"));
        drop(sender.send(wrap(Fetched { name, source, result })));
    }
}

/// Whether the keys come from a server.
pub(crate) fn is_fetched(source: &KeySource) -> bool {
    match source {
        KeySource::JwksUrl(_) | KeySource::Discovery(_) => true,
        KeySource::JwksFile(_) | KeySource::Pem(_) | KeySource::Secret(_) | KeySource::Absent => {
            false
        }
    }
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.len() > limits::JWKS_BYTES_MAX {
        return Err(format!("the JWKS is larger than {} bytes", limits::JWKS_BYTES_MAX));
    }
    Ok(bytes)
}
