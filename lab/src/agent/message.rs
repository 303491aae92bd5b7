//! The messages between controller and agent, as JSON.
//!
//! Architecture invariant: a tally is transferred without loss.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::load::published_stats::Milliseconds;
use crate::load::report::Generator;
use crate::load::report::{Collected, Progress};
use crate::load::response::Outcome;
use crate::load::shape::{Part, Shape};
use crate::load::statistics::{Interval, Measured, Open, Tally, Times, WarmUp};
use crate::load::{Authorities, Inputs, Options, Protocol, Scenario};
use crate::recording::hlog::TimedInterval;

/// Messages from the controller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum FromController {
    /// Requests the agent's time.
    Clock,
    /// Prepares a measurement.
    Prepare(Box<PlanMessage>),
    /// Starts the measurement at this time of the agent's clock.
    Begin { at_us: u64 },
    /// Keep-alive.
    Alive,
    /// Ends the measured time now.
    Stop,
}

/// Messages from the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum FromAgent {
    /// Microseconds on the measurement's clock (once there is one) and in Unix time.
    Clock {
        mono_us: u64,
        unix_us: u64,
    },
    Ready,
    /// The request was rejected, with the reason.
    Rejected(String),
    Alive,
    Progress(Progress),
    Second(SecondMessage),
    Collected(Box<CollectedMessage>),
}

/// An agent's share of a measurement.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanMessage {
    url: String,
    users: usize,
    protocol: Protocol,
    duration_us: u64,
    requests: Option<u64>,
    connection_per_request: bool,
    grpc_messages: Option<usize>,
    warm_up_us: u64,
    timeout_us: u64,
    method: Option<String>,
    headers: Vec<(String, String)>,
    expect: Option<String>,
    threads: usize,
    shape: Shape,
    seed: u64,
    part: Part,
    /// Base64.
    payload: Option<String>,
    scenario: Option<Scenario>,
    tokens: Vec<String>,
    authorities: Authorities,
}

/// Each thread of each agent needs a connection.
pub(super) fn too_few(connections: usize, agents: usize, threads: usize) -> String {
    let needed = agents.saturating_mul(threads);
    format!(
        "connections: {agents} agents with {threads} threads each need at least {needed}, not \
         {connections}; use more --users or, with --http2, more --connections"
    )
}

impl PlanMessage {
    pub(super) fn new(options: &Options, inputs: &Inputs, part: Part) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            url: options.url.clone(),
            users: options.users,
            protocol: options.protocol,
            duration_us: us(options.duration),
            requests: options.requests,
            connection_per_request: options.connection_per_request,
            grpc_messages: options.grpc_messages,
            warm_up_us: us(options.warm_up),
            timeout_us: us(options.timeout),
            method: options.method.clone(),
            headers: options.headers.clone(),
            expect: options.expect.clone(),
            threads: options.threads,
            shape: options.shape.clone(),
            seed: options.seed,
            part,
            payload: inputs.payload.as_ref().map(|bytes| BASE64.encode(bytes)),
            scenario: options.scenario.as_deref().cloned(),
            tokens: inputs.tokens.clone(),
            authorities: inputs.authorities.clone(),
        }
    }

    /// # Errors
    /// The payload or the share is invalid.
    pub(super) fn read(self) -> Result<(Options, Inputs, Part), String> {
        let payload = self.payload.map(|text| BASE64.decode(text)).transpose();
        let payload = payload.map_err(|error| format!("payload: {error}"))?;
        let connections = self.protocol.connections(self.users);
        if self.part.index >= self.part.of
            || connections < self.part.of.saturating_mul(self.threads)
        {
            return Err(too_few(connections, self.part.of, self.threads));
        }
        let options = Options {
            users: self.users,
            protocol: self.protocol,
            duration: Duration::from_micros(self.duration_us),
            requests: self.requests,
            connection_per_request: self.connection_per_request,
            grpc_messages: self.grpc_messages,
            warm_up: Duration::from_micros(self.warm_up_us),
            timeout: Duration::from_micros(self.timeout_us),
            method: self.method,
            scenario: self.scenario.map(Arc::new),
            headers: self.headers,
            expect: self.expect,
            threads: self.threads,
            shape: self.shape,
            seed: self.seed,
            ..Options::new(self.url)
        };
        let inputs = Inputs { payload, tokens: self.tokens, authorities: self.authorities };
        Ok((options, inputs, self.part))
    }
}

/// A second of the measured time, counted from its start.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecondMessage {
    from_us: u64,
    until_us: u64,
    errors: u64,
    latencies: String,
    service: Option<String>,
    cpu_us: u64,
}

impl SecondMessage {
    /// # Errors
    /// The histogram serialiser failed.
    pub(super) fn new(second: &TimedInterval) -> io::Result<Self> {
        let Interval { errors, latencies_us, service_us } = &second.interval;
        Ok(Self {
            from_us: second.from_us,
            until_us: second.until_us,
            errors: *errors,
            latencies: encode(latencies_us)?,
            service: service_us.as_ref().map(encode).transpose()?,
            cpu_us: second.spent_us,
        })
    }

    /// # Errors
    /// `InvalidData`: not a message of this version.
    pub(super) fn read(self) -> io::Result<TimedInterval> {
        let mut interval = Interval::new(self.service.is_some());
        interval.errors = self.errors;
        decode(&self.latencies, &mut interval.latencies_us)?;
        if let (Some(text), Some(into)) = (&self.service, &mut interval.service_us) {
            decode(text, into)?;
        }
        let Self { from_us, until_us, cpu_us: spent_us, .. } = self;
        Ok(TimedInterval { from_us, until_us, interval, spent_us })
    }
}

/// An agent's results.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectedMessage {
    all: u64,
    all_errors: u64,
    requests: u64,
    errors: u64,
    errors_by_kind: Vec<(Outcome, u64)>,
    received_bytes: u64,
    sent_bytes: u64,
    messages: u64,
    latencies: TimesMessage,
    connects: TimesMessage,
    /// Errors and latencies of each request of a scenario.
    by_request: Vec<(u64, TimesMessage)>,
    /// Service times, lateness, and number of queued requests.
    open: Option<(TimesMessage, TimesMessage, u64)>,
    milliseconds: MillisecondsMessage,
    /// Errors, bytes received and sent, milliseconds.
    warm_up: (u64, u64, u64, MillisecondsMessage),
    lag: TimesMessage,
    measured_us: u64,
    measured_from_ms: u64,
    interrupted: bool,
    cpu_us: u64,
    finished: u64,
    generator: Generator,
}

/// Histograms are V2 with DEFLATE in base64; sums are decimal strings, since they may exceed a JSON number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimesMessage {
    histogram_us: String,
    sum_us: String,
    sum_of_squares_us: String,
    min_us: u64,
    max_us: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MillisecondsMessage {
    histogram_ms: String,
    min_ms: u64,
    max_ms: u64,
    first_ms: u64,
    last_ms: u64,
}

impl CollectedMessage {
    /// # Errors
    /// The histogram serialiser failed.
    pub(super) fn new(found: &Collected) -> io::Result<Self> {
        let (tally, measured) = (&found.tally, &found.tally.measured);
        let open = measured.open.as_ref().map(|open| {
            Ok::<_, io::Error>((
                TimesMessage::new(&open.service)?,
                TimesMessage::new(&open.late)?,
                open.queued,
            ))
        });
        Ok(Self {
            all: tally.all,
            all_errors: tally.all_errors,
            requests: measured.requests,
            errors: measured.errors,
            errors_by_kind: measured
                .errors_by_kind
                .iter()
                .map(|(kind, count)| (*kind, *count))
                .collect(),
            received_bytes: measured.received_bytes,
            sent_bytes: measured.sent_bytes,
            messages: measured.messages,
            latencies: TimesMessage::new(&measured.latencies)?,
            connects: TimesMessage::new(&measured.connects)?,
            by_request: measured
                .by_request
                .iter()
                .map(|(errors, times)| Ok((*errors, TimesMessage::new(times)?)))
                .collect::<io::Result<_>>()?,
            open: open.transpose()?,
            milliseconds: MillisecondsMessage::new(&measured.milliseconds)?,
            warm_up: {
                let WarmUp { errors, received_bytes, sent_bytes, milliseconds } = &tally.warm_up;
                (*errors, *received_bytes, *sent_bytes, MillisecondsMessage::new(milliseconds)?)
            },
            lag: TimesMessage::new(&tally.lag)?,
            measured_us: found.measured_us,
            measured_from_ms: found.measured_from_ms,
            interrupted: found.interrupted,
            cpu_us: found.cpu_us,
            finished: found.finished,
            generator: found.generator,
        })
    }

    /// `offset_us`: the agent's Unix time minus ours; times are converted to ours.
    ///
    /// # Errors
    /// `InvalidData`: not a message of this version.
    pub(super) fn read(self, offset_us: i64) -> io::Result<Collected> {
        let mut tally = Tally::new(self.open.is_some(), false);
        tally.all = self.all;
        tally.all_errors = self.all_errors;
        tally.lag = self.lag.read()?;
        let open = self.open.map(|(service, late, queued)| {
            Ok::<_, io::Error>(Open { service: service.read()?, late: late.read()?, queued })
        });
        let offset_ms = offset_us / 1_000;
        let (errors, received_bytes, sent_bytes, milliseconds) = self.warm_up;
        let milliseconds = milliseconds.read(offset_ms)?;
        tally.warm_up = WarmUp { errors, received_bytes, sent_bytes, milliseconds };
        tally.measured = Measured {
            requests: self.requests,
            errors: self.errors,
            errors_by_kind: self.errors_by_kind.into_iter().collect(),
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            messages: self.messages,
            latencies: self.latencies.read()?,
            connects: self.connects.read()?,
            by_request: self
                .by_request
                .into_iter()
                .take(limits::SCENARIO_REQUESTS_MAX)
                .map(|(errors, times)| Ok((errors, times.read()?)))
                .collect::<io::Result<_>>()?,
            milliseconds: self.milliseconds.read(offset_ms)?,
            open: open.transpose()?,
        };
        Ok(Collected {
            tally,
            measured_us: self.measured_us,
            measured_from_ms: self
                .measured_from_ms
                .saturating_add_signed(offset_ms.saturating_neg()),
            interrupted: self.interrupted,
            cpu_us: self.cpu_us,
            finished: self.finished,
            target_cpu_us: None,
            generator: self.generator,
            recording_problems: Vec::new(),
            series: Vec::new(),
        })
    }
}

impl TimesMessage {
    fn new(times: &Times) -> io::Result<Self> {
        Ok(Self {
            histogram_us: encode(&times.histogram_us)?,
            sum_us: times.sum_us.to_string(),
            sum_of_squares_us: times.sum_of_squares_us.to_string(),
            min_us: times.min_us,
            max_us: times.max_us,
        })
    }

    fn read(self) -> io::Result<Times> {
        let sum = |text: &str| text.parse::<u128>().map_err(io::Error::other);
        let mut times = Times::new();
        decode(&self.histogram_us, &mut times.histogram_us)?;
        times.sum_us = sum(&self.sum_us)?;
        times.sum_of_squares_us = sum(&self.sum_of_squares_us)?;
        (times.min_us, times.max_us) = (self.min_us, self.max_us);
        Ok(times)
    }
}

impl MillisecondsMessage {
    fn new(times: &Milliseconds) -> io::Result<Self> {
        Ok(Self {
            histogram_ms: encode(&times.histogram_ms)?,
            min_ms: times.min_ms,
            max_ms: times.max_ms,
            first_ms: times.first_ms,
            last_ms: times.last_ms,
        })
    }

    fn read(self, offset_ms: i64) -> io::Result<Milliseconds> {
        let mut times = Milliseconds::new();
        decode(&self.histogram_ms, &mut times.histogram_ms)?;
        if times.histogram_ms.is_empty() {
            return Ok(times);
        }
        (times.min_ms, times.max_ms) = (self.min_ms, self.max_ms);
        times.first_ms = self.first_ms.saturating_add_signed(offset_ms.saturating_neg());
        times.last_ms = self.last_ms.saturating_add_signed(offset_ms.saturating_neg());
        Ok(times)
    }
}

fn encode(histogram: &Histogram<u64>) -> io::Result<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(io::Error::other)?;
    Ok(BASE64.encode(bytes))
}

/// Adds the histogram in `text` to `into`, so that its bounds are ours and not the peer's.
fn decode(text: &str, into: &mut Histogram<u64>) -> io::Result<()> {
    let bytes = BASE64.decode(text).map_err(io::Error::other)?;
    let histogram =
        Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]).map_err(io::Error::other)?;
    into.add(histogram).map_err(io::Error::other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::load::statistics::{Detail, Sample, Traffic};

    #[test]
    fn results_are_transferred_without_loss() {
        for open in [false, true] {
            let found = found(open, 0);
            let there = through(&found, 0);
            assert!(facts(&there.tally) == facts(&found.tally));
            let rest = |found: &Collected| {
                (
                    found.measured_us,
                    found.measured_from_ms,
                    found.cpu_us,
                    found.finished,
                    found.generator,
                )
            };
            assert_eq!(rest(&there), rest(&found));
        }
    }

    #[test]
    fn merging_two_parts_gives_the_whole() {
        let mut merged = found(true, 0).tally;
        merged.merge(&through(&found(true, 1), 0).tally);
        let mut whole = found(true, 0).tally;
        whole.merge(&found(true, 1).tally);
        assert!(facts(&merged) == facts(&whole));
    }

    #[test]
    fn times_are_converted_to_the_controllers_clock() {
        let (ours, theirs) = (found(false, 0), through(&found(false, 0), 5_000_999));
        assert_eq!(theirs.measured_from_ms, ours.measured_from_ms - 5_000);
        let first_ms = |found: &Collected| found.tally.measured.milliseconds.first_ms;
        assert_eq!(first_ms(&theirs), first_ms(&ours) - 5_000);
    }

    #[test]
    fn plans_with_fewer_users_than_threads_are_rejected() {
        let options = Options { users: 3, threads: 2, ..Options::new("http://localhost/") };
        let inputs = Inputs {
            payload: Some(vec![0, 255]),
            tokens: vec![],
            authorities: Authorities::System,
        };
        let plan = |of| PlanMessage::new(&options, &inputs, Part { index: 0, of });
        let (_, read, part) = plan(1).read().unwrap();
        assert_eq!((read, part), (inputs.clone(), Part { index: 0, of: 1 }));
        let error = plan(2).read().unwrap_err();
        assert!(error.contains("2 agents with 2 threads each need at least 4, not 3"), "{error}");
    }

    /// For each histogram, the recorded values with their counts, and the sums.
    type Facts = Vec<(Vec<(u64, u64)>, Vec<u128>)>;

    /// Everything that is counted.
    fn facts(tally: &Tally) -> Facts {
        let recorded = |histogram: &Histogram<u64>| {
            let buckets = histogram.iter_recorded();
            buckets.map(|one| (one.value_iterated_to(), one.count_at_value())).collect::<Vec<_>>()
        };
        let times = |times: &Times| {
            let (least, most) = (u128::from(times.min_us), u128::from(times.max_us));
            (
                recorded(&times.histogram_us),
                vec![times.sum_us, times.sum_of_squares_us, least, most],
            )
        };
        let measured = &tally.measured;
        let counts = [tally.all, tally.all_errors, measured.requests, measured.errors];
        let bytes = [measured.received_bytes, measured.sent_bytes];
        let kinds = measured.errors_by_kind.values().copied();
        let counts = counts.into_iter().chain(bytes).chain(kinds).map(u128::from).collect();
        let whole = &measured.milliseconds;
        let edges = |of: &Milliseconds| [of.min_ms, of.max_ms, of.first_ms, of.last_ms];
        let warm_up = &tally.warm_up;
        let of_warm_up = [warm_up.errors, warm_up.received_bytes, warm_up.sent_bytes];
        let of_warm_up = of_warm_up.into_iter().chain(edges(&warm_up.milliseconds));
        let of_warm_up = of_warm_up.map(u128::from).collect();
        let mut facts = vec![
            (Vec::new(), counts),
            times(&tally.lag),
            times(&measured.latencies),
            (recorded(&whole.histogram_ms), edges(whole).map(u128::from).to_vec()),
            (recorded(&warm_up.milliseconds.histogram_ms), of_warm_up),
        ];
        for (errors, latencies) in &measured.by_request {
            facts.push(times(latencies));
            facts.push((Vec::new(), vec![u128::from(*errors)]));
        }
        if let Some(open) = &measured.open {
            facts.extend([times(&open.service), times(&open.late)]);
            facts.push((Vec::new(), vec![u128::from(open.queued)]));
        }
        facts
    }

    fn through(found: &Collected, offset_us: i64) -> Collected {
        let text = serde_json::to_string(&CollectedMessage::new(found).unwrap()).unwrap();
        serde_json::from_str::<CollectedMessage>(&text).unwrap().read(offset_us).unwrap()
    }

    fn found(open: bool, salt: u64) -> Collected {
        let mut tally = Tally::new(open, false);
        for number in 0..5_000_u64 {
            let outcome = match number % 100 {
                0 => Outcome::Status(503),
                1 => Outcome::Unsent,
                _ => Outcome::Good,
            };
            let end_us = number * 1_000 + (number * number * (7 + salt)) % 3_000_000;
            let sample = Sample {
                from_us: number * 1_000,
                start_us: number * 1_000 + number % 13,
                end_us,
                outcome,
                bytes: Traffic { sent: 1_000, received: 900 + salt },
                queued: number % 7 == 0,
                detail: Detail { request: Some((number % 3) as usize), ..Detail::default() },
            };
            tally.record(number > 100, &sample, 1_700_000_000_000_000);
            tally.lag.record(number % 50);
        }
        Collected {
            tally,
            measured_us: 5_000_000,
            measured_from_ms: 1_700_000_000_100,
            interrupted: false,
            cpu_us: 77,
            finished: 4_900,
            target_cpu_us: None,
            generator: Generator { busy: 0.25, waited: 0.5, peak_rss_bytes: 7 << 20 },
            recording_problems: Vec::new(),
            series: Vec::new(),
        }
    }
}
