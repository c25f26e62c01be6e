"""Holds charges for videos, and what clients were told of their jobs, against the clips that were on the wire."""

import hashlib
import math
import os
from fractions import Fraction

from clips import length_of


class Clips:
    """The files that the provider sends, each read and measured once."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "clips")
        self.known = {}

    def of(self, name):
        """Length in seconds (None: no clip) and hash of a file."""
        if name not in self.known:
            with open(os.path.join(self.folder, name + ".mp4"), "rb") as file:
                data = file.read()
            self.known[name] = (length_of(data), hashlib.sha256(data).hexdigest())
        return self.known[name]


def billed(length, asked):
    """The nearest whole second, the later of two that are as near, one at least, and no more than were asked for."""
    return min(max(math.floor(length + Fraction(1, 2)), 1), asked)


def whole_clip(attempts, target=None):
    """The name of the file that came whole; None where none did."""
    names = [
        sent["clip"]
        for sent in attempts
        if sent["video"] == "clip" and sent["end"] == "whole" and target in (None, sent["target"])
    ]
    return names[-1] if names else None


def check_attempts(attempts):
    """A job that may have been taken is never sent again, whoever is asked."""
    taken = [sent for sent in attempts if sent["video"] == "submit" and sent["end"] != "refused"]
    if len(taken) > 1:
        yield "was sent to providers %d times" % len(taken)


def check_charge(charge, call, attempts, clips):
    """What is wrong with a charge for a video, given what its provider sent."""
    if charge["outcome"] != "completed" or charge["isEstimated"]:
        yield "is no charge of a whole video"
    if any(charge[name] != 0 for name in ("prompt", "cached", "completion")):
        yield "has tokens"
    if charge["images"] is not None or charge["pixels"] is not None:
        yield "has images"
    name = whole_clip(attempts, charge["target"].split("/", 1)[1])
    if name is None:
        yield "is for a clip that did not come whole"
        return
    length = clips.of(name)[0]
    if length is None:
        yield "is for what is no clip"
    elif charge["seconds"] != billed(length, call["asked"]):
        yield "has %s seconds, and should have %d" % (charge["seconds"], billed(length, call["asked"]))


def check_answer(call, attempts, cost, clips):
    """What is wrong with how a job ended, given what its provider sent and what was charged (None: nothing)."""
    name = whole_clip(attempts)
    length, sha256 = clips.of(name) if name is not None else (None, None)
    if call["isDoubled"]:
        yield "was made twice with one key"
    if call["cancelStatus"] == "cancelled" and call["jobStatus"] != "cancelled":
        yield "was cancelled and went on"
    if call["jobStatus"] == "cancelled" and not call["isCancelled"]:
        yield "was cancelled by nobody"
    if call["jobStatus"] == "failed" and length is not None:
        yield "failed, and its clip had come whole"
    if call["jobStatus"] == "completed" and length is None:
        yield "is complete without a clip"
    if call["end"] == "whole" and length is not None:
        if call["seconds"] != billed(length, call["asked"]):
            yield "was told %s seconds" % call["seconds"]
        if call["sha256"] != sha256:
            yield "got another file than was sent"
    if call["end"] == "left" and length is not None and cost is None:
        yield "was made to its end and not charged"
