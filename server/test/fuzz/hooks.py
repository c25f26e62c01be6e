"""What schemathesis can't guess: ids of models that are served, cursors of real pages, windows of time that hold something.

Most cases that fit the description get one, the rest go out as they were generated. Also counts what was sent and how
it was answered, for each operation, and writes that to the file that TOLLGATE_FUZZ_COUNTS names when the run ends.
"""

import atexit
import json
import os
from collections import Counter, defaultdict

import schemathesis

KEY = os.environ["TOLLGATE_FUZZ_KEY"]
# Of another organization, whose spending limit is set to whatever comes: nobody pays from it.
LIMITED_KEY = os.environ["TOLLGATE_FUZZ_LIMITED_KEY"]
SEEDS = json.loads(os.environ["TOLLGATE_FUZZ_SEEDS"])
"""`models`: ids by operation. `sizes`, `imagesMost`: what every image model takes. `cursors`: of pages of GET /usage.
`windows`: pairs of instants, the first earlier. `secondsMost`: of the video models. `videos`: ids of jobs, those that are
`complete` and those `underWay`. `endpointCursors`: of pages of GET /webhook-endpoints. `deposits`: `ids`, and `pairs` of a
chain and an asset that it has. `run`: another each time."""

# One case in so many goes out as it was generated.
UNTOUCHED_EVERY = 5

sent = Counter()
counts = defaultdict(lambda: {"requests": 0, "positive": 0, "positive2xx": 0, "streams": 0, "statuses": Counter()})


def nth(name):
    """How often it was called with this name before."""
    sent[name] += 1
    return sent[name] - 1


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


# Not kept: the key depends on the operation.
@schemathesis.auth(refresh_interval=None)
class Key:
    def get(self, case, context):
        return LIMITED_KEY if case.path == "/billing/spending-limit" else KEY

    def set(self, case, data, context):
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Schemathesis takes an event for an object with `data`; the description, as OpenAI's, says what is in the data."""
    for path in raw_schema["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                media = response.get("content", {}).get("text/event-stream")
                if media is not None:
                    content = {"type": "string", "contentMediaType": "application/json", "contentSchema": media["schema"]}
                    media["schema"] = {
                        "type": "object",
                        "required": ["data"],
                        "properties": {"data": {"if": {"not": {"const": "[DONE]"}}, "then": content}},
                    }


@schemathesis.hook
def before_call(context, case, kwargs):
    # Each case is from elsewhere: who guesses at keys from one address is soon told to wait, and that is no finding.
    number = nth("all")
    case.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    label = case.operation.label
    turn = nth(label)
    if not is_positive(case) or turn % UNTOUCHED_EVERY == UNTOUCHED_EVERY - 1:
        return
    turn -= turn // UNTOUCHED_EVERY
    models = SEEDS["models"].get(label)
    if models is not None:
        name_model(case, models[turn % len(models)])
    if case.headers.get("Idempotency-Key"):
        # Generated ones are short and come again with other bodies, which is refused. Of real clients few do that.
        case.headers["Idempotency-Key"] = f"{case.headers['Idempotency-Key'][:200]}{SEEDS['run']}.{number}"
    if label == "POST /chat/completions" and isinstance(case.body, dict) and turn % 3 == 0:
        case.body["stream"] = True
    if label == "GET /usage":
        ask_usage(case, turn)
    if "/videos" in label:
        ask_video(case, label, turn)
    if label == "GET /webhook-endpoints" and "cursor" in case.query:
        case.query["cursor"] = SEEDS["endpointCursors"][turn % len(SEEDS["endpointCursors"])]
    if label == "POST /webhook-endpoints" and isinstance(case.body, dict):
        # Generated ones come again, and an organization has at most two endpoints with the same URL.
        case.body["url"] = f"https://hooks.example/{SEEDS['run']}.{number}"
    if label == "POST /billing/deposits/crypto" and isinstance(case.body, dict):
        pairs = SEEDS["deposits"]["pairs"]
        case.body["chain"], case.body["asset"] = pairs[turn % len(pairs)]
    if label == "GET /billing/deposits/{id}":
        ids = SEEDS["deposits"]["ids"]
        case.path_parameters["id"] = ids[turn % len(ids)]
    if label == "PUT /billing/spending-limit" and isinstance(case.body, dict):
        in_whole_cents(case.body)


def name_model(case, model):
    if "id" in case.path_parameters:
        case.path_parameters["id"] = model
    elif isinstance(case.body, dict):
        case.body["model"] = model
        if case.operation.label == "POST /images/generations":
            fit_image(case.body)
    else:
        case.query["model"] = model


def fit_image(body):
    """By the model's descriptors, which the description can't know."""
    if isinstance(body.get("n"), int):
        body["n"] = 1 + body["n"] % SEEDS["imagesMost"]
    if isinstance(body.get("size"), str):
        sizes = SEEDS["sizes"]
        body["size"] = sizes[len(body["prompt"]) % len(sizes)]


def ask_usage(case, turn):
    query = case.query
    if turn % 3 == 0:
        # A cursor stands for the whole question: beside it only the limit is free.
        for name in ("bucket", "group_by", "start", "end"):
            query.pop(name, None)
        query["cursor"] = SEEDS["cursors"][turn // 3 % len(SEEDS["cursors"])]
        return
    query.pop("cursor", None)
    if "start" in query or "end" in query:
        query["start"], query["end"] = SEEDS["windows"][turn % len(SEEDS["windows"])]


def ask_video(case, label, turn):
    complete, under_way = SEEDS["videos"]["complete"], SEEDS["videos"]["underWay"]
    if label == "POST /videos" and isinstance(case.body, dict):
        fit_video(case.body)
    elif label == "GET /videos" and "after" in case.query:
        case.query["after"] = (complete + under_way)[turn % (len(complete) + len(under_way))]
    elif "id" in case.path_parameters:
        ids = complete if label.endswith("/content") else complete + under_way
        case.path_parameters["id"] = ids[turn % len(ids)]


def fit_video(body):
    """By the model's descriptors; in a form, and in JSON where one likes, a length is text."""
    if body.get("seconds") is not None:
        seconds = 1 + len(body["prompt"]) % SEEDS["secondsMost"]
        body["seconds"] = str(seconds) if isinstance(body["seconds"], str) else seconds
    if body.get("size") is not None:
        sizes = SEEDS["sizes"]
        body["size"] = sizes[len(body["prompt"]) % len(sizes)]


def in_whole_cents(body):
    for name in ("monthly_limit_dollars", "daily_limit_dollars"):
        if isinstance(body.get(name), (int, float)):
            body[name] = round(body[name], 2)


@schemathesis.hook
def after_call(context, case, response):
    status = response.status_code
    # Some checks ask again without a key, or with a wrong one.
    has_key = response.request.headers.get("Authorization") in (f"Bearer {KEY}", f"Bearer {LIMITED_KEY}")
    count = counts[case.operation.label]
    count["requests"] += 1
    count["statuses"][str(status)] += 1
    count["streams"] += response.headers.get("content-type") == ["text/event-stream"]
    if is_positive(case) and (has_key or case.operation.definition.raw.get("security") == []):
        count["positive"] += 1
        count["positive2xx"] += 200 <= status < 300


@atexit.register
def write_counts():
    with open(os.environ["TOLLGATE_FUZZ_COUNTS"], "w", encoding="utf-8") as file:
        json.dump(counts, file)
