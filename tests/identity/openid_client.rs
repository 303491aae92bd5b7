//! A client library that people use goes through all flows: openid-client from npm, which is certified for OpenID
//! Connect.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::key_manager::KeyManager;

const PACKAGE: &str = "openid-client@6.8.9";

#[test]
#[ignore = "needs npm and its registry; `make test OPENID_CLIENT=yes` runs it. On Debian: apt-get install npm"]
fn openid_client_from_npm_passes_its_flows() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register(
        "openid-client",
        json!({
            "grantType": "authorization_code client_credentials refresh_token \
                urn:ietf:params:oauth:grant-type:device_code \
                urn:ietf:params:oauth:grant-type:token-exchange",
            "callbackUrl": "https://app.example/callback",
            "tokenScope": "read",
        }),
    );
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("identity/openid_client.mjs");
    std::fs::copy(script, folder.path().join("flows.mjs")).unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", PACKAGE]);
    run(npm.current_dir(folder.path()));
    let mut node = Command::new("node");
    node.arg("flows.mjs").current_dir(folder.path());
    node.env("PORT", manager.process.address("https").port().to_string());
    node.env("CLIENT", id).env("SECRET", secret);
    node.env("NODE_EXTRA_CA_CERTS", manager.files.path("tls.crt"));
    let output = run(&mut node);
    assert!(output.contains("all flows passed"), "{output}");
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
