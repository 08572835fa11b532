"""Writes tests/reference/safetensors_cases.json: malformed and odd files with the reference package's
verdict (pip install safetensors). Run it again after adding a case:

    python tests/support/make_safetensors_cases.py > tests/reference/safetensors_cases.json
"""
import json
import struct
import sys

import safetensors


def file(header, data=b"\0\0\0\0", length=None):
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def tensor(name="a", dtype="F32", shape="[1]", offsets="[0,4]", extra=""):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{extra}}}'


def one(**kwargs):
    return "{" + tensor(**kwargs) + "}"


def u8(name, begin, end):
    return tensor(name, "U8", f"[{end - begin}]", f"[{begin},{end}]")


def nested(levels, open_, close):
    return file(one(extra=',"x":' + open_ * levels + "1" * (open_[-1] == ":") + close * levels))


GOOD = one()
MAX = 2**64 - 1
CASES = {
    "one tensor": file(GOOD),
    "no tensor": file("{}", b""),
    "only metadata": file('{"__metadata__":{"a":"b"}}', b""),
    "metadata null": file('{"__metadata__":null,' + tensor() + "}"),
    "metadata key twice": file('{"__metadata__":{"a":"b","a":"c"},' + tensor() + "}"),
    "metadata twice": file('{"__metadata__":{},"__metadata__":{},' + tensor() + "}"),
    "metadata of a number": file('{"__metadata__":{"a":1},' + tensor() + "}"),
    "metadata nested": file('{"__metadata__":{"a":{"b":"c"}},' + tensor() + "}"),
    "metadata list": file('{"__metadata__":[],' + tensor() + "}"),
    "metadata string": file('{"__metadata__":"x",' + tensor() + "}"),
    "leading spaces": file("  " + GOOD),
    "trailing whitespace": file(GOOD + " \n\t\r"),
    "trailing NUL": file(GOOD + "\0"),
    "trailing NUL and text": file(GOOD + "\0{{{{"),
    "byte order mark": file(b"\xef\xbb\xbf" + GOOD.encode()),
    "comment": file("{/*x*/" + tensor() + "}"),
    "trailing comma": file("{" + tensor() + ",}"),
    "two documents": file(GOOD + "{}"),
    "empty header": file("", b""),
    "header of spaces": file("   ", b""),
    "list on top": file("[]", b""),
    "number on top": file("7", b""),
    "string on top": file('"a"', b""),
    "null on top": file("null", b""),
    "unfinished object": file('{"a":{"dtype":"F32"'),
    "invalid UTF-8 in a name": file(b'{"a\xff' + GOOD.encode()[3:]),
    "overlong UTF-8 in a name": file(b'{"a\xc0\xaf' + GOOD.encode()[3:]),
    "lone surrogate escape": file(one(name="\\ud800")),
    "raw control character in a name": file(b'{"a\x01' + GOOD.encode()[2:]),
    "escaped NUL in a name": file(one(name="a\\u0000b")),
    "path as a name": file(one(name="../../etc/passwd")),
    "absolute path as a name": file(one(name="/etc/passwd")),
    "empty name": file(one(name="")),
    "unicode name": file(one(name="gewicht-ü-重み")),
    "name twice": file("{" + tensor() + "," + tensor() + "}"),
    "name twice by escape": file("{" + tensor() + "," + tensor(name="\\u0061") + "}"),
    "name twice, different places": file("{" + u8("a", 0, 1) + "," + u8("a", 1, 2) + "}", b"12"),
    "zero-size name twice": file("{" + tensor(shape="[0]", offsets="[0,0]") + "," + tensor(shape="[0]", offsets="[0,0]") + "}", b""),
    "unknown field": file(one(extra=',"x":[[1],{"y":null}]')),
    "unknown field, scalars": file(one(extra=',"x":null,"y":true,"z":1.5,"w":-3,"v":"s"')),
    "unknown field, huge integer": file(one(extra=',"x":99999999999999999999999')),
    "unknown field, number out of range": file(one(extra=',"x":1e999')),
    "dtype twice": file(one(extra=',"dtype":"F32"')),
    "shape twice": file(one(extra=',"shape":[1]')),
    "offsets twice": file(one(extra=',"data_offsets":[0,4]')),
    "dtype missing": file('{"a":{"shape":[1],"data_offsets":[0,4]}}'),
    "shape missing": file('{"a":{"dtype":"F32","data_offsets":[0,4]}}'),
    "offsets missing": file('{"a":{"dtype":"F32","shape":[1]}}'),
    "empty tensor object": file('{"a":{}}', b""),
    "tensor null": file('{"a":null}', b""),
    "tensor number": file('{"a":1}', b""),
    "tensor as a list": file('{"a":["F32",[1],[0,4]]}'),
    "escaped field name": file('{"a":{"\\u0064type":"F32","shape":[1],"data_offsets":[0,4]}}'),
    "lower case dtype": file(one(dtype="f32")),
    "unknown dtype": file(one(dtype="F33")),
    "empty dtype": file(one(dtype="")),
    "dtype number": file('{"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}}'),
    "dtype null": file('{"a":{"dtype":null,"shape":[1],"data_offsets":[0,4]}}'),
    "dtype as an object": file('{"a":{"dtype":{"F32":null},"shape":[1],"data_offsets":[0,4]}}'),
    "scalar": file(one(shape="[]")),
    "shape null": file(one(shape="null")),
    "shape number": file(one(shape="1")),
    "shape string": file(one(shape='"1"')),
    "shape of a list": file(one(shape="[[1]]")),
    "shape of a string": file(one(shape='["1"]')),
    "float dimension": file(one(shape="[1.0]")),
    "exponent dimension": file(one(shape="[1e0]")),
    "negative dimension": file(one(shape="[-1]")),
    "leading zero": file(one(shape="[01]")),
    "dimension of 2^64": file(one(shape=f"[{MAX + 1},0]", offsets="[0,0]"), b""),
    "zero elements": file(one(shape="[0]", offsets="[0,0]"), b""),
    "zero elements, several dimensions": file(one(shape="[3,0,5]", offsets="[0,0]"), b""),
    "elements overflow": file(one(shape=f"[{2**33},{2**33}]")),
    "elements overflow to the right size": file(one(shape=f"[{2**32},{2**32},1]", offsets="[0,0]"), b""),
    "elements overflow before a zero": file(one(shape=f"[{2**62},{2**62},0]", offsets="[0,0]"), b""),
    "zero before an overflow": file(one(shape=f"[0,{2**62},{2**62}]", offsets="[0,0]"), b""),
    "bits overflow": file(one(dtype="F64", shape=f"[{2**58}]", offsets="[0,0]"), b""),
    "bytes overflow to 4": file(one(shape=f"[{2**62 + 1}]")),
    "offsets null": file(one(offsets="null")),
    "one offset": file(one(offsets="[4]")),
    "three offsets": file(one(offsets="[0,4,4]")),
    "no offset": file(one(offsets="[]")),
    "float offsets": file(one(offsets="[0.0,4.0]")),
    "exponent offset": file(one(offsets="[0,4e0]")),
    "minus zero offset": file(one(offsets="[-0,4]")),
    "negative offset": file(one(offsets="[-4,0]")),
    "offset of 2^64-1": file(one(offsets=f"[0,{MAX}]")),
    "offset of 2^64": file(one(offsets=f"[0,{MAX + 1}]")),
    "reversed offsets": file(one(offsets="[4,0]")),
    "starts after 0": file(one(offsets="[4,8]"), b"12345678"),
    "span too long": file(one(offsets="[0,8]"), b"12345678"),
    "span too short": file(one(offsets="[0,2]"), b"12"),
    "hole": file("{" + u8("a", 0, 1) + "," + u8("b", 2, 3) + "}", b"123"),
    "overlap": file("{" + u8("a", 0, 2) + "," + u8("b", 1, 3) + "}", b"123"),
    "same place twice": file("{" + u8("a", 0, 2) + "," + u8("b", 0, 2) + "}", b"12"),
    "contained": file("{" + u8("a", 0, 4) + "," + u8("b", 1, 2) + "}", b"1234"),
    "unsorted": file("{" + u8("a", 1, 2) + "," + u8("b", 0, 1) + "}", b"12"),
    "not aligned": file("{" + u8("a", 0, 1) + "," + tensor("b", "F32", "[1]", "[1,5]") + "}", b"12345"),
    "zero-size between": file("{" + u8("a", 0, 1) + "," + tensor("z", "F32", "[0]", "[1,1]") + "," + u8("b", 1, 2) + "}", b"12"),
    "zero-size inside another": file("{" + u8("a", 0, 2) + "," + tensor("z", "F32", "[0]", "[1,1]") + "}", b"12"),
    "data after the end": file(GOOD, b"12345"),
    "data missing": file(GOOD, b"123"),
    "no data": file(GOOD, b""),
    "data without tensors": file("{}", b"1"),
    "header length too short": file(GOOD, length=3),
    "header length beyond the file": file(GOOD, length=10**6),
    "header length above the limit": file(GOOD, length=100_000_001),
    "header length 2^64-1": file(GOOD, length=MAX),
    "header length 2^63": file(GOOD, length=2**63),
    "empty file": b"",
    "7 bytes": b"1234567",
    "8 zero bytes": b"\0" * 8,
    "pickle": b"\x80\x02}q\0.aaaaaaaaaa",
    "zip": b"PK\x03\x04" + b"\0" * 60,
    "arrays at the depth limit": nested(125, "[", "]"),
    "arrays beyond the depth limit": nested(126, "[", "]"),
    "objects at the depth limit": nested(125, '{"a":', "}"),
    "objects beyond the depth limit": nested(126, '{"a":', "}"),
    "ten thousand open brackets": file(one(extra=',"x":' + "[" * 10_000)),
    "half bytes": file(one(dtype="F4", shape="[2]", offsets="[0,1]"), b"1"),
    "half bytes, odd": file(one(dtype="F4", shape="[3]", offsets="[0,2]"), b"12"),
    "six bits": file(one(dtype="F6_E2M3", shape="[4]", offsets="[0,3]"), b"123"),
    "six bits, odd": file(one(dtype="F6_E3M2", shape="[3]", offsets="[0,3]"), b"123"),
}
for dtype, size in [("BOOL", 1), ("U8", 1), ("I8", 1), ("F8_E5M2", 1), ("F8_E4M3", 1), ("F8_E8M0", 1),
                    ("F8_E4M3FNUZ", 1), ("F8_E5M2FNUZ", 1), ("I16", 2), ("U16", 2), ("F16", 2), ("BF16", 2),
                    ("I32", 4), ("U32", 4), ("F32", 4), ("C64", 8), ("F64", 8), ("I64", 8), ("U64", 8)]:
    CASES["dtype " + dtype] = file(one(dtype=dtype, shape="[2]", offsets=f"[0,{2 * size}]"), b"\0" * (2 * size))

# Files that sluice rejects although the reference package accepts them (docs/hf-directories.md).
STRICTER = {
    "name twice", "name twice by escape", "name twice, different places", "zero-size name twice",
    "tensor as a list", "dtype as an object",
}


def verdict(data):
    try:
        return "accept", sorted(name for name, _ in safetensors.deserialize(data))
    except safetensors.SafetensorError as error:
        return "refuse", str(error)


cases = []
for name, data in CASES.items():
    reference, detail = verdict(data)
    case = {"id": name, "hex": data.hex(), "reference": reference}
    case["names" if reference == "accept" else "reason"] = detail
    if name in STRICTER:
        case["sluice"] = "refuse"
    cases.append(case)
json.dump({"source": "safetensors " + safetensors.__version__, "cases": cases}, sys.stdout, indent=1, ensure_ascii=True)
print()
