"""Forged model files: any number changed, and a checksum that fits. Needs the package blake3."""

import json
import struct

try:
    import blake3
except ImportError:
    blake3 = None

KEY = "lmc"


class Forgery:
    """A model file taken apart: `document` and `tensors` may be changed before `bytes` puts it together."""

    def __init__(self, content):
        length = struct.unpack("<Q", content[:8])[0]
        self.header = json.loads(content[8 : 8 + length])
        self.envelope = json.loads(self.header.pop("__metadata__")[KEY])
        self.document = self.envelope["document"]
        data = content[8 + length :]
        self.tensors = {name: bytearray(data[slice(*about["data_offsets"])]) for name, about in self.header.items()}

    def fill(self, part, value):
        """Sets all numbers of the tensors whose name has this part; the number of tensors that were."""
        names = [name for name in self.tensors if part in name]
        for name in names:
            count = len(self.tensors[name]) // 4
            self.tensors[name][:] = struct.pack("<f", value) * count
        return len(names)

    def bytes(self):
        # serde_json sorts keys and writes no spaces, and so does this; floats may differ in spelling, so only documents
        # whose numbers Python spells alike keep their checksum (`is_understood`).
        document = json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        hasher = blake3.blake3(document.encode())
        for name in sorted(self.tensors):
            shape = "[" + ", ".join(str(side) for side in self.header[name]["shape"]) + "]"
            hasher.update(name.encode() + shape.encode() + bytes(self.tensors[name]))
        self.envelope["checksum"] = hasher.hexdigest()
        header = {"__metadata__": {KEY: json.dumps(self.envelope, separators=(",", ":"), ensure_ascii=False)}}
        data = b""
        for name, about in sorted(self.header.items(), key=lambda item: item[1]["data_offsets"]):
            begin = len(data)
            data += bytes(self.tensors[name])
            header[name] = {**about, "data_offsets": [begin, len(data)]}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + data


def is_understood(content):
    """Whether this file computes the checksum as lmc does: an unchanged file must keep its own."""
    forgery = Forgery(content)
    before = forgery.envelope["checksum"]
    forgery.bytes()
    return forgery.envelope["checksum"] == before
