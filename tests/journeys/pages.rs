//! The pages that readers follow step by step work as written.
//!
//! A fenced block `yaml file=NAME` (or toml) is a file; `sh` and `console` are commands, run in order by one shell in
//! an empty folder. In `console`, the lines after a command are its output; `...` stands for any text in a line. Ports
//! of the page are replaced by free ones.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use harness::PATIENCE;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A page's fenced block: its info string and text.
struct Block {
    info: String,
    text: String,
}

/// The reader of a page: a shell in a folder of its own, with `penstock` on its path. Processes that it started are
/// killed when it is dropped.
struct Reader {
    folder: TempDir,
    shell: Child,
    output: BufReader<std::process::ChildStdout>,
    /// Ports as the page has them, and those that are used instead.
    ports: Vec<(u16, u16)>,
}

impl Reader {
    fn new(ports: &[u16]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Bound at the same time, so that they differ.
        let free: Vec<TcpListener> =
            ports.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let free = free.iter().map(|listener| listener.local_addr().unwrap().port());
        let program = harness::penstock();
        let programs = program.parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("bash")
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let output = BufReader::new(shell.stdout.take().unwrap());
        let ports = ports.iter().copied().zip(free).collect();
        Self { folder, shell, output, ports }
    }

    fn with_free_ports(&self, text: &str) -> String {
        let replace = |text: String, (of_page, free): &(u16, u16)| {
            text.replace(&format!(":{of_page}"), &format!(":{free}"))
        };
        self.ports.iter().fold(text.to_owned(), replace)
    }

    fn follow(&mut self, page: &str) -> usize {
        let mut commands = 0;
        for Block { info, text } in blocks(page) {
            let text = self.with_free_ports(&text);
            match info.split_once(" file=") {
                Some((_, name)) => {
                    let file = self.current_folder().join(name);
                    fs::create_dir_all(file.parent().unwrap()).unwrap();
                    fs::write(file, text).unwrap();
                }
                None if info == "sh" => {
                    self.run(&text);
                    commands += 1;
                }
                None if info == "console" => {
                    for (command, expect) in commands_of(&text) {
                        let output = self.run(&command);
                        assert!(is_like(&output, &expect), "{command}: {output:?}, not {expect:?}");
                        commands += 1;
                    }
                }
                None => {}
            }
        }
        commands
    }

    /// Runs commands that must succeed, and returns their output.
    fn run(&mut self, commands: &str) -> String {
        let is_background = commands.trim_end().ends_with('&');
        let commands = match commands.trim_end().strip_suffix('&') {
            // The output of a program that runs on may come at any time.
            Some(command) => format!("{command} >/dev/null &"),
            None => commands.to_owned(),
        };
        let input = self.shell.stdin.as_mut().unwrap();
        // The end of the output, which may have no newline of its own.
        writeln!(input, "{commands}\necho; echo \"-- $?\"").unwrap();
        input.flush().unwrap();
        let mut output = String::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "{commands}: the shell ended");
            if let Some(status) = line.strip_prefix("-- ") {
                assert_eq!(status.trim(), "0", "{commands}: {output}");
                break;
            }
            output.push_str(&line);
        }
        if is_background {
            self.wait_for_ports_of(&commands);
        }
        output.trim_end_matches('\n').to_owned()
    }

    /// Waits until a program that was started in the background accepts connections: at the ports that its command
    /// names, or those of its configuration.
    fn wait_for_ports_of(&self, command: &str) {
        let named = command.split(' ').find(|word| word.ends_with(".toml"));
        let configuration =
            named.map(|file| fs::read_to_string(self.current_folder().join(file)).unwrap());
        let text = format!("{command}\n{}", configuration.unwrap_or_default());
        for (_, port) in &self.ports {
            if text.contains(&format!(":{port}\"")) || text.contains(&format!(":{port} ")) {
                let begin = Instant::now();
                while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                    assert!(begin.elapsed() < PATIENCE, "{command}: nothing listens on {port}");
                    std::thread::yield_now();
                }
            }
        }
    }

    fn current_folder(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/cwd", self.shell.id())).unwrap()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let group = i32::try_from(self.shell.id()).map(Pid::from_raw);
        let _ = group.map(|group| killpg(group, Signal::SIGKILL));
        let _ = self.shell.wait();
        let _ = self.folder.path();
    }
}

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join(name)).unwrap()
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(info) if !is_open => {
                found.push(Block { info: info.to_owned(), text: String::new() });
                is_open = true;
            }
            Some(_) => is_open = false,
            None if is_open => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!is_open, "a block has no end");
    found
}

/// Commands of a `console` block, each with the output that the page shows.
fn commands_of(block: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => panic!("a block `console` begins with `$ `: {block}"),
        }
    }
    found.into_iter().map(|(command, output)| (command, output.trim_end().to_owned())).collect()
}

/// Whether `output` is `expect`, in which `...` stands for any text within a line.
fn is_like(output: &str, expect: &str) -> bool {
    let (output, expect): (Vec<&str>, Vec<&str>) =
        (output.trim_end().lines().collect(), expect.lines().collect());
    output.len() == expect.len()
        && output.iter().zip(expect).all(|(line, expect)| match expect.split_once("...") {
            Some((begin, end)) => {
                line.len() >= begin.len() + end.len()
                    && line.starts_with(begin)
                    && line.trim_end().ends_with(end)
            }
            None => line.trim_end() == expect.trim_end(),
        })
}

#[test]
fn the_first_steps_work_as_written() {
    let mut reader = Reader::new(&[8280, 8688, 9201]);
    assert_eq!(reader.follow(&page("docs/first-steps.md")), 11);
}

#[test]
fn output_is_compared_line_by_line() {
    for (output, expect, is_equal) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("{\"a\":1}", "{...}", true),
        ("{", "{...}", false),
        ("200 429 ", "200 429", true),
        ("200", "201", false),
    ] {
        assert_eq!(is_like(output, expect), is_equal, "{output:?} {expect:?}");
    }
}
