//! Heavy work of a message does not stop its other parts. The test's observer of the log stops a thread for heavy work
//! when a mediator logs a certain line there, until the test lets it go on.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use harness::{Gateway, PATIENCE, Upstream, observe_log};
use tracing::Level;

/// The line that stops its thread.
const STOP: &str = "stop here";

/// The channels for the name of the stopped thread, and for the end of the stop.
static STOPPED: Mutex<Option<(Sender<String>, Receiver<()>)>> = Mutex::new(None);

fn stop(value: &str) {
    if !value.contains(STOP) {
        return;
    }
    let stopped = STOPPED.lock().unwrap().take();
    if let Some((reached, go_on)) = stopped {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        reached.send(name).unwrap();
        // Or the test failed.
        let _ = go_on.recv();
    }
}

#[test]
fn what_other_parts_of_a_message_send_goes_on_during_its_heavy_work() {
    observe_log(Level::ERROR, |_, value| stop(value));
    let (reached, stopped) = channel();
    let (release, go_on) = channel();
    *STOPPED.lock().unwrap() = Some((reached, go_on));
    let upstream = Upstream::manual();
    let endpoint =
        format!("<endpoint><address uri=\"http://{}/part\"/></endpoint>", upstream.address());
    let gateway = Gateway::mediating(&format!(
        "<proxy name=\"it\"><target><inSequence><clone>\
         <target><sequence><payloadFactory media-type=\"text\"><format>a part</format></payloadFactory>\
         <call>{endpoint}</call><drop/></sequence></target>\
         <target><sequence><payloadFactory media-type=\"xml\"><format><n xmlns=\"\">$1</n></format>\
         <args><arg expression=\"string(count(//item))\"/></args></payloadFactory>\
         <log level=\"custom\" category=\"ERROR\"><property name=\"now\" value=\"{STOP}\"/></log>\
         <respond/></sequence></target>\
         </clone></inSequence></target></proxy>"
    ))
    .start();
    assert_eq!(gateway.diagnostics(), "");
    let body = format!("<all>{}</all>", "<item>text</item>".repeat(100_000));
    let mut client = gateway.connect();
    let len = body.len();
    client.send(format!(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Type: application/xml\r\nContent-Length: {len}\r\n\r\n{body}"
    ));
    let name = stopped.recv_timeout(PATIENCE).unwrap();
    assert!(name.starts_with("heavy-"), "{name}");
    let mut part = upstream.accept();
    assert_eq!(part.request().text(), "a part");
    part.ok("done");
    release.send(()).unwrap();
    assert_eq!(client.read().text(), "<n>100000</n>");
}
