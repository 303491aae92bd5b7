//! The artefact that a key names: a local entry or a registry resource, known at load or computed from the message.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use expression::{BodyUse, Expression};

use crate::error::Failure;
use crate::mediators::values::items::fail;
use crate::message::Message;
use crate::program::{Entry, Scene};
use crate::syntax::{Compiler, Element};

type Make<T> = Box<dyn Fn(&Entry) -> Result<T, String> + Send + Sync>;

/// The compiled entry, or its problem.
type Made<T> = Result<Arc<T>, String>;

pub(crate) enum Keyed<T> {
    Fixed(Arc<T>),
    /// `key="{expression}"`
    Computed {
        key: Expression,
        make: Make<T>,
        /// By the key of the entry: no more than there are entries.
        made: Mutex<HashMap<String, Made<T>>>,
    },
}

impl<T> fmt::Debug for Keyed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed"),
            Self::Computed { key, .. } => write!(f, "Computed({key})"),
        }
    }
}

impl<T> Keyed<T> {
    /// `None`: `key` is not computed.
    #[allow(clippy::option_option, reason = "an error was reported, or there is nothing to report")]
    pub(crate) fn computed(
        compiler: &mut Compiler,
        element: &Element<'_>,
        key: &str,
        make: impl Fn(&Entry) -> Result<T, String> + Send + Sync + 'static,
    ) -> Option<Option<Self>> {
        let Some(key) = element.computed(compiler, key)? else { return Some(None) };
        compiler.keep_entries();
        let made = Mutex::default();
        Some(Some(Self::Computed { key, make: Box::new(make), made }))
    }

    pub(crate) fn body_use(&self) -> BodyUse {
        match self {
            Self::Fixed(_) => BodyUse::Untouched,
            Self::Computed { key, .. } => key.body_use(),
        }
    }

    /// Whether it may have to be made first, which takes long.
    pub(crate) fn is_computed(&self) -> bool {
        matches!(self, Self::Computed { .. })
    }

    /// # Errors
    /// The entry does not exist, or is invalid.
    pub(crate) fn get(&self, scene: &Scene<'_>, message: &Message) -> Result<Arc<T>, Failure> {
        let (key, make, made) = match self {
            Self::Fixed(fixed) => return Ok(Arc::clone(fixed)),
            Self::Computed { key, make, made } => (scene.text(key, message)?, make, made),
        };
        let (name, entry) = scene
            .program
            .entry(&key)
            .ok_or_else(|| fail(format!("there is no local entry or registry resource `{key}`")))?;
        let lock = || made.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(name).cloned();
        let found = match known {
            Some(known) => known,
            None => {
                scene.budget.charge_reading(entry.bytes().len())?;
                let new = make(entry).map(Arc::new);
                lock().entry(name.to_owned()).or_insert(new).clone()
            }
        };
        found.map_err(|error| fail(format!("`{key}`: {error}")))
    }
}
