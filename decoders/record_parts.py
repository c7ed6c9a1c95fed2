"""Where in a ``records`` field each field of its batches and records lies: parts, as `decoders.parts` has them.

Layouts are those of the protocol guide ("Record Batch", "Record"; KIP-98), and its former "Message Set" (KIP-31,
KIP-32). Records are parts where they are not compressed; compressed ones are one part, for inside of it offsets have
another meaning. Nothing is raised: what makes no sense is one part to the field's end.
"""

from __future__ import annotations

from kafkascope.decoders.interpreter import BytesReader, DecodeError
from kafkascope.decoders.parts import Kind, Part
from kafkascope.decoders.records import CODEC_BITS, LEAST_BYTES, UP_TO_MAGIC_BYTES, magic_and_size

_BATCH_FIELDS = (
    ("baseOffset", "int64"),
    ("batchLength", "int32"),
    ("partitionLeaderEpoch", "int32"),
    ("magic", "int8"),
    ("crc", "uint32"),
    ("attributes", "int16"),
    ("lastOffsetDelta", "int32"),
    ("baseTimestamp", "int64"),
    ("maxTimestamp", "int64"),
    ("producerId", "int64"),
    ("producerEpoch", "int16"),
    ("baseSequence", "int32"),
    ("recordsCount", "int32"),
)
_MESSAGE_FIELDS = (
    ("offset", "int64"),
    ("messageSize", "int32"),
    ("crc", "uint32"),
    ("magic", "int8"),
    ("attributes", "int8"),
    ("timestamp", "int64"),  # magic 1 alone
)
_VARINT = "VARINT"

RECORDS = "Records"
"""The type of the single records of a batch."""
MOST_RECORDS = 20_000
"""Records of a message that are parts; those of a batch with more than what is left are one part."""
MOST_HEADERS = 1000
"""Headers of a record that are parts."""


def add_batches(body: Part, data: bytes) -> None:
    """Give the records fields of a body their batches as parts. data: what the body's offsets count in.

    A message of magic 0 or 1 stands for a batch.
    """
    records_left = MOST_RECORDS
    for part in list(body.walk()):
        if part.definition is not None and part.definition.type == "records" and isinstance(part.value, bytes):
            end = part.end
            part.head -= len(part.value)
            part.parts = _batches(data, part.offset + part.head, end, records_left)
            records_left -= sum(len(batch.parts[-1].parts) for batch in part.parts if batch.parts)


def _batches(data: bytes, at: int, end: int, most_records: int) -> list[Part]:
    batches: list[Part] = []
    while at < end:
        reader = _RecordReader(data, at)
        magic, size = magic_and_size(data, at) if end - at >= UP_TO_MAGIC_BYTES else (-1, 0)
        name = f"[{len(batches)}]"
        if not 0 <= magic < len(LEAST_BYTES) or not LEAST_BYTES[magic] <= size <= end - at:
            reader.end = end
            batches.append(reader.rest(name, "incomplete batch"))
            return batches
        reader.end = at + size
        if magic == 2:
            batches.append(reader.batch(name, most_records))
            most_records -= len(batches[-1].parts[-1].parts)
        else:
            batches.append(reader.message(name, magic))
        at += size
    return batches


class _RecordReader(BytesReader):
    __slots__ = ()

    def batch(self, name: str, most_records: int) -> Part:
        batch = Part(name, Kind.STRUCT, "RecordBatch", self.at)
        batch.parts = [self.field(*one) for one in _BATCH_FIELDS]
        values = {part.name: part.value for part in batch.parts}
        count, attributes, start = values["recordsCount"], values["attributes"], self.at
        assert isinstance(count, int)
        assert isinstance(attributes, int)
        if not attributes & CODEC_BITS and 0 < count <= most_records:
            records = Part("records", Kind.ARRAY, RECORDS, self.at, value=count)
            try:
                records.parts = [self.record(f"[{number}]") for number in range(count)]
            except DecodeError:
                self.at = self.end + 1
            if self.at == self.end:
                batch.parts.append(records)
                return batch
        self.at = start
        kind = "compressed records" if attributes & CODEC_BITS else "records"
        batch.parts.append(self.rest("records", kind))
        return batch

    def message(self, name: str, magic: int) -> Part:
        message = Part(name, Kind.STRUCT, f"Message v{magic}", self.at)
        fields = _MESSAGE_FIELDS if magic else _MESSAGE_FIELDS[:-1]
        message.parts = [self.field(*one) for one in fields]
        try:
            for of in ("key", "value"):
                start = self.at
                value = self.sized_bytes(nullable=True)
                message.parts.append(self.noted(of, "BYTES", start, value))
        except DecodeError:
            self.at = start
        if self.left:
            message.parts.append(self.rest("rest", "BYTES"))
        return message

    def record(self, name: str) -> Part:
        record = Part(name, Kind.STRUCT, "Record", self.at)
        length, start = self.zigzag(), record.offset
        end = self.at + length
        record.parts = [self.noted("length", _VARINT, start, length), self.field("attributes", "int8")]
        record.parts += [self.varint("timestampDelta", 64), self.varint("offsetDelta")]
        record.parts += [self.sized("key"), self.sized("value")]
        start, count = self.at, self.zigzag()
        record.parts.append(self.noted("headersCount", _VARINT, start, count))
        if count > MOST_HEADERS:
            raise self.error("fewer headers", start)
        for number in range(count):
            header = Part(f"headers[{number}]", Kind.STRUCT, "Header", self.at)
            header.parts = [self.sized("key"), self.sized("value")]
            record.parts.append(header)
        if self.at != end:
            raise self.error("the end of the record")
        return record

    def field(self, name: str, type_: str) -> Part:
        start = self.at
        return self.noted(name, type_.upper(), start, self.number(type_))

    def zigzag(self, bits: int = 32) -> int:
        start, value = self.at, 0
        for shift in range(0, bits, 7):
            byte = self.take(1, "a varint")[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
        raise self.error(f"a varint of at most {bits} bits", start)

    def varint(self, name: str, bits: int = 32) -> Part:
        start = self.at
        return self.noted(name, _VARINT if bits == 32 else "VARLONG", start, self.zigzag(bits))

    def sized(self, name: str) -> Part:
        """Bytes behind their length, -1 for null."""
        start, length = self.at, self.zigzag()
        return self.noted(name, "VARINT, BYTES", start, None if length < 0 else self.take(length, name))

    def rest(self, name: str, type_: str) -> Part:
        start = self.at
        return self.noted(name, type_, start, self.take(self.left, type_))

    def noted(self, name: str, type_: str, start: int, value: object) -> Part:
        return Part(name, Kind.VALUE, type_, start, head=self.at - start, value=value)
