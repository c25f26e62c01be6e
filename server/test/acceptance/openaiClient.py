"""What the official Python client makes of a server: `python openaiClient.py BASE_URL KEY`. Prints one JSON object."""

import base64
import json
import sys

import openai

base_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key)
question = [{"role": "user", "content": "Count for me please"}]


def failure(call):
    """The class, status, code and param of what a call raises."""
    try:
        result = call()
        if isinstance(result, openai.Stream):
            list(result)
    except openai.APIError as error:
        status = getattr(error, "status_code", None)
        return [type(error).__name__, status, error.code, error.param]
    return None


def ask(model, **more):
    return client.chat.completions.create(model=model, messages=question, **more)


def streamed(model):
    chunks = list(ask(model, stream=True))
    return {
        "text": "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
        "finish": chunks[-1].choices[0].finish_reason,
        "usage": chunks[-1].usage.model_dump(),
    }


def whole(model):
    answer = ask(model)
    return {
        "text": answer.choices[0].message.content,
        "finish": answer.choices[0].finish_reason,
        "usage": answer.usage.model_dump(),
        "request_id": answer._request_id,
    }


def embedded():
    answer = client.embeddings.create(model="svc/vectors", input=["a toll gate", "a toll gate"], encoding_format="float")
    return {
        "model": answer.model,
        "indexes": [item.index for item in answer.data],
        "same": answer.data[0].embedding == answer.data[1].embedding,
        "usage": answer.usage.model_dump(),
    }


def drawn():
    answer = client.images.generate(model="svc/pictures", prompt="A toll gate", n=2, size="256x256")
    return [base64.b64decode(image.b64_json)[:8].hex() for image in answer.data]


stranger = client.with_options(api_key="svc_live_000000000000000000000000")
tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
print(
    json.dumps(
        {
            "answers": [answer(model) for model in ("svc/sandbox", "svc/exact") for answer in (whole, streamed)],
            "models": [model.id for model in client.models.list()],
            "retrieved": client.models.retrieve("svc/sandbox").id,
            "wrong_key": failure(lambda: stranger.chat.completions.create(model="svc/sandbox", messages=question)),
            "unknown_model": failure(lambda: ask("svc/nope")),
            "unknown_model_streamed": failure(lambda: ask("svc/nope", stream=True)),
            "tools": failure(lambda: ask("svc/sandbox", tools=tools)),
            "embedded": embedded(),
            "embedded_unnamed": failure(lambda: client.embeddings.create(model="svc/vectors", input="x")),
            "drawn": drawn(),
            "drawn_as_url": failure(
                lambda: client.images.generate(model="svc/pictures", prompt="x", response_format="url")
            ),
            "down": failure(lambda: ask("svc/down")),
        }
    )
)
