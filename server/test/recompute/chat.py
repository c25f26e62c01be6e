"""What a call of chat may be charged: by what was on the wire, and by the rules on which reports of it are believed."""

import json

# Around a conversation and around each of its messages: what a model's template may add to a prompt at most.
TEMPLATE_TOKENS = 64
TEMPLATE_TOKENS_EACH = 16
# A report of fewer tokens for so many bytes is checked, and replaced when it is below half of a count.
BYTES_CHECKED = 8
# A prompt of more bytes for each token of its model's context is refused.
BYTES_PER_CONTEXT_TOKEN = 64
# A hold is for so many tokens of output at least, where they are asked for.
STEP_TOKENS = 256
THOUGHT_BYTES = 3
# An answer is stopped past its limit of tokens when it has more pieces than that and so many bytes for each, or far more bytes.
BYTES_PAST_LIMIT = 8
BYTES_FAR_PAST_LIMIT = 128


class Limits:
    """What a call may come to."""

    def __init__(self, call, model):
        self.context = model["context_length"]
        most = TEMPLATE_TOKENS + call["promptBytes"] + TEMPLATE_TOKENS_EACH * call["messages"]
        self.prompt = min(most, self.context)
        asked = min(call["maxTokens"] or model["max_output_tokens"], model["max_output_tokens"])
        # Without a limit in the request the provider was told none.
        self.output = self.context if call["maxTokens"] is None else asked
        self.first_step = min(STEP_TOKENS, asked)

    def within(self, prompt, cached, output):
        """A usage as far as it may be charged: what is beyond the context is cut off the output."""
        prompt = min(prompt, self.prompt)
        return prompt, min(cached, prompt), min(output, self.output, self.context - prompt)


def believed(reported, counted):
    return counted if reported * 2 < counted else reported


def beside_output(prompt, completion, limits):
    """A prompt's count, as far as it can be true: the output that came had room beside the prompt."""
    return min(prompt, max(0, limits.context - completion))


def report_after(sent, pieces, is_last):
    """The last report once so many pieces had come, and whether more came after it; None where there was none."""
    if is_last and sent["final"] is not None:
        return sent["final"], False
    if sent["running"] is not None and pieces > 0:
        return {**sent["running"], "completion": pieces}, False
    middle = sent["middle"]
    if middle is not None and pieces >= middle["completion"]:
        return middle, pieces > middle["completion"]
    return None


def stopped_after(call, sent, limits):
    """The words before the one at which an answer was stopped past its limit; None where it was not."""
    thoughts = sent["thoughts"]
    for words in range(sent["words"] + 1):
        size = words * call["wordBytes"] + thoughts * THOUGHT_BYTES
        if size <= BYTES_PAST_LIMIT * limits.output:
            continue
        if words + thoughts > limits.output or size > BYTES_FAR_PAST_LIMIT * limits.output:
            return max(words - 1, 0)
    return None


def usage_of(call, sent, limits, words, thoughts, is_last, is_stopped=False):
    """What is charged once so much of an answer had come: prompt, cached, completion, and whether any of it was counted."""
    pieces = words + thoughts
    report = report_after(sent, pieces, is_last)
    if is_stopped and report is not None:
        report = report[0], True
    if report is None or max(report[0]["prompt"], report[0]["completion"]) > limits.context:
        return (*limits.within(beside_output(call["promptTokens"], pieces, limits), 0, pieces), True)
    usage, is_behind = report
    prompt, cached, completion = usage["prompt"], usage["cached"], usage["completion"]
    output_bytes = words * call["wordBytes"] + thoughts * THOUGHT_BYTES
    # Of an output that went on after the report, the report says nothing.
    is_output_low = not is_behind and completion * BYTES_CHECKED < output_bytes
    if prompt * BYTES_CHECKED < call["promptBytes"] or is_output_low:
        prompt = believed(prompt, call["promptTokens"])
        completion = believed(completion, pieces)
    if is_behind:
        completion = max(usage["completion"], pieces)
    if prompt != usage["prompt"]:
        prompt = beside_output(prompt, completion, limits)
    is_counted = is_behind or (prompt, completion) != (usage["prompt"], usage["completion"])
    return (*limits.within(prompt, cached, completion), is_counted)


def possible_usages(charge, call, sent, limits):
    """Every usage that a charge may be for. One, where the client has stayed; else it is not known how much was read."""
    outcome = charge["outcome"]
    sent_words, sent_thoughts = sent["words"], sent["thoughts"]
    stopped = stopped_after(call, sent, limits)
    if outcome == "completed" and stopped is not None:
        return {usage_of(call, sent, limits, stopped, sent_thoughts, False, True)}
    if outcome == "completed":
        return {usage_of(call, sent, limits, sent_words, sent_thoughts, True)}
    if outcome in ("cut", "interrupted") and call["end"] != "left":
        return {usage_of(call, sent, limits, call["words"], sent_thoughts, False)}
    found = set()
    for words in range(call["words"], sent_words + 1):
        for thoughts in [sent_thoughts] if words > 0 else range(sent_thoughts + 1):
            usage = usage_of(call, sent, limits, words, thoughts, False)
            found.add(usage)
            if sent["running"] is not None:
                # The piece was read, and the total that came with it was not yet.
                found.add((*usage[:3], True))
    if sent["end"] == "whole":
        found.add(usage_of(call, sent, limits, sent_words, sent_thoughts, True))
    return found


def outcomes_of(call, sent, limits):
    """How a call may have ended, given how it ended for its client and for its provider."""
    may_be_cut = {"cut"} if call["payer"] in ("poor", "capped") else set()
    if call["end"] == "left":
        return {"completed", "cancelled"} | may_be_cut
    if stopped_after(call, sent, limits) is not None:
        # It may have broken off before that.
        return {"completed", "interrupted"} | may_be_cut
    if sent["end"] == "broken":
        return {"interrupted"} | may_be_cut
    if is_without_money(call):
        return {"interrupted"} | may_be_cut
    is_cut = call["code"] is not None or call["finishReason"] == "length"
    return may_be_cut if is_cut else {"completed"}


def is_without_money(call):
    """Whether the database was too late to extend a hold: what was forwarded is charged, and the client is told to try again."""
    return call["code"] == "upstream_unavailable" and call["words"] > 0


def check_charge(charge, call, sent, model, cost_of):
    """What is wrong with a charge. `cost_of` prices tokens at the charge's own instant."""
    limits = Limits(call, model)
    cost = int(charge["costMicrocents"])
    charged = (charge["prompt"], charge["cached"], charge["completion"], charge["isEstimated"])
    if charge["outcome"] not in outcomes_of(call, sent, limits):
        yield "ended as %s" % charge["outcome"]
        return
    # A client may leave while the refusal is on its way.
    if sent["end"] == "refused" and call["end"] != "left":
        yield "is for a target that refused the call"
    if charge["outcome"] == "completed" and sent["end"] != "whole" and stopped_after(call, sent, limits) is None:
        yield "is for a whole answer, which the provider did not send"
    if cost > cost_of(limits.prompt, 0, limits.output):
        yield "costs more than any hold for it was"
    price = cost_of(charge["prompt"], charge["cached"], charge["completion"])
    # Who has little pays no more than could be held: for the first step, and for all that was forwarded.
    is_short = call["payer"] in ("poor", "capped")
    held = cost_of(limits.prompt, 0, min(max(limits.first_step, call["words"]), limits.output))
    if cost > price or (cost < price and not (is_short and cost >= held)):
        yield "costs %d, and should cost %d" % (cost, price)
    usages = possible_usages(charge, call, sent, limits)
    if charged not in usages:
        yield "should be for %s" % json.dumps(sorted(usages)[:3])


def check_answer(call, attempts, cost, context):
    """What is wrong with how a call went, given what its provider had and what was charged (None: nothing)."""
    is_too_long = call["promptBytes"] > BYTES_PER_CONTEXT_TOKEN * context
    if call["isGarbled"]:
        yield "had more in its answer than its words"
    if is_too_long and (attempts or cost is not None):
        yield "is longer than its model takes, and was sent or charged"
    if is_too_long and call["end"] != "left" and (call["status"], call["code"]) != (400, "context_length_exceeded"):
        yield "is longer than its model takes, and was not told so"
    if not is_too_long and call["code"] == "context_length_exceeded":
        yield "was told to be too long"
    if call["end"] != "left":
        return
    at_work = [sent for sent in attempts if sent["end"] in ("open", "whole", "cancelled")]
    if at_work and cost is None:
        yield "left when its prompt was read, and was not charged"
