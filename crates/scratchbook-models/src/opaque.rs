//! Data that a provider attaches to its answers and needs back unchanged, such as signatures of thoughts. A part keeps
//! it in its metadata, by the provider and model that attached it. No other model gets it, since it might refuse it.

use serde_json::{Map, Value};

use scratchbook_core::content::Part;

const FIELD: &str = "providerData";

/// Attaches fields to a part.
pub(super) fn attach(part: &mut Part, origin: &str, data: Map<String, Value>) {
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
