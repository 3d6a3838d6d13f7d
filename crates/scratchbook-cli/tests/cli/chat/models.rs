//! Conversations with remote models.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{assert_in_order, talk};
use crate::Fixture;
use crate::models::{
    KEY, RecordedModel, ScriptedAnswer, gemini_call, gemini_error, gemini_parts, gemini_stuck_after, gemini_text,
    openai_deltas,
};

/// A conversation in progress.
struct Talking {
    process: Child,
    seen: String,
}

impl Talking {
    fn begin(mut command: Command, line: &str) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(process.stdin.as_mut().unwrap(), "{line}").unwrap();
        Self { process, seen: String::new() }
    }

    /// Reads until this text was printed.
    fn until(&mut self, text: &str) {
        let out = self.process.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.seen.ends_with(text) {
            assert_eq!(out.read(&mut byte).unwrap(), 1, "'{text}' does not come after '{}'", self.seen);
            self.seen.push(byte[0].into());
        }
    }

    /// Ends the conversation with Ctrl-C. Returns its exit code and what it printed after Ctrl-C.
    fn interrupt(mut self) -> (String, Option<i32>) {
        Command::new("kill").args(["-INT", &self.process.id().to_string()]).status().unwrap();
        let output = self.process.wait_with_output().unwrap();
        self.seen = String::from_utf8(output.stdout).unwrap();
        (self.seen, output.status.code())
    }
}

#[test]
fn answers_of_gemini_come_as_they_are_made() {
    let fixture = Fixture::empty();
    let pause = Duration::from_millis(300);
    let model = RecordedModel::start([gemini_text(&["Good ", "morning", ", Ann."]).slowly(pause)]);
    let command = model.gemini(&fixture, &["chat", "--model", "gemini-2.5-flash", "--session", "s1"]);
    let mut talking = Talking::begin(command, "Hello");
    talking.until("\nGood ");
    let first = Instant::now();
    talking.until("morning, Ann.\n");
    assert!(first.elapsed() >= pause, "the first piece was shown before the others were there");
    drop(talking.process.stdin.take());
    assert_eq!(talking.process.wait().unwrap().code(), Some(0));
    let heading = &talking.seen[..talking.seen.find("Good").unwrap()];
    assert_in_order(heading, &["model    gemini-2.5-flash", "session  s1, new"]);
    assert!(!heading.contains("note:"), "{heading}");

    let asked = &model.requests()[0];
    assert_eq!(asked.path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    assert_eq!(asked.body["contents"], json!([{"role": "user", "parts": [{"text": "Hello"}]}]));
    let declared = asked.body["tools"][0]["functionDeclarations"].as_array().unwrap();
    assert!(declared.iter().any(|tool| tool["name"] == "add_to_cart"), "{declared:?}");
    let events = fixture.json(&["sessions", "show", "-a", "demo", "-u", "user", "-s", "s1"])["events"].clone();
    assert_eq!(events[2]["content"]["parts"], json!([{"text": "Good morning, Ann."}]));
    assert_eq!(
        (&events[2]["modelVersion"], &events[2]["usageMetadata"]["totalTokenCount"]),
        (&json!("gemini-2.5-flash"), &json!(12))
    );
}

#[test]
fn gemini_calls_tools_and_sees_the_whole_conversation_again() {
    let fixture = Fixture::empty();
    let answers = || {
        [gemini_call("add_to_cart", json!({"items": [{"name": "pear", "quantity": 1}]})), gemini_text(&["It is in."])]
    };
    let model = RecordedModel::start(answers());
    let args = ["chat", "--model", "gemini-2.5-flash", "--session", "s1"];
    let out = talk(model.gemini(&fixture, &args), &["A pear"]).well();
    assert_in_order(
        &out,
        &["    add_to_cart({\"items\":", "    add_to_cart answers", "    cart = {\"pear\":1}", "It is in.\n"],
    );
    let again = RecordedModel::start([gemini_text(&["You are welcome."])]);
    let out = talk(again.gemini(&fixture, &args), &["Thanks"]).well();
    assert_in_order(&out, &["> A pear\nIt is in.\n", "You are welcome."]);
    let contents = again.requests()[0].body["contents"].clone();
    let roles: Vec<_> = contents.as_array().unwrap().iter().map(|content| content["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "model", "user", "model", "user"]);
    assert_eq!(contents[1]["parts"][0]["functionCall"]["name"], "add_to_cart");
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["response"], json!({"cart": {"pear": 1}}));
}

#[test]
fn a_server_that_speaks_as_openai_does_streams_and_calls_tools() {
    let fixture = Fixture::empty();
    let call = |index: u32, name: &str, id: &str, args: &str| {
        json!({"tool_calls": [
            {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": args}}
        ]})
    };
    let more = |args: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": args}}]});
    let model = RecordedModel::start([
        openai_deltas(
            &[
                call(0, "add_to_cart", "call_1", ""),
                more("{\"items\": [{\"name\": \"pe"),
                more("ar\", \"quantity\": 1}]}"),
            ],
            "tool_calls",
        ),
        openai_deltas(&[json!({"role": "assistant", "content": "It "}), json!({"content": "is in."})], "stop"),
    ]);
    let args = ["chat", "--model", "openai::qwen3", "--session", "s1"];
    let out = talk(model.openai(&fixture, &args), &["A pear"]).well();
    assert_in_order(
        &out,
        &["model    openai::qwen3", "    add_to_cart({\"items\":", "    cart = {\"pear\":1}", "It is in.\n"],
    );
    let asked = model.requests();
    assert_eq!((asked[0].path.as_str(), &asked[0].body["model"]), ("/v1/chat/completions", &json!("qwen3")));
    assert_eq!(asked[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let messages = asked[1].body["messages"].as_array().unwrap();
    let answer = messages.iter().find(|message| message["role"] == "tool").unwrap();
    let given: Value = serde_json::from_str(answer["content"].as_str().unwrap()).unwrap();
    assert_eq!((&answer["tool_call_id"], given), (&json!("call_1"), json!({"cart": {"pear": 1}})));
}

#[test]
fn a_model_that_fails_says_why_and_the_conversation_goes_on() {
    let fixture = Fixture::empty();
    let model = RecordedModel::start([
        gemini_error(400, "INVALID_ARGUMENT", "the frobnicator is not supported"),
        gemini_text(&["Here I am."]),
        gemini_text(&["As I said."]),
        gemini_error(403, "PERMISSION_DENIED", &format!("the key {KEY} is not valid")),
    ]);
    let command = model.gemini(&fixture, &["chat", "--model", "gemini-2.5-flash", "--session", "s1"]);
    let said = talk(command, &["Hello", "/retry", "Again?", "Still?"]);
    assert_in_order(&said.err, &["error: ", "the frobnicator is not supported", "error: ", "is not valid"]);
    assert_in_order(&said.out, &["\nHere I am.\n", "\nAs I said.\n"]);
    let asked = |n: usize| model.requests()[n].body["contents"].clone();
    assert_eq!(asked(1), asked(0), "what is asked again is what was asked");
    assert!(!said.err.contains(KEY) && !said.out.contains(KEY), "{} {}", said.out, said.err);
    assert_eq!(said.code, Some(9), "as the last answer went");
    let events = fixture.json(&["sessions", "show", "-a", "demo", "-u", "user", "-s", "s1"])["events"].to_string();
    assert!(events.contains("the frobnicator is not supported") && !events.contains(KEY), "{events}");
}

#[test]
fn thoughts_stand_apart_from_the_answer() {
    let fixture = Fixture::empty();
    let answer = gemini_parts(&[
        json!({"text": "Let me ", "thought": true}),
        json!({"text": "see.", "thought": true}),
        json!({"text": "It is "}),
        json!({"text": "Monday."}),
    ]);
    let model = RecordedModel::start([answer]);
    let command = model.gemini(&fixture, &["chat", "--model", "gemini-2.5-flash", "--session", "s1"]);
    let out = talk(command, &["What day is it?"]).well();
    assert_in_order(&out, &["\nLet me see.\nIt is Monday.\n", "last_reply = \"It is Monday.\""]);
    assert_eq!(out.matches("Let me see.").count(), 1, "{out}");
}

#[test]
fn a_blocked_answer_is_shown_as_such() {
    let fixture = Fixture::empty();
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}});
    let model =
        RecordedModel::start([ScriptedAnswer::events(format!("data: {blocked}\r\n\r\n")), gemini_text(&["Yes."])]);
    let command = model.gemini(&fixture, &["chat", "--model", "gemini-2.5-flash"]);
    let out = talk(command, &["Hello", "Still there?"]).well();
    assert_in_order(&out, &["SAFETY: the model has ended its answer so\n", "\nYes.\n"]);
    assert_eq!(out.matches("SAFETY").count(), 1, "{out}");

    let model = RecordedModel::start([ScriptedAnswer::events(format!("data: {blocked}\r\n\r\n"))]);
    let command = model.gemini(&fixture, &["chat", "--model", "gemini-2.5-flash"]);
    assert_eq!(talk(command, &["Hello"]).code, Some(6), "whoever reads no answer sees it by the exit code");
}

#[test]
fn ctrl_c_in_the_middle_of_an_answer_leaves_a_sound_session() {
    let fixture = Fixture::empty();
    let model = RecordedModel::start([gemini_stuck_after("Once upon "), gemini_text(&["Go on."])]);
    let args = ["chat", "--model", "gemini-2.5-flash", "--session", "s1"];
    let mut talking = Talking::begin(model.gemini(&fixture, &args), "Tell me a story");
    talking.until("Once upon ");
    let (out, code) = talking.interrupt();
    assert_in_order(&out, &["Cut off.", "Continue it with:\nscratchbook chat --session s1"]);
    assert_eq!(code, Some(130));

    fixture.text(&["verify"]);
    let events = fixture.json(&["sessions", "show", "-a", "demo", "-u", "user", "-s", "s1"])["events"].clone();
    assert!(!events.to_string().contains("Once upon"), "a piece of an answer is not stored: {events}");
    let out = talk(model.gemini(&fixture, &args), &["And?"]).well();
    assert_in_order(&out, &["> Tell me a story\n", "\nGo on.\n"]);
}

#[test]
fn with_a_key_the_demo_answers_by_adks_own_model() {
    let fixture = Fixture::empty();
    let model = RecordedModel::start([gemini_text(&["Hello, I am a model."])]);
    let out = talk(model.gemini(&fixture, &["chat"]), &["Hello"]).well();
    assert!(out.contains("Hello, I am a model.") && !out.contains("note:"), "{out}");
    assert!(model.requests()[0].path.contains("/models/gemini-3.5-flash:"), "{:?}", model.requests());
}
