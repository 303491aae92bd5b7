//! `enableAddressing` of an endpoint: the header blocks of WS-Addressing that a SOAP message gets.
//!
//! Source: Web Services Addressing 1.0, SOAP Binding, and its submission of August 2004; which blocks there are is as
//! in Axis2's `AddressingOutHandler`.

use expression::Budget;
use xml::{NodeId, QNameRef};

use super::Target;
use crate::error::Failure;
use crate::limits;
use crate::message::{Format, Message, NO_ENTITY_BODY, PropertyScope, soap};
use crate::program::Addressing;

/// The property of a message that keeps the blocks that it has.
const KEEP: &str = "PRESERVE_WS_ADDRESSING";
/// The action of a message that has none. Source: Synapse's `AnonymousServiceFactory`.
const NO_ACTION: &str = "urn:anonOutInOp";
/// The properties that are blocks, and whether their value is the address of an endpoint reference.
const BLOCKS: [(&str, bool); 7] = [
    ("To", false),
    ("ReplyTo", true),
    ("From", true),
    ("FaultTo", true),
    ("MessageID", false),
    ("Action", false),
    ("RelatesTo", false),
];

impl Addressing {
    fn namespace(self) -> &'static str {
        let [last, submission] = soap::ADDRESSING;
        match self {
            Self::Final => last,
            Self::Submission => submission,
        }
    }

    /// Default destination of the response: only the submission must contain it.
    fn reply_to(self) -> Option<String> {
        match self {
            Self::Final => None,
            Self::Submission => Some(format!("{}/role/anonymous", self.namespace())),
        }
    }
}

impl Target {
    /// Whether the message gets header blocks: it is sent as SOAP to an endpoint that expects them.
    pub(super) fn addresses(&self, message: &Message) -> bool {
        if self.addressing.is_none() {
            return false;
        }
        let declared = || message.message_type().map(|declared| Format::of(&declared));
        let wanted = self.content_type.map(Format::of).or_else(declared);
        soap::namespace(wanted.unwrap_or(message.body.format())).is_some()
            && !message.says(PropertyScope::Axis2, NO_ENTITY_BODY)
    }

    /// Whether that takes so long that it is not done on the thread of a worker.
    pub(super) fn addresses_long(&self, message: &Message) -> bool {
        let bytes = || message.body.size_to_read().saturating_mul(self.count());
        self.addresses(message) && limits::takes_long(bytes(), limits::REWRITE_NS_PER_BYTE)
    }

    /// Adds the header blocks; members of a group whose address is another get a body of their own. `write` makes bytes
    /// of a message that has its blocks.
    ///
    /// # Errors
    /// The body is not well-formed; the budget; as `write`.
    pub(super) fn address(
        &mut self,
        message: &mut Message,
        id: Option<&str>,
        budget: &Budget,
        write: impl Fn(&mut Message) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(version) = self.addressing.filter(|_| self.addresses(message)) else {
            return Ok(());
        };
        let (first, others) = self.leaves();
        for other in others.into_iter().filter(|other| other.url != first) {
            let mut copy = message.copy(budget)?;
            add(&mut copy, version, (&other.url, id), budget)?;
            write(&mut copy)?;
            other.body = copy.body.bytes(budget)?;
        }
        add(message, version, (&first, id), budget)
    }
}

/// Adds the blocks for one address.
fn add(
    message: &mut Message,
    version: Addressing,
    (url, id): (&str, Option<&str>),
    budget: &Budget,
) -> Result<(), Failure> {
    let (keeps, before) = (message.says(PropertyScope::Synapse, KEEP), message.body.state());
    let texts = BLOCKS.map(|(name, _)| {
        let set = message.properties.get(PropertyScope::Synapse, name);
        let set = set.map(|value| value.text().into_owned()).filter(|text| !text.is_empty());
        match name {
            "To" => Some(url.to_owned()),
            "ReplyTo" => set.or_else(|| version.reply_to()),
            "MessageID" => set.or_else(|| id.map(str::to_owned)),
            "Action" => Some(action(message, budget)),
            _ => set,
        }
    });
    let Some((document, header)) = message.body.edit_header(budget)? else { return Ok(()) };
    let present: Vec<(NodeId, String)> = document.node(header).map_or_else(Vec::new, |header| {
        let blocks = header
            .children()
            .filter(|block| block.is_element() && soap::ADDRESSING.contains(&block.namespace()));
        blocks.map(|block| (block.id(), block.local_name().to_owned())).collect()
    });
    for (block, _) in present.iter().filter(|_| !keeps) {
        document.detach(*block)?;
    }
    let namespace = version.namespace();
    let element = |name| QNameRef::new("wsa", namespace, name);
    for ((name, is_reference), text) in BLOCKS.into_iter().zip(texts) {
        let is_kept = keeps && present.iter().any(|(_, present)| present == name);
        let Some(text) = text.filter(|_| !is_kept) else { continue };
        budget.charge_memory(text.len())?;
        let block = document.create_element(element(name))?;
        let content = document.create_text(&text)?;
        if is_reference {
            let address = document.create_element(element("Address"))?;
            document.append(address, content)?;
            document.append(block, address)?;
        } else {
            document.append(block, content)?;
        }
        document.append(header, block)?;
    }
    message.rewritten_since(before);
    Ok(())
}

/// The action of the message: that of its properties or its head, else its own block.
fn action(message: &Message, budget: &Budget) -> String {
    let own = || {
        soap::namespace(message.body.format())?;
        soap::addressing(message.body.xml(budget).ok()??, "Action")
    };
    let said = message.action(true).filter(|action| !action.is_empty());
    said.or_else(own).unwrap_or_else(|| NO_ACTION.to_owned())
}
