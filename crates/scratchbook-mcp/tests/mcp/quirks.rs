//! Tests servers that follow the protocol loosely: statuses, cursors, contents, numbers and notifications.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use scratchbook::ErrorKind;
use scratchbook::mcp::{McpLimits, McpToolset, StreamableHttpConnectionParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::hostile::{after_greeting, failure, serve, tool};
use crate::run::calls;

fn toolset(url: &str) -> McpToolset {
    McpToolset::new(StreamableHttpConnectionParams::new(url)).unwrap()
}

/// Returns the answers to two calls of a tool, each in a run of its own, of which only the first one has a quirk.
async fn called_twice(quirk: Value) -> (Value, Value) {
    let called = AtomicUsize::new(0);
    let url = serve(move |request| {
        after_greeting(request, |method| match method {
            "tools/list" => json!({"result": {"tools": [tool("add")]}}),
            _ if called.fetch_add(1, Ordering::Relaxed) == 0 => quirk.clone(),
            _ => json!({"result": {"content": [{"type": "text", "text": "42"}]}}),
        })
    });
    let tools = toolset(&url.await);
    let asked = [("add", json!({}))];
    let begun = Instant::now();
    let first = calls(&tools, &asked).await.unwrap().responses().remove(0);
    let second = calls(&tools, &asked).await.unwrap().responses().remove(0);
    assert!(begun.elapsed() < Duration::from_secs(20), "{first}");
    (first, second)
}

#[tokio::test]
async fn status_of_400_or_more_ends_the_call_and_the_next_call_works() {
    let error = |id: Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "No session"}});
    for (status, body) in [
        ("400 Bad Request", error(Value::Null).to_string()),
        ("400 Bad Request", error("server-error".into()).to_string()),
        ("401 Unauthorized", error(Value::Null).to_string()),
        ("403 Forbidden", "No session".to_owned()),
        ("422 Unprocessable Entity", "No session".to_owned()),
        ("429 Too Many Requests", "No session".to_owned()),
        ("500 Internal Server Error", error(Value::Null).to_string()),
        ("200 OK", error(Value::Null).to_string()),
    ] {
        let (first, second) = called_twice(json!({"status": status, "body": body})).await;
        let message = first["error"].as_str().unwrap();
        assert!(message.ends_with(&format!("did not answer: HTTP {status}: No session")), "{message}");
        assert_eq!(second["content"][0]["text"], "42", "{status}");
    }
}

#[tokio::test]
async fn failure_that_reaches_the_model_names_no_rust_types() {
    for quirk in [
        json!({"status": "404 Not Found", "body": ""}),
        json!({"status": "502 Bad Gateway", "body": "<html>", "type": "text/html"}),
        json!({"type": "text/plain", "body": "42"}),
        json!({"body": "no JSON"}),
        json!({"body": "[]"}),
        json!({"type": "text/event-stream", "body": "data: {}\n\n"}),
        json!({"type": "text/event-stream", "body": ""}),
        json!({"result": {"resultType": "input_required", "inputRequests": {}}}),
        json!({"result": {}, "error": {"code": 1, "message": "both"}}),
    ] {
        let message = called_twice(quirk).await.0.to_string();
        for word in ["::", "rmcp", "Transport", "Serde", "Worker", "Some(", "JsonRpc"] {
            assert!(!message.contains(word), "{message}");
        }
    }
}

#[tokio::test]
async fn pages_are_read_to_the_last_whatever_the_cursor() {
    let page = |tools: &[&str], cursor: Option<&str>| {
        let tools: Vec<_> = tools.iter().map(|name| tool(name)).collect();
        json!({"result": {"tools": tools, "nextCursor": cursor}})
    };
    type Pages = fn(&dyn Fn(&[&str], Option<&str>) -> Value, Option<&str>) -> Value;
    let cases: [(Pages, &[&str]); 5] = [
        (|page, _| page(&["a"], Some("")), &["a"]),
        (|page, _| page(&["a", "b"], Some("same")), &["a", "b"]),
        (|page, cursor| if cursor.is_none() { page(&["a"], Some("")) } else { page(&["b"], None) }, &["a", "b"]),
        (|page, cursor| if cursor.is_none() { page(&[], Some("2")) } else { page(&["a"], None) }, &["a"]),
        (
            |page, cursor| if cursor == Some("x") { page(&["b"], Some("y")) } else { page(&["a"], Some("x")) },
            &["a", "b"],
        ),
    ];
    for (number, (pages, expected)) in cases.into_iter().enumerate() {
        let url = serve(move |request| after_greeting(request, |_| pages(&page, request["params"]["cursor"].as_str())));
        let run = calls(&toolset(&url.await), &[]).await.unwrap();
        let names: Vec<_> = run.requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, expected, "case {number}");
    }
}

#[tokio::test]
async fn pages_without_end_are_read_up_to_a_limit() {
    for has_tools in [true, false] {
        let pages = AtomicUsize::new(0);
        let url = serve(move |request| {
            let number = pages.fetch_add(1, Ordering::Relaxed);
            let tools = if has_tools { vec![tool(&format!("tool{number}"))] } else { Vec::new() };
            after_greeting(request, |_| json!({"result": {"tools": tools, "nextCursor": number.to_string()}}))
        });
        let error = failure(&url.await).await;
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
        let limit = if has_tools { "more than 10 tools" } else { "too many pages" };
        assert!(error.to_string().contains(limit), "{error}");
    }
}

#[tokio::test]
async fn content_of_an_unknown_type_is_given_as_json_and_the_rest_as_it_is() {
    let video = json!({"type": "video", "data": "eA==", "n": 7});
    let content = json!([{"type": "text", "text": "t"}, video, {"type": "image"}]);
    for quirk in [
        json!({"result": {"content": content}}),
        json!({
            "type": "text/event-stream",
            "body": format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": 2, "result": {"content": content}})),
        }),
    ] {
        let (first, _) = called_twice(quirk).await;
        let text = |value: &Value| json!({"type": "text", "text": value.to_string()});
        let expected = json!([{"type": "text", "text": "t"}, text(&video), text(&json!({"type": "image"}))]);
        assert_eq!(first["content"], expected, "{first}");
    }
}

#[tokio::test]
async fn number_beyond_64_bits_refuses_the_result_and_not_the_list_of_tools() {
    let answer = |number: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"content":[],"structuredContent":{{"wei":{number}}}}}}}"#)
    };
    for number in ["123456789012345678901", "-9223372036854775809", "1e400"] {
        for quirk in [
            json!({"body": answer(number)}),
            json!({"type": "text/event-stream", "body": format!("data: {}\n\n", answer(number))}),
        ] {
            let (first, second) = called_twice(quirk).await;
            let message = first["error"].as_str().unwrap();
            assert!(message.contains("the tool's result is refused: "), "{message}");
            assert!(message.contains("64 bits") || message.contains("out of range"), "{message}");
            assert_eq!(second["content"][0]["text"], "42");
        }
    }
    let listed = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[
        {"name":"send","inputSchema":{"type":"object","properties":{"wei":{"maximum":18446744073709551616}}}}]}}"#;
    let url = serve(move |request| after_greeting(request, |_| json!({"body": listed}))).await;
    assert_eq!(calls(&toolset(&url), &[]).await.unwrap().requests[0].tools[0].name, "send");
}

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}"#;

#[tokio::test]
async fn stream_of_notifications_or_comments_without_end_ends_the_call() {
    for piece in [format!("data: {NOTE}\n\n"), ": comment\n\n".to_owned(), "data:\n\n".to_owned()] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let piece = piece.repeat(1000);
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                    let mut sent = stream.write_all(head.as_bytes()).await;
                    while sent.is_ok() {
                        sent = stream.write_all(piece.as_bytes()).await;
                    }
                });
            }
        });
        let limits = McpLimits { notification_bytes: 1 << 20, message_bytes: 1 << 20, ..McpLimits::default() };
        let params = StreamableHttpConnectionParams::new(url).with_timeout(Duration::from_secs(60));
        let error = calls(&McpToolset::builder(params).limits(limits).build().unwrap(), &[]).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
        assert!(error.to_string().contains("McpLimits::notification_bytes"), "{error}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn process_that_writes_notifications_without_end_ends_the_call() {
    use scratchbook::mcp::StdioConnectionParams;

    let greeting = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}"#;
    let script = format!("read line; echo '{greeting}'; exec yes '{NOTE}'");
    let limits = McpLimits { notification_bytes: 1 << 20, ..McpLimits::default() };
    let params = StdioConnectionParams::new("sh", ["-c", &script]).with_timeout(Duration::from_secs(60));
    let error = calls(&McpToolset::builder(params).limits(limits).build().unwrap(), &[]).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert!(error.to_string().contains("more than 1048576 bytes without an answer"), "{error}");
}
