//! An instruction that is the same in every request, so that providers can cache it.

use scratchbook_core::content::{Content, Part};

/// The text of the instruction, and the data that is placed before the conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::agent) struct StaticInstruction {
    pub(in crate::agent) text: String,
    /// Data that the text refers to.
    pub(in crate::agent) contents: Vec<Content>,
}

impl StaticInstruction {
    /// Splits the content into text and data. Returns `None` if the content is empty.
    pub(super) fn of(content: Content) -> Option<Self> {
        let mut texts = Vec::new();
        let mut contents = Vec::new();
        for part in content.parts.into_iter().flatten() {
            if let Some(text) = part.text.filter(|text| !text.is_empty()) {
                texts.push(text);
            } else if let Some(data) = part.inline_data {
                let name = format!("inline_data_{}", contents.len());
                let about = [quoted(data.display_name.as_deref()), kind(data.mime_type.as_deref())];
                texts.push(format!("[Reference to inline binary data: {name}{}]", listed(about)));
                let data = Part { inline_data: Some(data), ..Part::default() };
                contents.push(Content::new("user", vec![Part::text(format!("Referenced inline data: {name}")), data]));
            } else if let Some(data) = part.file_data {
                let name = format!("file_data_{}", contents.len());
                let uri = data.file_uri.as_ref().map(|uri| format!("URI: {uri}"));
                let about = [quoted(data.display_name.as_deref()), uri, kind(data.mime_type.as_deref())];
                texts.push(format!("[Reference to file data: {name}{}]", listed(about)));
                let data = Part { file_data: Some(data), ..Part::default() };
                contents.push(Content::new("user", vec![Part::text(format!("Referenced file data: {name}")), data]));
            }
        }
        (!texts.is_empty()).then(|| Self { text: texts.join("\n\n"), contents })
    }
}

fn quoted(name: Option<&str>) -> Option<String> {
    name.map(|name| format!("'{name}'"))
}

fn kind(mime_type: Option<&str>) -> Option<String> {
    mime_type.map(|kind| format!("type: {kind}"))
}

/// Returns the known properties of the data, in parentheses.
fn listed(about: impl IntoIterator<Item = Option<String>>) -> String {
    let known: Vec<_> = about.into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}
