//! A body of any size passes through bounded memory.

use std::thread;

use harness::{Client, Files, Process, Upstream};

const BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// A thousandth of the bytes that pass, and more than all buffers of one connection each way.
const GROWTH_BYTES_MAX: u64 = 2 * 1024 * 1024;

#[test]
fn two_gibibytes_up_and_down_do_not_grow_the_memory() {
    let upstream = Upstream::manual();
    let files = Files::new().api(
        "a.yaml",
        &format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
             servers: [{{url: '{}'}}]\nsecurity: []\n\
             paths:\n  /*:\n    get: {{responses: {{}}}}\n    post: {{responses: {{}}}}\n",
            upstream.url()
        ),
    );
    check(&Process::gateway(&files), "http", ("/a/x", BYTES), &upstream);
}

/// One that forwards, and one whose steps are run.
#[test]
fn nor_do_they_through_proxy_services() {
    for steps in ["", "<inSequence><property name=\"a\" value=\"b\"/></inSequence>"] {
        let upstream = Upstream::manual();
        let files = Files::new()
            .toml("[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"synapse/\"]\n");
        std::fs::create_dir(files.path("synapse")).unwrap();
        let proxy = format!(
            "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"P\"><target>{steps}<endpoint>\
             <address uri=\"{}/x\"/></endpoint><outSequence><send/></outSequence></target></proxy>",
            upstream.url()
        );
        files.write("synapse/P.xml", &proxy);
        check(&Process::gateway(&files), "integration_http", ("/services/P", BYTES / 2), &upstream);
    }
}

/// Sends and gets `bytes` through `process`.
fn check(process: &Process, listener: &str, (target, bytes): (&str, u64), upstream: &Upstream) {
    let mut client = Client::connect(process.address(listener));
    // A small exchange first, so that everything allocated by a first request exists.
    client.send(format!("POST {target} HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi"));
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("hi");
    client.read();
    let before = process.memory_bytes("VmRSS");
    let piece = vec![b'x'; 1024 * 1024];
    thread::scope(|scope| {
        scope.spawn(|| {
            client.send(format!(
                "POST {target} HTTP/1.1\r\nHost: me\r\nContent-Length: {bytes}\r\n\r\n"
            ));
            for _ in 0..bytes / piece.len() as u64 {
                client.send(&piece);
            }
            assert_eq!(client.read().text(), "up");
            client.send(format!("GET {target} HTTP/1.1\r\nHost: me\r\n\r\n"));
            assert_eq!(client.read_head().status, 200);
            client.skip(bytes);
        });
        connection.request_head();
        connection.skip(bytes);
        connection.ok("up");
        connection.request();
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n"));
        for _ in 0..bytes / piece.len() as u64 {
            connection.send(&piece);
        }
    });
    let most = process.memory_bytes("VmHWM");
    assert!(most < before + GROWTH_BYTES_MAX, "from {before} to {most} bytes");
}
