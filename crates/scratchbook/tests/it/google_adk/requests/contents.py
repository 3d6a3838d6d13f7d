"""What google-adk makes of histories: reads cases from standard input, prints for each the contents of the request."""

import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.events.event import Event
from google.adk.flows.llm_flows.context import _contents

for case in json.load(sys.stdin):
    events = [Event.model_validate_json(json.dumps(event)) for event in case["events"]]
    contents = _contents._get_contents if case["include"] == "default" else _contents._get_current_turn_contents
    made = contents(
        case["branch"],
        events,
        case["agent"],
        preserve_function_call_ids=case["ids"],
        node_path="",
    )
    print(json.dumps([content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in made]))
