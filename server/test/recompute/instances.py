"""Holds the charges of instances against their lives, as the interface told them, and the prices in the settings."""

import json
import os
from datetime import datetime

MINUTE_MS = 60_000
SECOND_MS = 1_000
SECONDS_AN_HOUR = 3_600


class Instances:
    """Every instance that somebody rented, and the minutes that it must be charged."""

    def __init__(self, folder, settings):
        section = settings.get("instances", {"gpu_types": []})
        self.hours = {each["name"]: each["price_per_hour_microcents"] for each in section["gpu_types"]}
        self.known = {}
        self.due = {}
        with open(os.path.join(folder, "instances.jsonl"), encoding="utf-8") as lines:
            for line in lines:
                instance = json.loads(line)
                self.known[instance["id"]] = instance
                self.due[instance["id"]] = self.minutes_of(instance)
        self.seconds = sum(paid_seconds(instance) for instance in self.known.values())
        self.minutes = sum(len(minutes) for minutes in self.due.values())

    def hour(self, instance):
        """Micro-cents for an hour of the whole instance."""
        return self.hours[instance["gpu_type"]] * instance["gpu_count"]

    def minutes_of(self, instance):
        """What each minute costs in which a paid second of its life ends, by the first millisecond of the minute.

        So many seconds from its creation cost the price of an hour for each, divided and rounded down once; a minute costs
        what its last second has brought that to, less what the last one before it had.
        """
        created, hour = instant_of(instance["created_at"]), self.hour(instance)
        minutes = {}
        for second in range(1, paid_seconds(instance) + 1):
            minute = (created + second * SECOND_MS - 1) // MINUTE_MS * MINUTE_MS
            cost = hour * second // SECONDS_AN_HOUR - hour * (second - 1) // SECONDS_AN_HOUR
            minutes[minute] = minutes.get(minute, 0) + cost
        return minutes

    def check_charge(self, charge):
        """What is wrong with one charge; takes its minute off those that are due."""
        instance = self.known.get(charge["target"].removeprefix("instance/"))
        if instance is None:
            yield "is for an instance that nobody rented"
            return
        for name in ("keyId", "organizationId"):
            if charge[name] != instance[name]:
                yield "has another %s than the instance" % name
        if (charge["model"], charge["tier"]) != ("instance/" + instance["gpu_type"], "serverless"):
            yield "is for another GPU type"
        if any(charge[name] for name in ("prompt", "cached", "completion", "images", "pixels", "seconds", "isEstimated")):
            yield "has what only a call has"
        if charge["outcome"] != "completed":
            yield "is for a call that did not come to its end"
        cost = self.due[instance["id"]].pop(charge["admittedMs"], None)
        if cost is None:
            yield "is for a minute that was charged before, or is none of its life"
        elif cost != int(charge["costMicrocents"]):
            yield "costs %s, and should cost %d" % (charge["costMicrocents"], cost)

    def check_rest(self, instance):
        """What is wrong with an instance, once all charges were seen."""
        for minute in self.due[instance["id"]]:
            yield "was not charged for the minute of %d" % minute
        if instance["ended_at"] is None:
            yield "has not ended"
        told = instance["price_per_hour_cents"]
        # The nearest cent; of two that are as near, the higher one.
        if told != (2 * self.hour(instance) + 1_000_000) // 2_000_000:
            yield "was told a price of %d cents" % told
        if instance["gpuSeconds"] != paid_seconds(instance) * instance["gpu_count"]:
            yield "has %d GPU seconds in its usage" % instance["gpuSeconds"]


def paid_seconds(instance):
    """Whole seconds from its creation to its end. One that never ran costs nothing, unless its customer deleted it."""
    if instance["running_at"] is None and instance["reason"] != "deleted":
        return 0
    return (instant_of(instance["ended_at"]) - instant_of(instance["created_at"])) // SECOND_MS


def instant_of(text):
    """Milliseconds since the epoch."""
    since = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(since.timestamp()) * SECOND_MS + since.microsecond // 1_000
