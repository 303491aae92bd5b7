//! A body of any size passes through bounded memory.

use std::thread;

use harness::{Client, Files, Process, Upstream};

const BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// A thousandth of what passes, and more than all buffers of one connection each way.
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
    let process = Process::gateway(&files);
    let mut client = Client::connect(process.address("http"));
    // A small exchange first, so that everything allocated by a first request exists.
    client.send("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\nhi");
    let mut connection = upstream.accept();
    connection.request();
    connection.ok("hi");
    client.read();
    let before = process.memory_bytes("VmRSS");
    let piece = vec![b'x'; 1024 * 1024];
    thread::scope(|scope| {
        scope.spawn(|| {
            client
                .send(format!("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: {BYTES}\r\n\r\n"));
            for _ in 0..BYTES / piece.len() as u64 {
                client.send(&piece);
            }
            assert_eq!(client.read().text(), "up");
            client.send("GET /a/x HTTP/1.1\r\nHost: me\r\n\r\n");
            assert_eq!(client.read_head().status, 200);
            client.skip(BYTES);
        });
        connection.request_head();
        connection.skip(BYTES);
        connection.ok("up");
        connection.request();
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"));
        for _ in 0..BYTES / piece.len() as u64 {
            connection.send(&piece);
        }
    });
    let most = process.memory_bytes("VmHWM");
    assert!(most < before + GROWTH_BYTES_MAX, "from {before} to {most} bytes");
}
