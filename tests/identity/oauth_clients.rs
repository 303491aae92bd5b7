//! Client libraries that people use go through their flows: openid-client from npm, which is certified for OpenID
//! Connect and built on oauth4webapi; authlib for Python; golang.org/x/oauth2 and coreos/go-oidc for Go.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::key_manager::KeyManager;

const NPM: &str = "openid-client@6.8.9";
const PYPI: [&str; 2] = ["authlib==1.6.5", "requests==2.34.2"];

#[test]
#[ignore = "needs npm and its registry; `make test-all` runs it. On Debian: apt-get install npm"]
fn openid_client_from_npm_passes_its_flows() {
    let folder = with_files(&["openid_client.mjs"]);
    let npm = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", NPM];
    run(command(&folder, &npm));
    passes(command(&folder, &["node", "openid_client.mjs"]));
}

#[test]
#[ignore = "needs PyPI; `make test-all` runs it. On Debian: apt-get install python3-venv"]
fn authlib_for_python_passes_its_flows() {
    let folder = with_files(&["authlib_flows.py"]);
    run(command(&folder, &["python3", "-m", "venv", "venv"]));
    let pip = ["venv/bin/python", "-m", "pip", "install", "--quiet"];
    run(command(&folder, &[pip.as_slice(), &PYPI].concat()));
    passes(command(&folder, &["venv/bin/python", "authlib_flows.py"]));
}

#[test]
#[ignore = "needs Go and its module proxy; `make test-all` runs it. On Debian: apt-get install golang"]
fn oauth2_and_go_oidc_for_go_pass_their_flows() {
    let folder = with_files(&["go/main.go", "go/go.mod", "go/go.sum"]);
    passes(command(&folder, &["go", "run", "."]));
}

/// A folder with these files of `identity/clients`.
fn with_files(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("identity/clients").join(name);
        std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    folder
}

fn command(folder: &TempDir, line: &[&str]) -> Command {
    let (program, arguments) = line.split_first().unwrap();
    // One that was installed into the folder is named by its path there.
    let installed = folder.path().join(program);
    let mut command =
        if installed.exists() { Command::new(installed) } else { Command::new(program) };
    command.args(arguments).current_dir(folder.path());
    command
}

/// Runs the flows against a key manager, as a client that is registered for all of them.
fn passes(mut flows: Command) {
    let manager = KeyManager::start();
    let (id, secret) = manager.register(
        "library",
        json!({
            "grantType": "authorization_code client_credentials refresh_token \
                urn:ietf:params:oauth:grant-type:device_code \
                urn:ietf:params:oauth:grant-type:token-exchange",
            "callbackUrl": "https://app.example/callback",
            "tokenScope": "read",
        }),
    );
    let ca = manager.files.path("tls.crt");
    flows.env("PORT", manager.process.address("https").port().to_string());
    flows.env("CLIENT", id).env("SECRET", secret).env("CA", &ca).env("NODE_EXTRA_CA_CERTS", &ca);
    let output = run(flows);
    assert!(output.contains("all flows passed"), "{output}");
}

fn run(mut command: Command) -> String {
    let output = command.output().expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
