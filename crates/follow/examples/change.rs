//! Measures the time from the rename of a changed API to the callback, with many others loaded.
//!
//! `cargo run --release -p penstock-follow --example change -- 5000 200`: APIs, changes.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use base::{Clock, SystemClock};
use penstock_follow::{Change, Follower, Options, read_settings};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let apis: usize = arguments.next().map_or(Ok(5_000), |text| text.parse())?;
    let changes: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    write_files(folder.path(), apis)?;
    let (settings, _) = read_settings(&folder.path().join("penstock.toml"))?;
    let clock = SystemClock::new();
    let options = Options {
        configuration: None,
        https: false,
        certificates: Arc::default(),
        clock: Arc::new(clock.clone()),
        fetch: Arc::new(|_| Err("no issuer has a URL".to_owned())),
        ask_feed: Arc::new(|_, _| Err("no issuer has a URL".to_owned())),
        ask_vault: Arc::new(|_, _, _| Err("there is no Vault".to_owned())),
    };
    let (follower, snapshot) = Follower::load(settings, options)?;
    println!("{} APIs loaded in {} ms", snapshot.apis.len(), clock.now().mono_us / 1_000);
    let (sender, changes_seen) = mpsc::channel();
    let publish = Box::new(move |change| drop(sender.send(change)));
    let handle = follower.watch(publish)?;
    let mut waits_us = Vec::new();
    for change in 0..changes {
        let file = folder.path().join(format!("apis/{}.yaml", change % apis));
        let beside = file.with_extension("new");
        fs::write(&beside, api(change % apis, 10_000 + change))?;
        let start_us = clock.now().mono_us;
        fs::rename(&beside, &file)?;
        match changes_seen.recv_timeout(Duration::from_secs(10))? {
            Change::Snapshot(_) => waits_us.push(clock.now().mono_us - start_us),
            Change::Settings(_) | Change::Keys(_) => {
                return Err("unexpected change of settings".into());
            }
        }
    }
    handle.stop();
    waits_us.sort_unstable();
    let at = |share: usize| waits_us.get(waits_us.len() * share / 100).copied().unwrap_or(0);
    let most = waits_us.last().copied().unwrap_or(0);
    println!("{changes} changes: p50 {} us, p99 {} us, most {most} us", at(50), at(99));
    Ok(())
}

fn write_files(folder: &Path, apis: usize) -> std::io::Result<()> {
    fs::create_dir(folder.join("apis"))?;
    let settings = "[gateway]\nhttp = \"127.0.0.1:0\"\napis = [\"apis/\"]\n";
    fs::write(folder.join("penstock.toml"), settings)?;
    for number in 0..apis {
        fs::write(folder.join(format!("apis/{number}.yaml")), api(number, 9))?;
    }
    Ok(())
}

/// Ten operations each.
fn api(number: usize, port: usize) -> String {
    let mut text = format!(
        "openapi: 3.0.1\ninfo: {{title: Api {number}, version: '1'}}\nx-wso2-basePath: /api{number}/1\n\
         x-wso2-disable-security: true\nservers:\n  - url: http://127.0.0.1:{port}\npaths:\n"
    );
    for path in 0..10 {
        text += &format!("  /things{path}/{{id}}:\n    get:\n      responses: {{}}\n");
    }
    text
}
