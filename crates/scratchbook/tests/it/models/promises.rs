//! Promises for every provider: answers that break off, refusals, and retries.

use std::time::{Duration, Instant};

use scratchbook::model::{LlmResponse, RemoteLlm};
use scratchbook::{ErrorKind, Result};
use serde_json::json;

use super::ask::{model, parts, patient, question, streamed, texts, whole};
use super::server::{ModelServer, ScriptedAnswer};
use super::{anthropic, ollama, openai};

/// A provider, and its published example of an answer.
pub(crate) struct Spoken {
    pub(crate) model: &'static str,
    /// The end of an endpoint's URL.
    pub(crate) path: &'static str,
    pub(crate) whole: &'static str,
    pub(crate) stream: &'static str,
    /// The text of the stream.
    pub(crate) text: &'static str,
    /// Returns an answer that sends a stream.
    pub(crate) streaming: fn(&[u8]) -> ScriptedAnswer,
    /// The provider's form of an error in a stream.
    pub(crate) error: &'static str,
}

impl Spoken {
    fn model(&self, server: &ModelServer) -> RemoteLlm {
        model(self.model, server, self.path)
    }

    fn patient(&self, server: &ModelServer) -> RemoteLlm {
        patient(self.model, server, self.path, 2)
    }

    fn streaming(&self, body: &[u8]) -> ScriptedAnswer {
        (self.streaming)(body)
    }

    /// Returns the end of the frame with the first words.
    fn begun(&self) -> usize {
        let words = self.stream.find("Grüße").unwrap();
        let end = words + self.stream[words..].find('\n').unwrap();
        end + self.stream[end..].bytes().take_while(|byte| *byte == b'\n').count()
    }

    /// Returns whether an answer is the whole answer of the example.
    fn is_whole(&self, answer: &Result<LlmResponse>) -> bool {
        answer.as_ref().is_ok_and(|answer| {
            answer.error_code.is_none() && answer.content.as_ref().is_some_and(|said| said.text() == self.text)
        })
    }
}

const ALL: &[&Spoken] = &[&openai::SPOKEN, &anthropic::SPOKEN, &ollama::SPOKEN];

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_read_as_if_it_were_not() {
    for spoken in ALL {
        let body = spoken.stream.as_bytes();
        let server = ModelServer::start((1..body.len()).map(|at| spoken.streaming(body).cut_at([at]))).await;
        let model = spoken.model(&server);
        for at in 1..body.len() {
            let (pieces, last) = streamed(&model, question("Hello!")).await;
            assert!(spoken.is_whole(&last), "{} cut at {at}: {last:?}", spoken.model);
            assert_eq!(texts(&pieces).concat(), spoken.text, "{} cut at {at}", spoken.model);
        }
    }
}

#[tokio::test]
async fn a_stream_that_comes_byte_by_byte_is_read_as_if_it_did_not() {
    for spoken in ALL {
        let body = spoken.stream.as_bytes();
        let server = ModelServer::start([spoken.streaming(body).cut_at(1..body.len())]).await;
        let (pieces, last) = streamed(&spoken.model(&server), question("Hello!")).await;
        assert!(spoken.is_whole(&last), "{}: {last:?}", spoken.model);
        assert_eq!(texts(&pieces).concat(), spoken.text);
    }
}

#[tokio::test]
async fn lines_may_end_with_cr_lf_wherever_they_are_cut() {
    for spoken in ALL {
        let body = spoken.stream.replace('\n', "\r\n");
        let server = ModelServer::start([spoken.streaming(body.as_bytes()).cut_at(1..body.len())]).await;
        let (pieces, last) = streamed(&spoken.model(&server), question("Hello!")).await;
        assert!(spoken.is_whole(&last), "{}: {last:?}", spoken.model);
        assert_eq!(texts(&pieces).concat(), spoken.text);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_never_half_an_answer() {
    for spoken in ALL {
        let body = spoken.stream.as_bytes();
        // The body ends early, in the first case properly and in the second with the connection.
        let ended = (0..body.len()).map(|at| spoken.streaming(&body[..at]));
        let closed = (0..body.len()).step_by(7).map(|at| spoken.streaming(body).closed_after(at));
        let server = ModelServer::start(ended.chain(closed)).await;
        let model = spoken.model(&server);
        let mut broken = 0;
        let all = body.len() + body.len().div_ceil(7);
        for at in 0..all {
            let (pieces, last) = streamed(&model, question("Hello!")).await;
            match &last {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{} after {at}: {error}", spoken.model);
                    broken += 1;
                }
                Ok(_) => assert!(spoken.is_whole(&last), "{} after {at}: {last:?}", spoken.model),
            }
            assert!(spoken.text.starts_with(&texts(&pieces).concat()));
        }
        // An answer can only be whole after its finish reason, so most of these answers are broken.
        assert!(broken > all / 2, "{}: {broken} of {all}", spoken.model);
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_half_way_is_an_error() {
    for spoken in ALL {
        let half = spoken.begun();
        let server = ModelServer::start([spoken.streaming(spoken.stream.as_bytes()).reset_after(half)]).await;
        let (_, last) = streamed(&spoken.model(&server), question("Hello!")).await;
        assert_eq!(last.unwrap_err().kind(), ErrorKind::Unavailable, "{}", spoken.model);
    }
}

#[tokio::test]
async fn pieces_are_shown_as_they_come() {
    use futures_util::StreamExt;
    use scratchbook::model::Llm;
    for spoken in ALL {
        let half = spoken.begun();
        let server = ModelServer::start([spoken.streaming(spoken.stream.as_bytes()).silent_after(half)]).await;
        let mut request = question("Hello!");
        request.stream = true;
        let mut answering = spoken.model(&server).generate(request);
        let first = tokio::time::timeout(Duration::from_secs(10), answering.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(first.partial, Some(true), "{}", spoken.model);
        // Dropping the stream closes the connection.
        drop(answering);
        server.hung_up().await;
    }
}

#[tokio::test]
async fn a_silent_model_is_given_up() {
    for spoken in ALL {
        let half = spoken.begun();
        let halting = spoken.streaming(spoken.stream.as_bytes()).silent_after(half);
        let server = ModelServer::start([ScriptedAnswer::silence(), ScriptedAnswer::silence(), halting]).await;
        let hasty = RemoteLlm::builder(spoken.model)
            .endpoint(format!("{}{}", server.url(), spoken.path))
            .api_key("key")
            .timeout(Duration::from_millis(200))
            .max_retries(0)
            .build()
            .unwrap();
        assert_eq!(whole(&hasty, question("Hello!")).await.unwrap_err().kind(), ErrorKind::Unavailable);
        for _ in 0..2 {
            let (_, last) = streamed(&hasty, question("Hello!")).await;
            assert_eq!(last.unwrap_err().kind(), ErrorKind::Unavailable, "{}", spoken.model);
        }
    }
}

#[tokio::test]
async fn a_slow_stream_is_waited_for() {
    for spoken in ALL {
        let body = spoken.stream.as_bytes();
        let slow = spoken.streaming(body).cut_at((100..body.len()).step_by(100)).slowly(Duration::from_millis(20));
        let server = ModelServer::start([slow]).await;
        let (_, last) = streamed(&spoken.model(&server), question("Hello!")).await;
        assert!(spoken.is_whole(&last), "{}: {last:?}", spoken.model);
    }
}

#[tokio::test]
async fn what_http_says_is_the_kind_of_the_error() {
    let kinds = [
        (400, ErrorKind::InvalidArgument),
        (401, ErrorKind::PermissionDenied),
        (403, ErrorKind::PermissionDenied),
        (404, ErrorKind::NotFound),
        (429, ErrorKind::ResourceExhausted),
        (500, ErrorKind::Unavailable),
        (529, ErrorKind::Unavailable),
    ];
    for spoken in ALL {
        let body = json!({"error": {"type": "some_error", "message": "no, for secret-key is not it"}});
        let server = ModelServer::start(kinds.iter().flat_map(|(status, _)| {
            let answer = ScriptedAnswer::json(*status, &body);
            [answer.clone(), answer]
        }))
        .await;
        let model = spoken.model(&server);
        for (status, kind) in kinds {
            let (_, last) = streamed(&model, question("Hello!")).await;
            for error in [whole(&model, question("Hello!")).await.unwrap_err(), last.unwrap_err()] {
                assert_eq!(error.kind(), kind, "{} {status}: {error}", spoken.model);
                let said = error.to_string();
                assert!(said.contains("is not it") && !said.contains("secret-key"), "{}: {said}", spoken.model);
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_for_now_is_tried_again_when_the_provider_says() {
    for spoken in ALL {
        let later =
            ScriptedAnswer::json(429, &json!({"error": {"message": "slow down"}})).with_header("retry-after", "1");
        let answer = ScriptedAnswer::text(200, "application/json", spoken.whole);
        let streaming = spoken.streaming(spoken.stream.as_bytes());
        let server = ModelServer::start([later.clone(), answer, later, streaming]).await;
        let model = spoken.patient(&server);
        let begin = Instant::now();
        let answer = whole(&model, question("Hello!")).await;
        assert!(answer.is_ok(), "{}: {answer:?}", spoken.model);
        assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
        let (_, last) = streamed(&model, question("Hello!")).await;
        assert!(spoken.is_whole(&last), "{}: {last:?}", spoken.model);
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn a_server_that_fails_for_ever_is_given_up() {
    for spoken in ALL {
        let failing = ScriptedAnswer::text(500, "text/html", "<h1>no</h1>").with_header("retry-after", "0");
        let server = ModelServer::always(failing).await;
        let model = spoken.patient(&server);
        assert_eq!(whole(&model, question("Hello!")).await.unwrap_err().kind(), ErrorKind::Unavailable);
        let (pieces, last) = streamed(&model, question("Hello!")).await;
        assert_eq!(last.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(pieces.is_empty());
        assert_eq!(server.requests().len(), 6, "each is tried three times");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    for spoken in ALL {
        for body in ["", "{", "[]", "{}", "null", "<h1>Hello</h1>"] {
            let server = ModelServer::always(ScriptedAnswer::text(200, "application/json", body)).await;
            let error = whole(&spoken.model(&server), question("Hello!")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{} {body:?}: {error}", spoken.model);
            let framed = format!("data: {body}\n\n");
            for body in [body, framed.as_str()] {
                let server = ModelServer::always(spoken.streaming(body.as_bytes())).await;
                let (pieces, last) = streamed(&spoken.model(&server), question("Hello!")).await;
                let error = last.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{} {body:?}: {error}", spoken.model);
                assert!(pieces.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn malformed_json_in_a_stream_is_an_error() {
    for spoken in ALL {
        let (begin, rest) = spoken.stream.split_at(spoken.begun());
        let body = format!("{begin}data: {{\"type\": oops\n\n{{\"oops\n\n{rest}");
        let server = ModelServer::start([spoken.streaming(body.as_bytes())]).await;
        let (_, last) = streamed(&spoken.model(&server), question("Hello!")).await;
        let error = last.unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("malformed JSON")), (ErrorKind::Unavailable, true));
    }
}

#[tokio::test]
async fn an_error_in_a_stream_is_the_models_word() {
    for spoken in ALL {
        let body = format!("{}{}", &spoken.stream[..spoken.begun()], spoken.error);
        let server = ModelServer::start([spoken.streaming(body.as_bytes())]).await;
        let (pieces, last) = streamed(&spoken.model(&server), question("Hello!")).await;
        let last = last.unwrap();
        assert!(!pieces.is_empty());
        assert!(last.error_code.is_some() && last.error_message.as_deref() == Some("Overloaded"), "{last:?}");
        assert_eq!(last.content, None, "half an answer is none");
    }
}

/// Nothing of the answer was returned yet.
#[tokio::test]
async fn an_error_in_place_of_an_answer_is_as_if_refused() {
    for spoken in ALL {
        let error = spoken.error.lines().find_map(|line| line.find('{').map(|at| &line[at..])).unwrap();
        let complaint = spoken.streaming(spoken.error.as_bytes());
        let at_once = ScriptedAnswer::text(200, "application/json", error);
        let answer = ScriptedAnswer::text(200, "application/json", spoken.whole);
        let stream = spoken.streaming(spoken.stream.as_bytes());
        let server = ModelServer::start([complaint.clone(), stream, at_once.clone(), answer, complaint, at_once]).await;
        let patient = patient(spoken.model, &server, spoken.path, 1);
        let (_, last) = streamed(&patient, question("Hello!")).await;
        assert!(spoken.is_whole(&last), "{}: {last:?}", spoken.model);
        assert!(whole(&patient, question("Hello!")).await.is_ok());
        let hasty = spoken.model(&server);
        let (_, last) = streamed(&hasty, question("Hello!")).await;
        for error in [last.unwrap_err(), whole(&hasty, question("Hello!")).await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", spoken.model);
            assert!(error.to_string().contains("Overloaded"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_published_answer_is_read_whole() {
    for spoken in ALL {
        let server = ModelServer::start([ScriptedAnswer::text(200, "application/json", spoken.whole)]).await;
        let answer = whole(&spoken.model(&server), question("Hello!")).await.unwrap();
        assert_eq!(parts(&answer).as_array().unwrap().len(), 1, "{answer:?}");
        assert_eq!((answer.finish_reason.as_deref(), answer.partial), (Some("STOP"), None));
        assert!(answer.model_version.is_some() && answer.usage_metadata.is_some(), "{answer:?}");
    }
}
