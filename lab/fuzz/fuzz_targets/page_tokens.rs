//! Page tokens of Vertex AI's lists. A token leads to the place for which it was written, and only its own list accepts
//! it. An accepted text is equal to the token that the list itself writes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::ErrorKind;
use scratchbook_server::page_token::PageTokens;
use serde_json::json;

/// The length of the part of a token that names the list. The fuzzer chooses the bytes after this part.
const NAME_OF_LIST: usize = 16;

fuzz_target!(|text: &str| {
    let (list, other) = (PageTokens::of(&json!(["app", "a"])), PageTokens::of(&json!(["app", "b"])));
    let token = list.write(text);
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
    assert_eq!(list.read(&token).expect("a token of this list"), text);
    assert_eq!(other.read(&token).expect_err("a token of another list").kind(), ErrorKind::InvalidArgument);
    accepted_as_written(&list, text);
    accepted_as_written(&list, &format!("{}{text}", &token[..NAME_OF_LIST]));
});

fn accepted_as_written(list: &PageTokens, token: &str) {
    match list.read(token) {
        Ok(place) => assert_eq!(list.write(&place), token),
        Err(error) => assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().len() < 200),
    }
}
