//! Each message of [`HAZARDS`] ends in a clear fault within its limits, others are served meanwhile, and the memory
//! comes back.

use crate::hazard_table::{HAZARDS, OTHERS};
use crate::mediation::{connect, send, target_with};
use crate::target::MIB;

#[test]
fn each_hazard_ends_in_a_clear_fault() {
    let proxies: Vec<_> = HAZARDS.iter().map(|hazard| (hazard.name, hazard.target)).collect();
    let mut target = target_with(&proxies, OTHERS, "");
    for hazard in HAZARDS {
        let mut client = connect(&target);
        send(&mut client, hazard.name, hazard.content_type, &(hazard.body)());
        target.serves_others();
        assert_eq!(client.read().status, 500, "{}", hazard.name);
        let log = target.process.wait_for(&format!("api=\"{}\"", hazard.name));
        let line = log.lines().find(|line| line.contains(&format!("api=\"{}\"", hazard.name)));
        let line = line.unwrap_or_default();
        assert!(line.contains(&format!("mediation failed: {}", hazard.fault)), "{line}");
        target.serves_others();
    }
    target.wait_for_metric("penstock_held_body_bytes", 0);
    target.serves_others_within(96 * MIB);
}

#[test]
fn the_fault_sequence_of_a_hazard_responds() {
    let responds = "<faultSequence><payloadFactory media-type=\"text\"><format>$1</format><args>\
        <arg expression=\"$ctx:ERROR_MESSAGE\"/></args></payloadFactory>\
        <property name=\"HTTP_SC\" value=\"422\" scope=\"axis2\"/><respond/></faultSequence>";
    // That hazard fails in its error handler.
    let hazards = || HAZARDS.iter().filter(|hazard| hazard.name != "handler");
    let proxies: Vec<_> =
        hazards().map(|hazard| (hazard.name, format!("{}{responds}", hazard.target))).collect();
    let proxies: Vec<_> = proxies.iter().map(|(name, target)| (*name, &**target)).collect();
    let mut target = target_with(&proxies, OTHERS, "");
    for hazard in hazards() {
        let mut client = connect(&target);
        send(&mut client, hazard.name, hazard.content_type, &(hazard.body)());
        target.serves_others();
        let response = client.read();
        assert_eq!(response.status, 422, "{}: {}", hazard.name, response.text());
        assert!(response.text().contains(hazard.fault), "{}: {}", hazard.name, response.text());
        // Other parts of the message may still be in progress.
        target.wait_for_metric("penstock_held_body_bytes", 0);
    }
    target.serves_others();
}
