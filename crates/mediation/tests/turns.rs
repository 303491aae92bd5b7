//! How long a worker is busy with one message: the steps that a run takes on its thread between two events. Longer work
//! is left to a thread for heavy work.

use crate::hazard_table::{HAZARDS, OTHERS};
use crate::host::{World, begin, message, program};
use penstock_mediation::{Direction, Event, Format, limits};

/// A step begins if less than `HEAVY_STEPS` were taken, and may take as many itself.
const TURN_STEPS_MAX: u64 = 2 * limits::HEAVY_STEPS + limits::MEDIATOR_STEPS;

#[test]
fn no_hazard_keeps_a_worker_for_long() {
    for hazard in HAZARDS {
        let proxy = format!("{OTHERS}<proxy name=\"P\"><target>{}</target></proxy>", hazard.target);
        let program = program(&proxy);
        let message =
            message(Direction::Request, Format::of(hazard.content_type), &(hazard.body)());
        let mut run = begin(&program, message);
        let (world, mut is_heavy) = (World::of(&program), false);
        let failure = loop {
            let before = run.steps_used();
            let event = if is_heavy { run.next_heavy(&world) } else { run.next(&world) };
            let steps = run.steps_used() - before;
            assert!(is_heavy || steps <= TURN_STEPS_MAX, "{}: {steps} steps", hazard.name);
            is_heavy = matches!(event, Event::Heavy);
            match event {
                Event::Heavy => {}
                Event::Failed(failure) => break failure,
                event @ (Event::Ask(..)
                | Event::Respond(..)
                | Event::Accepted
                | Event::Waiting
                | Event::Done) => panic!("{}: {event:?}", hazard.name),
            }
        };
        assert!(failure.to_string().contains(hazard.fault), "{}: {failure}", hazard.name);
    }
}
