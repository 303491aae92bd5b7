//! `endpoint`: where messages are sent.

use model::Suspension;

use super::{Compiler, Element};
use crate::program::{Endpoint, EndpointId, EndpointKind, TimeoutAction};

