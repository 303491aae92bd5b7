//! Prints the elements of a document read from stdin, while it arrives.
//! `cargo run -p penstock-xml --example outline < order.xml`

use std::error::Error;
use std::io::{self, Read, Write};

use penstock_xml::Options;
use penstock_xml::reader::{Event, EventFeed, FeedEvent};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let mut input = io::stdin().lock();
    let mut feed = EventFeed::new(&Options::default());
    let mut depth = 0_usize;
    let mut buffer = [0; 4_096];
    loop {
        match feed.next_event()? {
            FeedEvent::Event(Event::Start(start)) => {
                let indent = depth * 2;
                writeln!(out, "{:indent$}{}", "", start.local_name())?;
                depth += 1;
            }
            FeedEvent::Event(Event::End) => depth = depth.saturating_sub(1),
            FeedEvent::Event(_) => {}
            FeedEvent::NeedInput => match input.read(&mut buffer)? {
                0 => feed.end(),
                len => feed.feed(buffer.get(..len).unwrap_or_default()),
            },
            FeedEvent::End => return Ok(()),
        }
    }
}
