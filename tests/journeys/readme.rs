//! The README and the examples are correct.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Files, Issuer, Process, Upstream};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

#[test]
fn every_command_of_the_readme_exists() {
    let mut known = 0;
    for line in readme().lines().filter(|line| line.starts_with("| `penstock ")) {
        let command = line.split('`').nth(1).unwrap();
        let words = command.split(' ').skip(1);
        let mut arguments: Vec<&str> =
            words.take_while(|word| word.chars().all(|c| c.is_ascii_lowercase())).collect();
        arguments.push("--help");
        let (code, text) = Process::run(&root(), &arguments);
        assert_eq!(code, Some(0), "{command}: {text}");
        for flag in command.split(['[', ']', ' ']).filter(|word| word.starts_with("--")) {
            assert!(text.contains(flag), "no {flag} of {command} in {text}");
        }
        known += 1;
    }
    assert!(known >= 7, "the table of commands was found");
}

#[test]
fn every_command_that_exists_is_in_the_readme() {
    let text = readme();
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with("| `penstock ")).collect();
    let table = table.join("\n").replace(" --config FILE", "");
    let mut waiting = vec![Vec::new()];
    let mut leaves = 0;
    while let Some(command) = waiting.pop() {
        let found = subcommands(&command);
        if found.is_empty() {
            leaves += 1;
            // A row may have several: "`penstock lab report DIR`, `lab compare A B`".
            let words = command.join(" ");
            let is_in = [format!("`penstock {words}"), format!("`{words}")].iter().any(|start| {
                table.contains(&format!("{start} ")) || table.contains(&format!("{start}`"))
            });
            assert!(is_in, "the table of commands has no `penstock {words}`");
        }
        waiting.extend(found.into_iter().map(|name| [&command[..], &[name]].concat()));
    }
    assert!(leaves >= 20, "{leaves}");
}

/// The subcommands of a command, from its help.
fn subcommands(command: &[String]) -> Vec<String> {
    let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let (code, help) = Process::run(&root(), &arguments);
    assert_eq!(code, Some(0), "{arguments:?}");
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        // Deeper lines continue a description.
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split(' ').next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_file_that_the_readme_links_to_exists() {
    let text = readme();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for target in targets.filter(|target| !target.starts_with("http")) {
        assert!(root().join(target).exists(), "{target}");
    }
}

/// Commands that need no server, with their output, in the blocks `console` of a page.
fn quoted(page: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(|block| block.split("$ ").skip(1));
    let found = commands.filter_map(|command| command.split_once('\n'));
    let ours = found.filter(|(command, _)| {
        let mut words = command.split(' ');
        let (program, verb) = (words.next(), words.next().unwrap_or_default());
        program == Some("penstock") && ["check", "test", "explain", "try"].contains(&verb)
    });
    ours.map(|(command, output)| (command.to_owned(), output.to_owned())).collect()
}

#[test]
fn the_commands_of_the_integration_guide_print_what_it_says() {
    let commands = quoted("docs/integration.md");
    assert_eq!(commands.len(), 4, "{commands:?}");
    for (command, expect) in commands {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        let (code, output) = Process::run(&root(), &arguments);
        assert_eq!((code, output), (Some(0), expect), "{command}");
    }
}

#[test]
fn the_configuration_of_the_readme_is_accepted() {
    let text = readme();
    let toml = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let files = Files::new();
    files.write("penstock.toml", toml);
    files.write("petstore.yaml", &fs::read_to_string(root().join("examples/pets.yaml")).unwrap());
    let (code, text) = Process::run(files.folder(), &["check", "penstock.toml"]);
    assert_eq!(code, Some(0), "{text}");
}

/// `examples/pets.yaml` with its endpoints replaced by `upstreams`, in the order of their ports.
fn pets(upstreams: &[&Upstream; 5]) -> String {
    let mut text = fs::read_to_string(root().join("examples/pets.yaml")).unwrap();
    for (port, upstream) in ["8701", "8702", "8703", "8711", "8712"].iter().zip(upstreams) {
        let named = format!("http://127.0.0.1:{port}");
        assert!(text.contains(&named), "{named}");
        text = text.replace(&named, &upstream.url());
    }
    text
}

#[test]
fn the_pets_example_behaves_as_its_comments_describe() {
    let upstream = |name: &'static str| {
        Upstream::responding(move |request| {
            harness::CannedResponse::ok(&format!("{name} {}", request.target()))
        })
    };
    let [one, two, sandbox, photos] = ["one", "two", "sandbox", "photos"].map(upstream);
    let down = Upstream::refusing();
    let issuer = Issuer::new("account");
    let gateway = Files::new()
        .api("pets.yaml", &pets(&[&one, &two, &sandbox, &down, &photos]))
        .issuer("account", &issuer)
        .start();
    let token = |scope: &str| issuer.token().claim("scope", scope);
    for (request, token, expect) in [
        ("GET /pets/2.1.0/opening-hours", None, "one /api/opening-hours"),
        ("GET /pets/opening-hours", None, "two /api/opening-hours"),
        ("GET /pets/2.1.0/pets", None, "401 900902"),
        ("GET /pets/2.1.0/pets", Some(token("pets:read")), "one /api/pets"),
        ("GET /pets/2.1.0/pets", Some(token("pets:write")), "403 900910"),
        ("POST /pets/2.1.0/pets", Some(token("pets:admin")), "two /api/pets"),
        ("DELETE /pets/2.1.0/pets/7", Some(token("pets:admin")), "403 900910"),
        ("DELETE /pets/2.1.0/pets/7", Some(token("pets:admin pets:write")), "one /api/pets/7"),
        (
            "GET /pets/2.1.0/pets",
            Some(token("pets:read").claim("keytype", "SANDBOX")),
            "sandbox /api/pets",
        ),
        (
            "GET /pets/2.1.0/pets/7/photos/a/b.jpg",
            Some(token("pets:read")),
            "photos /pets/7/photos/a/b.jpg",
        ),
        ("PATCH /pets/2.1.0/pets", None, "405 405"),
        ("GET /pets/2.1.0/cats", None, "404 404"),
    ] {
        let field = token.map(|token| format!("Authorization: {}\r\n", token.bearer()));
        let response = gateway.fetch(request, &field.unwrap_or_default());
        let got = if response.status == 200 { response.text() } else { response.status_and_code() };
        assert_eq!(got, expect, "{request}");
    }
    let preflight = gateway.fetch(
        "OPTIONS /pets/2.1.0/pets",
        "Origin: https://pets.example\r\nAccess-Control-Request-Method: POST\r\n",
    );
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://pets.example"));
}
