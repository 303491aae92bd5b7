//! Each message of [`HAZARDS`] ends in a clear fault within its limits, others are served meanwhile, and the memory comes
//! back.

use crate::hazard_table::{HAZARDS, OTHERS};
use crate::mediation::{connect, send, target_with};
use crate::target::MIB;

#[test]
fn each_hazard_ends_in_a_clear_fault() {
    let proxies: Vec<_> = HAZARDS.iter().map(|hazard| (hazard.name, hazard.target)).collect();
    let mut target = target_with(&proxies, OTHERS);
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
