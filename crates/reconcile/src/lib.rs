//! Reconciles the counts of a gateway's limits with those of other gateways, by way of Redis or Valkey.
//!
//! Place in the flow: workers count --> **reconcile** --> Redis --> other gateways. Runs in its own thread, which sends
//! the reports of a [`Reconciler`] and passes it the replies. Every `QUOTA_RECONCILE_MS` one round reports all counts
//! that have changed, in batches, each added by one run of a script (`report.lua`).
//!
//! Architecture invariant: decides nothing about limits, and no request waits for it.

mod figures;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::limits::{
    QUOTA_CONNECT_WAIT_MS, QUOTA_PUSH_MAX, QUOTA_RECONCILE_MS, QUOTA_REPLY_MS_MAX,
    QUOTA_START_MS_MAX,
};
use base::{Entropy, SystemClock};
use model::{QuotaSettings, WhenDown};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, IntoConnectionInfo, RedisError, RedisResult, Script,
    TlsCertificates,
};
use stages::throttle::{Reconciler, Reply};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep};

pub use figures::Figures;

/// The counters, and their clock.
pub struct Counted {
    pub reconciler: Reconciler,
    pub clock: SystemClock,
}

/// Ends the reconciliation when dropped, after the last counts were reported.
#[derive(Debug)]
pub struct Handle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The reason why reconciliation cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("`[quotas]` is not usable: {0}")]
    Settings(RedisError),
    #[error("cannot start the thread of `[quotas]`: {0}")]
    Thread(io::Error),
}

/// Starts the thread. Waits up to `QUOTA_START_MS_MAX` for Redis to respond. `ca` has the certificates of the
/// authorities that may have issued the server's; if absent, those of the system are used.
///
/// # Errors
/// If the settings are not usable, or the thread cannot be started. An unavailable Redis is not an error.
pub fn start(
    counted: Counted,
    settings: &QuotaSettings,
    ca: Option<Vec<u8>>,
    entropy: &dyn Entropy,
    figures: Arc<Figures>,
) -> Result<Handle, StartError> {
    let client = client(settings, ca).map_err(StartError::Settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(StartError::Thread)?;
    let (first, tried) = mpsc::channel();
    let task = Task {
        counted,
        client,
        script: Script::new(include_str!("report.lua")),
        gateway: format!("{:016x}", entropy.u64()),
        when_down: settings.when_down,
        figures,
        is_up: None,
        first,
    };
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("quotas".to_owned())
        .spawn(move || runtime.block_on(task.run(stopped)))
        .map_err(StartError::Thread)?;
    // If this times out, the gateway serves without Redis for the moment.
    let _ = tried.recv_timeout(Duration::from_millis(u64::from(QUOTA_START_MS_MAX)));
    Ok(Handle { stop: Some(stop), thread: Some(thread) })
}

fn client(settings: &QuotaSettings, root_cert: Option<Vec<u8>>) -> RedisResult<Client> {
    let mut info = settings.redis.as_str().into_connection_info()?;
    if let Some(password) = &settings.password {
        let redis = info.redis_settings().clone();
        info = info.set_redis_settings(redis.set_password(String::from_utf8_lossy(password)));
    }
    match root_cert {
        Some(_) => Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert }),
        None => Client::open(info),
    }
}

/// The work of the thread.
struct Task {
    counted: Counted,
    client: Client,
    script: Script,
    /// A random name, new with each start, so that the counts of an earlier process stay.
    gateway: String,
    when_down: WhenDown,
    figures: Arc<Figures>,
    is_up: Option<bool>,
    /// Receives one message after the first attempt, successful or not.
    first: mpsc::Sender<()>,
}

impl Task {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let error = tokio::select! {
                biased;
                _ = &mut stopped => return,
                connected = self.connect() => match connected {
                    Ok(mut connection) => match self.serve(&mut connection, &mut stopped).await {
                        Ok(()) => return,
                        Err(error) => error,
                    },
                    Err(error) => error,
                },
            };
            self.is_down(&error);
            tokio::select! {
                biased;
                _ = &mut stopped => return,
                () = sleep(Duration::from_millis(u64::from(QUOTA_CONNECT_WAIT_MS))) => {}
            }
        }
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let longest = Some(Duration::from_millis(u64::from(QUOTA_REPLY_MS_MAX)));
        let config = AsyncConnectionConfig::new();
        let config = config.set_connection_timeout(longest).set_response_timeout(longest);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Serves one connection. Returns after a last round once the thread is stopped.
    ///
    /// # Errors
    /// Errors of the connection.
    async fn serve(
        &mut self,
        connection: &mut MultiplexedConnection,
        stopped: &mut oneshot::Receiver<()>,
    ) -> RedisResult<()> {
        let mut ticks = interval(Duration::from_millis(u64::from(QUOTA_RECONCILE_MS)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                biased;
                _ = &mut *stopped => true,
                _ = ticks.tick() => false,
            };
            let done = self.round(connection).await;
            if is_last {
                return Ok(());
            }
            done?;
        }
    }

    /// Reports all counts that have changed.
    async fn round(&mut self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let begun_us = self.counted.clock.now_us();
        self.counted.reconciler.begin();
        while self.exchange(connection).await? >= QUOTA_PUSH_MAX {}
        self.figures.round(self.counted.clock.now_us().saturating_sub(begun_us));
        Ok(())
    }

    /// Reports one batch. Returns its number of counts.
    async fn exchange(&mut self, connection: &mut MultiplexedConnection) -> RedisResult<usize> {
        let sent_ms = self.now_ms();
        let reports = self.counted.reconciler.batch(sent_ms);
        let mut call = self.script.prepare_invoke();
        call.arg(&self.gateway);
        for report in &reports {
            call.key(format!("penstock:quota:{:016x}:{:x}", report.counter, report.window));
            call.arg(report.count).arg(report.keep_ms);
        }
        let reply: Vec<u64> = call.invoke_async(connection).await?;
        let Some((time_ms, others)) =
            reply.split_first().filter(|_| reply.len() == reports.len() + 1)
        else {
            return Err((ErrorKind::UnexpectedReturnType, "a reply of another length").into());
        };
        let reply = Reply { time_ms: *time_ms, others: others.to_vec() };
        let received_ms = self.now_ms();
        self.counted.reconciler.replied(&reply, sent_ms, received_ms);
        self.figures.exchanged(reports.len());
        if self.is_up.replace(true) != Some(true) {
            self.figures.set_state("up");
            tracing::info!("Redis answers: limits are shared with other gateways");
            let _ = self.first.send(());
        }
        Ok(reports.len())
    }

    fn is_down(&mut self, error: &RedisError) {
        self.counted.reconciler.failed();
        self.figures.failed();
        if self.is_up.replace(false) != Some(false) {
            let when_down = self.when_down.as_str();
            self.figures.set_state(when_down);
            let effect = match self.when_down {
                WhenDown::Local => "this gateway counts alone",
                WhenDown::Open => "no limit applies",
                WhenDown::Closed => "requests with limits are rejected",
            };
            tracing::warn!(%error, when_down, "Redis does not answer: {effect}");
            let _ = self.first.send(());
        }
    }

    /// The time as workers measure it.
    fn now_ms(&self) -> u64 {
        let clock = &self.counted.clock;
        clock.origin_unix_us().saturating_add(clock.now_us()) / 1_000
    }
}
