"""How long an mp4 plays, by its boxes (ISO/IEC 14496-12), in exact fractions. Shares nothing with the program under test."""

import struct
from fractions import Fraction

CONTAINERS = {b"moov", b"trak", b"edts", b"mdia", b"minf", b"stbl", b"mvex", b"moof", b"traf"}


class NoClip(Exception):
    """The file is cut off, is something else, or has no picture."""


def length_of(data):
    """Seconds from the first picture that is shown to the end of the last; None for what is no clip."""
    try:
        return Movie(data).length()
    except (NoClip, struct.error):
        return None


def boxes(data, start, end):
    """Type, and where the content is, of each box between two places. Raises NoClip where one goes on beyond the end."""
    while start < end:
        if end - start < 8:
            raise NoClip
        size, kind = struct.unpack_from(">I4s", data, start)
        head = 8
        if size == 1:
            size = struct.unpack_from(">Q", data, start + 8)[0]
            head = 16
        elif size == 0:
            size = end - start
        if size < head or start + size > end:
            raise NoClip
        yield kind, start + head, start + size
        start += size


class Track:
    def __init__(self):
        self.id = 0
        self.handler = b""
        self.timescale = 1
        self.deltas = []
        self.offsets = []
        self.edits = []
        # Decoding time and length of each picture, and by how much later it is shown.
        self.samples = []


class Movie:
    def __init__(self, data):
        self.data = data
        self.tracks = []
        self.defaults = {}
        self.timescale = 1
        kinds = []
        for kind, start, end in boxes(data, 0, len(data)):
            kinds.append(kind)
            if kind == b"moov":
                self.read_movie(start, end)
            elif kind == b"moof":
                self.read_fragment(start, end)
        if not kinds or kinds[0] != b"ftyp" or b"moov" not in kinds or b"mdat" not in kinds:
            raise NoClip

    def read_movie(self, start, end, track=None):
        for kind, at, until in boxes(self.data, start, end):
            if kind == b"trak":
                track = Track()
                self.tracks.append(track)
            if kind in CONTAINERS:
                self.read_movie(at, until, track)
            elif kind == b"mvhd":
                self.timescale = self.number(at, 12, 20)
            elif kind == b"tkhd":
                track.id = self.number(at, 12, 20)
            elif kind == b"mdhd":
                track.timescale = self.number(at, 12, 20)
            elif kind == b"hdlr":
                # A second one, in another place, is not the track's.
                track.handler = track.handler or self.data[at + 8 : at + 12]
            elif kind == b"stts":
                track.deltas = self.table(at, ">II")
            elif kind == b"ctts":
                # Version 0 has none below zero, and none so large that it would look like one.
                track.offsets = self.table(at, ">Ii")
            elif kind == b"elst":
                track.edits = self.table(at, ">QqHH" if self.data[at] == 1 else ">IiHH")
            elif kind == b"trex":
                track_id, _, delta = struct.unpack_from(">III", self.data, at + 4)
                self.defaults[track_id] = delta

    def number(self, at, short, long):
        """A field of a full box, whose place depends on the version."""
        return struct.unpack_from(">I", self.data, at + (long if self.data[at] == 1 else short))[0]

    def table(self, at, form):
        count = struct.unpack_from(">I", self.data, at + 4)[0]
        size = struct.calcsize(form)
        return [struct.unpack_from(form, self.data, at + 8 + index * size) for index in range(count)]

    def read_fragment(self, start, end):
        for kind, at, until in boxes(self.data, start, end):
            if kind == b"traf":
                self.read_run(at, until)

    def read_run(self, start, end):
        track, delta, time = None, 0, 0
        for kind, at, _ in boxes(self.data, start, end):
            flags = int.from_bytes(self.data[at + 1 : at + 4], "big")
            if kind == b"tfhd":
                track_id = struct.unpack_from(">I", self.data, at + 4)[0]
                track = next(each for each in self.tracks if each.id == track_id)
                delta = self.defaults.get(track_id, 0)
                place = at + 8 + (8 if flags & 1 else 0) + (4 if flags & 2 else 0)
                if flags & 8:
                    delta = struct.unpack_from(">I", self.data, place)[0]
            elif kind == b"tfdt":
                time = struct.unpack_from(">Q" if self.data[at] == 1 else ">I", self.data, at + 4)[0]
            elif kind == b"trun":
                count = struct.unpack_from(">I", self.data, at + 4)[0]
                place = at + 8 + (4 if flags & 1 else 0) + (4 if flags & 4 else 0)
                for _ in range(count):
                    own, offset = delta, 0
                    if flags & 0x100:
                        own = struct.unpack_from(">I", self.data, place)[0]
                        place += 4
                    place += (4 if flags & 0x200 else 0) + (4 if flags & 0x400 else 0)
                    if flags & 0x800:
                        offset = struct.unpack_from(">i", self.data, place)[0]
                        place += 4
                    track.samples.append((time, own, offset))
                    time += own

    def length(self):
        track = next((each for each in self.tracks if each.handler == b"vide"), None)
        if track is None:
            raise NoClip
        self.spread(track)
        if not track.samples:
            raise NoClip
        # What comes before the beginning of an edit is not shown; an empty edit is a wait.
        shift = Fraction(0)
        for edit in track.edits:
            length, begins = edit[0], edit[1]
            if begins >= 0:
                shift -= Fraction(begins, track.timescale)
                break
            shift += Fraction(length, self.timescale)
        shown = [(time + offset, time + offset + own) for time, own, offset in track.samples]
        first = Fraction(min(at for at, _ in shown), track.timescale) + shift
        last = Fraction(max(until for _, until in shown), track.timescale) + shift
        length = last - max(first, Fraction(0))
        if length <= 0:
            raise NoClip
        return length

    def spread(self, track):
        """The samples of the tables, one by one."""
        offsets = [offset for count, offset in track.offsets for _ in range(count)]
        time = 0
        for count, delta in track.deltas:
            for _ in range(count):
                index = len(track.samples)
                track.samples.append((time, delta, offsets[index] if index < len(offsets) else 0))
                time += delta
