"""Recomputes every charge of a run from what was on the wire, and says what is wrong.

Usage: python3 -B recompute.py FOLDER

Reads these files of FOLDER that others wrote, and shares nothing with the program under test but the meaning of its
settings file:

  settings.json    prices and targets, as the gateway was given them; settings-later.json has those of videos afterwards
  change.json      between which instants the later ones came into force; null where they never did
  sent.jsonl       what the provider handed to each connection, and the usage that it reported
  received.jsonl   what each client was told
  instances.jsonl  what clients were told of the instances that they rented, at the end of each
  charges.jsonl    what was charged, out of the database
  accounts.json    credit that was granted, balances that are left and what is held of them
  clips/           the files that the provider sent for videos

All arithmetic is on Python's whole numbers, which have no limit. Prints a line of JSON; `problems` in it is empty when
every charge is right. Keeps its tables in a file of its own, so that memory does not grow with the number of calls.
"""

import base64
import binascii
import json
import os
import sqlite3
import struct
import sys

import chat
import instances
import videos

MICROCENTS_A_CENT = 1_000_000
TOKENS_A_PRICE = 1_000_000
PIXELS_A_PRICE = 1_000_000
SHOWN_PROBLEMS = 50
DAY_MS = 86_400_000
# The gateway counts by the clock of its database, which it knows to half of a round trip (E20): tens of milliseconds where the machine is
# busy. So far may an instant of admission be from the clients' clock.
CLOCK_SLACK_MS = 100
# Of so many charges, one may be for an answer whose hold the database was too late to extend.
CHARGES_A_LATE_EXTENSION = 100_000
# Of so many clients that leave, one may have done so while its request was on its way: sent, and not yet read.
LEFT_A_LOST_PROMPT = 10_000


class Prices:
    """What is sold at which price: tokens by model, tier and time of day, images and seconds of video by model and tier."""

    def __init__(self, settings):
        self.later = None
        self.change = None
        self.tables = {}
        self.targets = {}
        self.modality = {}
        self.models = {}
        self.parameters = {}
        for model in settings["models"]:
            self.modality[model["id"]] = model.get("modality", "chat")
            self.models[model["id"]] = model
            self.parameters[model["id"]] = {each["name"]: each for each in model.get("parameters", [])}
            tiers = {"serverless": model}
            if "economy" in model:
                tiers["economy"] = model["economy"]
            for tier, section in tiers.items():
                self.tables[model["id"], tier] = section["pricing"]
                self.targets[model["id"], tier] = {
                    target["provider"] + "/" + target["model"] for target in section["targets"]
                }

    def rate(self, model, tier, at_ms):
        """Micro-cents for a million tokens in force at an instant: input, cached input (None without one), output."""
        table = self.tables[model, tier]
        if "peak_windows_utc" in table:
            minute = at_ms // 60_000 % 1_440
            is_peak = any(covers(window, minute) for window in table["peak_windows_utc"])
            table = table["peak" if is_peak else "off_peak"]
        return (
            amount(table, "input_per_1m_tokens"),
            amount(table, "cached_input_per_1m_tokens"),
            amount(table, "output_per_1m_tokens") or 0,
        )

    def cost(self, model, tier, at_ms, prompt, cached, completion):
        """Micro-cents: the classes of tokens added up, divided once, rounded up once."""
        rate_input, rate_cached, rate_output = self.rate(model, tier, at_ms)
        if rate_cached is None:
            rate_cached = rate_input
        total = (prompt - cached) * rate_input + cached * rate_cached + completion * rate_output
        return divide_up(total, TOKENS_A_PRICE)

    def cost_of_embeddings(self, model, tier, at_ms, prompt):
        """A whole number of cents, and one at least."""
        exact = self.cost(model, tier, at_ms, prompt, 0, 0)
        return max(1, divide_up(exact, MICROCENTS_A_CENT)) * MICROCENTS_A_CENT

    def cost_of_images(self, model, tier, count, pixels):
        """By the image, or by the million pixels of all of them, rounded up once."""
        table = self.tables[model, tier]
        each = amount(table, "per_image")
        if each is not None:
            return count * each
        return divide_up(pixels * table["per_mpxl_microcents"], PIXELS_A_PRICE)

    def cost_of_video(self, model, tier, seconds):
        """A whole number of cents, at these prices."""
        exact = seconds * amount(self.tables[model, tier], "per_video_second")
        return divide_up(exact, MICROCENTS_A_CENT) * MICROCENTS_A_CENT

    def costs_of_video(self, model, tier, at_ms, seconds):
        """By what was in force at the creation of its job: while the prices changed, either."""
        costs = set()
        if self.change is None or at_ms < self.change["untilMs"]:
            costs.add(self.cost_of_video(model, tier, seconds))
        if self.change is not None and at_ms >= self.change["fromMs"]:
            costs.add(self.later.cost_of_video(model, tier, seconds))
        return costs

    def asked_images(self, model, count, size):
        """How many images a request is for, and how many pixels of each are paid for: None where nobody said a size."""
        known = self.parameters[model]
        if count is None:
            count = known["n"].get("default", 1)
        sizes = known.get("size", {}).get("enum", [])
        size = size or known.get("size", {}).get("default")
        pixels = [area(each) for each in ([size] if size else sizes)]
        return count, max(pixels) if pixels else None


def divide_up(amount_of, by):
    return -(-amount_of // by)


def area(size):
    width, height = size.split("x")
    return int(width) * int(height)


def pixels_of(head):
    """The pixels of an image by the header in the first characters of its base64; None for what is no image."""
    try:
        data = base64.b64decode(head or "", validate=True)
    except binascii.Error:
        return None
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        width, height = struct.unpack(">II", data[16:24])
    elif data[:4] == b"\xff\xd8\xff\xe0":
        frame = 4 + struct.unpack(">H", data[4:6])[0]
        height, width = struct.unpack(">HH", data[frame + 5 : frame + 9])
    elif data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
    else:
        return None
    return width * height


def amount(table, name):
    """The exact form where there is one, else the cents."""
    if name + "_microcents" in table:
        return table[name + "_microcents"]
    if name + "_cents" in table:
        return table[name + "_cents"] * MICROCENTS_A_CENT
    return None


def covers(window, minute):
    """From the start up to, and without, the end; a window may run over midnight."""
    start, end = minutes(window["start"]), minutes(window["end"])
    if end == 0:
        end = 1_440
    if start < end:
        return start <= minute < end
    return minute >= start or minute < end


def minutes(time_of_day):
    hours, rest = time_of_day.split(":")
    return int(hours) * 60 + int(rest)


class Books:
    """The files as tables."""

    def __init__(self, folder):
        self.clips = videos.Clips(folder)
        path = os.path.join(folder, "recompute.sqlite")
        self.database = sqlite3.connect(path)
        self.database.executescript(
            """
            pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -65536;
            create table sent (call integer, target text, line text);
            create table received (call integer primary key, charge text, key text, started integer, early integer,
              line text);
            """
        )
        self.fill(folder, "sent.jsonl", "insert into sent values (?, ?, ?)", lambda r: (r["call"], r["target"]))
        self.fill(
            folder,
            "received.jsonl",
            "insert into received values (?, ?, ?, ?, ?, ?)",
            lambda r: (r["call"], r["chargeId"], r["keyId"], r["startedMs"], int(r["isEarly"])),
        )
        self.database.executescript(
            """
            create index sent_call on sent (call);
            create unique index received_charge on received (charge) where charge is not null;
            create index received_early on received (key, started) where early = 1;
            create table charged (call integer primary key, cost integer) without rowid;
            """
        )

    def fill(self, folder, name, statement, keys):
        with open(os.path.join(folder, name), encoding="utf-8") as lines:
            self.database.executemany(statement, (keys(json.loads(line)) + (line,) for line in lines))

    def call_of(self, charge):
        """What the client of a charge was told. A client that can't know its charge has a key to itself while it calls."""
        row = self.database.execute("select line from received where charge = ?", (charge["id"],)).fetchone()
        if row is None:
            row = self.database.execute(
                "select line from received where early = 1 and key = ? and started <= ? order by started desc limit 1",
                (charge["keyId"], charge["admittedMs"] + CLOCK_SLACK_MS),
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def sent_for(self, call):
        """Every attempt at a call."""
        rows = self.database.execute("select line from sent where call = ?", (call,))
        return [json.loads(line) for (line,) in rows]

    def note(self, call, cost):
        """False: the call was charged before."""
        try:
            self.database.execute("insert into charged values (?, ?)", (call, cost))
            return True
        except sqlite3.IntegrityError:
            return False

    def answers(self):
        """Every call beside what it was charged: None for nothing."""
        rows = self.database.execute(
            "select received.line, charged.cost from received left join charged using (call) order by call"
        )
        for line, cost in rows:
            yield json.loads(line), cost


def attempt_at(target, attempts):
    """The attempt at a target that came to something, if any did: one that it refused may have been followed by another."""
    own = [sent for sent in attempts if sent["target"] == target]
    taken = [sent for sent in own if sent["end"] != "refused"]
    return (taken or own or [None])[0]


def check_attempts(call, attempts):
    """Nobody is asked again who may be at work; an image or a video is begun once, whoever makes it."""
    if call["kind"] == "video":
        yield from videos.check_attempts(attempts)
        return
    taken = [sent["target"] for sent in attempts if sent["end"] not in ("refused", "unread")]
    if len(taken) != len(set(taken)):
        yield "was sent again to a target that had taken it"
    if call["kind"] == "image" and len(taken) > 1:
        yield "was begun %d times" % len(taken)
    if call["kind"] != "chat" and any(sent["end"] == "cancelled" for sent in attempts):
        yield "was broken off at its provider, which had all of the request"


def check_charge(charge, call, attempts, books, prices):
    """What is wrong with one charge, given what its client was told and what the provider sent."""
    sent = attempt_at(charge["target"].split("/", 1)[1], attempts)
    modality = charge["modality"] or "chat"
    costs = costs_of(charge, prices)
    if costs is not None and int(charge["costMicrocents"]) not in costs:
        yield "costs %s, and should cost %s" % (charge["costMicrocents"], " or ".join(map(str, sorted(costs))))
    if modality != call["kind"] or modality != prices.modality[charge["model"]]:
        yield "is for another kind of call"
        return
    for name in ("model", "tier", "keyId"):
        if charge[name] != call[name]:
            yield "has another %s than the call" % name
    has_left = call["isEarly"] and call["end"] not in ("whole", "error")
    latest = charge["admittedMs"] if has_left else call["endedMs"]
    if not call["startedMs"] - CLOCK_SLACK_MS <= charge["admittedMs"] <= latest + CLOCK_SLACK_MS:
        yield "was admitted before the call began or after it ended"
    if charge["target"] not in prices.targets[charge["model"], charge["tier"]]:
        yield "names a target that is not the model's"
    if sent is None:
        if not may_be_unseen(charge, call):
            yield "is for a call that its target never had"
        return
    if modality == "video":
        yield from videos.check_charge(charge, call, attempts, books.clips)
        return
    if modality != "chat":
        yield from check_whole(charge, call, sent, prices)
        return
    yield from chat.check_charge(charge, call, sent, prices.models[charge["model"]], lambda *tokens: prices.cost(
        charge["model"], charge["tier"], charge["admittedMs"], *tokens))


def may_be_unseen(charge, call):
    """A prompt that the system had taken for its target, and lost with the connection when the client left at once."""
    return call["kind"] == "chat" and call["end"] == "left" and (charge["outcome"], charge["completion"]) == ("cancelled", 0)


def costs_of(charge, prices):
    """What a charge may cost, by what it says was used: one amount, but for videos of the seconds in which prices
    changed. None: it is a chat's, which may be smaller than its price."""
    model, tier, at_ms = charge["model"], charge["tier"], charge["admittedMs"]
    if charge["modality"] == "embedding":
        return {prices.cost_of_embeddings(model, tier, at_ms, charge["prompt"])}
    if charge["modality"] == "image":
        return {prices.cost_of_images(model, tier, charge["images"], charge["pixels"])}
    if charge["modality"] == "video":
        return prices.costs_of_video(model, tier, at_ms, charge["seconds"])
    return None


def check_whole(charge, call, sent, prices):
    """Holds a charge for embeddings or images against what was on the wire."""
    if sent["end"] != "whole":
        yield "is for an answer that the provider did not send"
        return
    if charge["outcome"] != "completed" or charge["cached"] != 0 or charge["completion"] != 0:
        yield "has what only a chat has"
    if charge["modality"] == "embedding":
        expected, is_counted, most = embedding_tokens(call, sent["usage"], prices.models[charge["model"]]["context_length"])
        if charge["isEstimated"] != is_counted:
            yield "is estimated, or not, against what was reported"
        if charge["prompt"] != expected:
            yield "has %d tokens, and should have %d" % (charge["prompt"], expected)
        at = (charge["model"], charge["tier"], charge["admittedMs"])
        if int(charge["costMicrocents"]) > prices.cost_of_embeddings(*at, most):
            yield "costs more than any hold for it was"
        if charge["images"] is not None or charge["pixels"] is not None:
            yield "has images"
        return
    images, pixels = delivered(call, sent, prices)
    if charge["prompt"] != 0 or charge["isEstimated"]:
        yield "has tokens"
    if charge["images"] != len(images) or charge["pixels"] != pixels:
        yield "has not the images on the wire, %d of %d pixels" % (len(images), pixels)


def embedding_tokens(call, usage, context):
    """The tokens that are charged, whether they were counted, and the most that there can be."""
    most = sum(min(size + chat.TEMPLATE_TOKENS_EACH, context) for size in call["textBytes"])
    # Of a text that is longer than the context no more is read.
    counted = sum(min(words, context) for words in call["textWords"])
    reported = None if usage is None else usage.get("prompt_tokens", usage.get("total_tokens"))
    if type(reported) is not int or not 0 <= reported <= most:
        return counted, True, most
    tokens = reported
    if reported * chat.BYTES_CHECKED < sum(call["textBytes"]):
        tokens = chat.believed(reported, counted)
    return tokens, tokens != reported, most


def delivered(call, sent, prices):
    """The images of an answer that are some, up to as many as were asked for, and the pixels that are paid for."""
    count, most = prices.asked_images(call["model"], call["count"], call["size"])
    images = [(head, pixels_of(head)) for head in sent["images"]]
    images = [(head, pixels) for head, pixels in images if pixels is not None][:count]
    paid = sum(pixels if most is None else min(pixels, most) for _, pixels in images)
    return [head for head, _ in images], paid


def check_told(charge, call, sent, prices):
    """What a whole answer holds is what was sent, and what was charged."""
    if call["end"] != "whole" or sent is None:
        return
    if call["kind"] == "embedding":
        if not call["vectorsAreRight"]:
            yield "came with other vectors than those of its texts"
        if call["promptTokens"] != charge["prompt"]:
            yield "was shown as %s tokens" % call["promptTokens"]
    elif call["kind"] == "image":
        if call["images"] != delivered(call, sent, prices)[0]:
            yield "came with other images than were sent"
        if call["imageCount"] != charge["images"]:
            yield "was shown as %s images" % call["imageCount"]


def check_answer(call, attempts, cost):
    """What is wrong with what a client was told, given what it was charged: None for nothing."""
    told = None if call["costMicrocents"] is None else int(call["costMicrocents"])
    if call["end"] == "broken":
        yield "was broken off without a word"
    if call["end"] == "whole" and cost is None:
        yield "came whole and was not charged"
    if call["end"] == "whole" and told is None:
        yield "came whole and did not say what it cost"
    if told is not None and told != cost:
        yield "was told a cost of %d and charged %s" % (told, cost)
    if call["end"] == "error" and told is None and cost is not None:
        yield "failed and was charged"
    if call["kind"] in ("embedding", "image") and call["end"] == "left" and cost is None:
        if any(sent["end"] == "whole" for sent in attempts):
            yield "was made to its end and not charged"


def check_usage_told(charge, call, prices):
    """The usage in a whole answer is the one that was charged."""
    if call.get("usage") is None or call["end"] != "whole":
        return
    has_cached_rate = prices.rate(charge["model"], charge["tier"], charge["admittedMs"])[1] is not None
    expected = {
        "prompt": charge["prompt"],
        "completion": charge["completion"],
        "cached": charge["cached"] if has_cached_rate and charge["cached"] > 0 else None,
    }
    if call["usage"] != expected:
        yield "was shown as %s" % json.dumps(call["usage"])


def main(folder):
    def read(name):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)

    prices = Prices(read("settings.json"))
    prices.later = Prices(read("settings-later.json"))
    prices.change = read("change.json")
    accounts = read("accounts.json")
    books = Books(folder)
    rented = instances.Instances(folder, read("settings.json"))
    problems = Problems()
    spent = {}
    spent_in_day = {}
    counts = dict.fromkeys(
        (
            "charges",
            "estimated",
            "cached",
            "peak_and_off_peak",
            "early",
            "embeddings",
            "images",
            "partial",
            "videos",
            "video_seconds",
            "frozen",
            "left",
            "unseen",
            "without_money",
        ),
        0,
    )
    sides = {}
    outcomes = {}
    with open(os.path.join(folder, "charges.jsonl"), encoding="utf-8") as lines:
        for line in lines:
            charge = json.loads(line)
            cost = int(charge["costMicrocents"])
            spent[charge["organizationId"]] = spent.get(charge["organizationId"], 0) + cost
            day = (charge["organizationId"], charge["admittedMs"] // DAY_MS)
            spent_in_day[day] = spent_in_day.get(day, 0) + cost
            counts["charges"] += 1
            counts["estimated"] += charge["isEstimated"]
            counts["cached"] += charge["cached"] > 0
            if charge["modality"] == "instance":
                problems.add("charge", charge, rented.check_charge(charge))
                continue
            outcomes[charge["outcome"]] = outcomes.get(charge["outcome"], 0) + 1
            if (charge["model"], charge["tier"]) not in prices.tables:
                problems.add("charge", charge, ["has no price in the settings"])
                continue
            if prices.modality[charge["model"]] in ("chat", "embedding"):
                rate = prices.rate(charge["model"], charge["tier"], charge["admittedMs"])
                sides.setdefault((charge["model"], charge["tier"]), set()).add(rate)
            call = books.call_of(charge)
            if call is None:
                problems.add("charge", charge, ["is for a call that nobody made"])
                continue
            counts["early"] += call["kind"] == "chat" and call["chargeId"] is None
            counts["embeddings"] += call["kind"] == "embedding"
            counts["images"] += call["kind"] == "image"
            counts["videos"] += call["kind"] == "video"
            counts["video_seconds"] += charge["seconds"] or 0
            if call["kind"] == "video" and prices.change is not None:
                is_before = charge["admittedMs"] < prices.change["fromMs"]
                counts["frozen"] += is_before and call["endedMs"] > prices.change["untilMs"]
            if call["kind"] == "image" and charge["images"] is not None:
                counts["partial"] += charge["images"] < prices.asked_images(call["model"], call["count"], call["size"])[0]
            if not books.note(call["call"], cost):
                problems.add("charge", charge, ["is the second for call %d" % call["call"]])
            attempts = books.sent_for(call["call"])
            sent = attempt_at(charge["target"].split("/", 1)[1], attempts)
            counts["unseen"] += sent is None and may_be_unseen(charge, call)
            is_broken = sent is None or sent["end"] == "broken"
            counts["without_money"] += charge["outcome"] == "interrupted" and not is_broken and chat.is_without_money(call)
            problems.add("charge", charge, check_charge(charge, call, attempts, books, prices))
            problems.add("charge", charge, check_usage_told(charge, call, prices))
            problems.add("charge", charge, check_told(charge, call, sent, prices))
    for instance in rented.known.values():
        problems.add("instance", instance, rented.check_rest(instance))
    counts["instances"] = len(rented.known)
    counts["instance_minutes"] = rented.minutes
    counts["instance_seconds"] = rented.seconds
    calls = 0
    for call, cost in books.answers():
        calls += 1
        counts["left"] += call["end"] == "left"
        attempts = books.sent_for(call["call"])
        problems.add("call", call, check_answer(call, attempts, cost))
        if call["kind"] == "chat":
            problems.add("call", call, chat.check_answer(call, attempts, cost, prices.models[call["model"]]["context_length"]))
        problems.add("call", call, check_attempts(call, attempts))
        if call["kind"] == "video":
            problems.add("call", call, videos.check_answer(call, attempts, cost, books.clips))
    if counts["unseen"] > 1 + counts["left"] // LEFT_A_LOST_PROMPT:
        problems.add("run", counts, ["has too many charges for prompts that no target ever had"])
    # On a machine that is busy with other things, now and then; never many.
    if counts["without_money"] > 1 + counts["charges"] // CHARGES_A_LATE_EXTENSION:
        problems.add("run", counts, ["has too many answers that broke off since their hold could not be extended in time"])
    limits = {account["organizationId"]: account["dailyLimit"] for account in accounts}
    days = {day for _, day in spent_in_day}
    for (organization, day), microcents in spent_in_day.items():
        limit = limits.get(organization)
        # A call that runs over midnight is charged to the day before, and has the room of the day after.
        if limit is not None and len(days) == 1 and microcents > int(limit):
            problems.add("account", {"organizationId": organization}, ["spent %d of %s in a day" % (microcents, limit)])
    for account in accounts:
        left = int(account["granted"]) - spent.pop(account["organizationId"], 0)
        if left != int(account["balance"]):
            problems.add("account", account, ["should have %d left" % left])
        if int(account["balance"]) < 0:
            problems.add("account", account, ["is below nothing, and nobody took anything from it"])
        if int(account["held"]) != 0:
            problems.add("account", account, ["has something held for work that is over"])
    for organization, microcents in spent.items():
        problems.add("account", {"organizationId": organization}, ["was charged %d and has no account" % microcents])
    counts["peak_and_off_peak"] = sum(len(rates) > 1 for rates in sides.values())
    result = {"calls": calls, **counts, "outcomes": outcomes, "found": problems.found, "problems": problems.shown}
    print(json.dumps(result))


class Problems:
    """All are counted, the first are shown."""

    def __init__(self):
        self.found = 0
        self.shown = []

    def add(self, kind, what, texts):
        for text in texts:
            self.found += 1
            if len(self.shown) < SHOWN_PROBLEMS:
                self.shown.append("%s %s: %s" % (kind, text, json.dumps(what)))


main(sys.argv[1])
