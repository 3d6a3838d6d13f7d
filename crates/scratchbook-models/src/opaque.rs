//! Data that a provider attaches to its answers and needs back unchanged, such as signatures of thoughts. A part keeps
//! it in its metadata, by the provider and model that attached it. No other model gets it, since it might refuse it.

use serde_json::{Map, Value};

use scratchbook_core::content::Part;
use scratchbook_core::json;

const FIELD: &str = "providerData";

/// Attaches fields to a part. A field with a number that would not survive cannot go back unchanged, so it is left out:
/// the provider may do without it, but not with another one.
pub(super) fn attach(part: &mut Part, origin: &str, mut data: Map<String, Value>) {
    data.retain(|field, value| {
        let lossy = json::unmark(value);
        if let Some(why) = &lossy {
            tracing::warn!(model = origin, field, %why, "attached data is not sent back");
        }
        lossy.is_none()
    });
    if data.is_empty() {
        return;
    }
    let metadata = part.part_metadata.get_or_insert_default();
    let of_origin = metadata.entry(FIELD).or_insert_with(|| Map::new().into());
    if let Some(known) = of_origin.as_object_mut() {
        let fields = known.entry(origin).or_insert_with(|| Map::new().into());
        fields.as_object_mut().into_iter().for_each(|fields| fields.extend(data.clone()));
    }
}

/// Returns the fields that this provider and model attached to a part.
pub(super) fn attached<'a>(part: &'a Part, origin: &str) -> Option<&'a Map<String, Value>> {
    part.part_metadata.as_ref()?.get(FIELD)?.get(origin)?.as_object()
}

/// Removes what any provider has attached.
pub(super) fn detach(part: &mut Part) {
    if let Some(metadata) = &mut part.part_metadata
        && metadata.shift_remove(FIELD).is_some()
        && metadata.is_empty()
    {
        part.part_metadata = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, attach, attached};
    use scratchbook_core::json;

    #[test]
    fn field_with_a_number_that_does_not_survive_is_left_out_and_the_rest_is_attached() {
        for number in ["12345678901234567890123", "-0", "1e400"] {
            let text = format!(r#"{{"extra_content": {{"google": [{number}]}}, "signature": "S", "n": 1.5}}"#);
            let data = json::read_marked(&text).unwrap().as_object().cloned().unwrap();
            let mut part = Part::text("x");
            attach(&mut part, "openai::m", data);
            let kept = attached(&part, "openai::m").unwrap();
            assert_eq!(serde_json::to_string(kept).unwrap(), r#"{"signature":"S","n":1.5}"#, "{number}");
        }
        let mut part = Part::text("x");
        let data = json::read_marked(r#"{"n": -0}"#).unwrap().as_object().cloned().unwrap();
        attach(&mut part, "openai::m", data);
        assert_eq!(part, Part::text("x"));
    }
}
