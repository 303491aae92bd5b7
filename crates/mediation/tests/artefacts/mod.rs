//! Compiled artefacts: endpoints, templates and services, and their problems.

mod addressing;
mod diagnostics;
mod endpoints;
mod entries;
mod services;
