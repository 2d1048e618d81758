#!/usr/bin/env python3
"""Write the small files under tests/data/safetensors.

good/ and sharded/ are written by the reference library (torch, safetensors, huggingface_hub), or by
hand and read back by it; bad/ holds one crafted file per refusal, and the library must refuse them
too. Run: tools/make_safetensors_fixtures.py tests/data/safetensors
"""
import json
import struct
import sys
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import safe_open
from safetensors.torch import save_file


def raw(header, data=b"", n=None):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return struct.pack("<Q", len(header) if n is None else n) + header + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def rounding_values():
    """Ties, values near the limits of bf16 and fp16, subnormals, infinities."""
    bits = [0x00000000, 0x80000000, 0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF,
            0x477FE000, 0x477FEFFF, 0x477FF000, 0x47800000, 0x33800000, 0x33000000, 0x33000001,
            0x387FC000, 0x38800000, 0x00000001, 0x007FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
            0x3F801000, 0x3F803000, 0xBF801000, 0xC2F6E979]
    fixed = torch.tensor([b - (1 << 32) if b >> 31 else b for b in bits],
                         dtype=torch.int32).view(torch.float32)
    gen = torch.Generator().manual_seed(1)
    return torch.cat([fixed, torch.randn(103, generator=gen) * 100])


def write_good(out):
    grid = (torch.arange(15).reshape(3, 5) - 7).to(torch.float32) * 0.375
    save_file({"a.f32": grid, "b.f16": grid.half(), "c.bf16": grid.bfloat16(),
               "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4),
               "one": torch.tensor([[[-0.375]]])},
              out / "weights.safetensors", metadata={"format": "pt", "note": "h\u00e9llo \"x\""})
    wide = rounding_values()
    save_file({"wide": wide, "as_bf16": wide.bfloat16(), "as_f16": wide.half(),
               "bf16_as_f32": wide.bfloat16().float(), "f16_as_f32": wide.half().float(),
               "bf16_as_f16": wide.bfloat16().half(), "f16_as_bf16": wide.half().bfloat16()},
              out / "rounding.safetensors")
    names = ["bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "int16",
             "uint16", "float16", "bfloat16", "int32", "uint32", "float32", "complex64", "float64",
             "int64", "uint64"]
    tensors = {}
    for i, name in enumerate(names):
        width = getattr(torch, name).itemsize
        data = torch.arange(6 * width, dtype=torch.uint8) + i
        if name == "bool":
            data %= 2
        tensors[name] = data.view(getattr(torch, name)).reshape(2, 3)
    save_file(tensors, out / "dtypes.safetensors")

    files = {
        "nothing": raw({}),
        "space": raw(b" \n\t" + json.dumps({"x": entry("U8", [2], 0, 2)}).encode() + b" \r\n   ",
                     b"ab"),
        "unsorted": raw({"z": entry("U8", [2], 0, 2), "a": entry("U8", [3], 2, 5),
                         "e": entry("F32", [7, 0], 2, 2), "end": entry("F32", [0], 5, 5)},
                        b"zzaaa"),
        "nul": raw(b'{"__metadata__":{"k":"a\\u0000b"},"x":{"dtype":"U8","shape":[1],'
                   b'"data_offsets":[0,1]}}', b"x"),
        "names": raw({"caf\u00e9/\u4e2d/..": entry("U8", [1], 0, 1), "": entry("U8", [1], 1, 2),
                      "new\nline": entry("U8", [1], 2, 3)}, b"abc"),
        "subbyte": raw({"f4": entry("F4", [2, 3], 0, 3), "e2": entry("F6_E2M3", [4], 3, 6),
                        "e3": entry("F6_E3M2", [8], 6, 12)}, bytes(range(12))),
    }
    for name, data in files.items():
        (out / f"{name}.safetensors").write_bytes(data)


def write_sharded(out):
    state = {f"layers.{i}.w": torch.full((4, 8), float(i)) for i in range(4)}
    save_torch_state_dict(state, out, max_shard_size=256, metadata={"format": "pt"})
    # Lies beside the shards; the index does not name it.
    save_file({"layers.0.w": torch.full((4, 8), -1.0), "stray": torch.zeros(3)},
              out / "stray.safetensors")


def bad_files():
    u8 = entry("U8", [2], 0, 2)
    deep = b"[" * 5000
    return {
        "empty": b"",
        "seven_bytes": b"\x02\0\0\0\0\0\0",
        "header_too_long": struct.pack("<Q", 100_000_001) + b"{}",
        "header_past_end": raw(b"{}      ", n=9),
        "length_overflows": struct.pack("<Q", 2**64 - 4) + b"{}",
        "truncated": raw({"x": entry("F32", [4], 0, 16)}, b"\0" * 15),
        "trailing": raw({"x": u8}, b"abc"),
        "utf8": raw(b'{"\xff\xfe":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab"),
        "json": raw(b'{"x":', b""),
        "json_two": raw(b"{} {}"),
        "json_nul_padding": raw(b"{}\0\0"),
        "json_deep": raw(deep),
        "array": raw(b"[]"),
        "entry_not_object": raw({"x": 3}),
        "no_dtype": raw({"x": {"shape": [2], "data_offsets": [0, 2]}}, b"ab"),
        "no_shape": raw({"x": {"dtype": "U8", "data_offsets": [0, 2]}}, b"ab"),
        "no_offsets": raw({"x": {"dtype": "U8", "shape": [2]}}, b"ab"),
        "unknown_dtype": raw({"x": entry("F128", [2], 0, 32)}, b"\0" * 32),
        "dtype_case": raw({"x": entry("u8", [2], 0, 2)}, b"ab"),
        "negative_dim": raw({"x": entry("U8", [-2], 0, 2)}, b"ab"),
        "real_dim": raw({"x": entry("U8", [2.0], 0, 2)}, b"ab"),
        "dim_too_big": raw({"x": entry("U8", [2**64], 0, 2)}, b"ab"),
        "shape_overflow": raw({"x": entry("U8", [2**33, 2**33], 0, 2)}, b"ab"),
        "shape_wraps": raw({"x": entry("U8", [2**32, 2**32, 0], 0, 0)}),
        "size_overflow": raw({"x": entry("F64", [2**62], 0, 2)}, b"ab"),
        "size_mismatch": raw({"x": entry("F32", [2, 3], 0, 20)}, b"\0" * 20),
        "half_byte": raw({"x": entry("F4", [3], 0, 2)}, b"ab"),
        "end_before_begin": raw({"x": entry("U8", [2], 2, 0)}, b"ab"),
        "three_offsets": raw({"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 1, 2]}}, b"ab"),
        "negative_offset": raw({"x": entry("U8", [2], -2, 0)}, b"ab"),
        "hole_first": raw({"x": entry("U8", [2], 1, 3)}, b"abc"),
        "hole": raw({"x": u8, "y": entry("U8", [2], 3, 5)}, b"abcde"),
        "overlap": raw({"x": u8, "y": entry("U8", [2], 1, 3)}, b"abc"),
        "same_place": raw({"x": u8, "y": u8}, b"ab"),
        "empty_inside": raw({"x": u8, "y": entry("U8", [0], 1, 1)}, b"ab"),
        "far_away": raw({"x": entry("U8", [0], 2**63 - 1, 2**63 - 1)}),
        "twice": raw(b'{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
                     b'"x":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}', b"abcd"),
        "twice_inside": raw(b'{"x":{"dtype":"U8","dtype":"I8","shape":[2],"data_offsets":[0,2]}}',
                            b"ab"),
        "metadata_array": raw({"__metadata__": [], "x": u8}, b"ab"),
        "metadata_number": raw({"__metadata__": {"k": 1}, "x": u8}, b"ab"),
        "nul_name": raw(b'{"a\\u0000b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab"),
        "nine_dims": raw({"x": entry("U8", [1] * 8 + [2], 0, 2)}, b"ab"),
    }


# What we refuse and the library does not: names and ranks that C strings and our structs cannot hold.
OURS_ONLY = {"nul_name", "nine_dims"}


def accepted(path):
    try:
        with safe_open(path, "pt") as f:
            f.keys()
        return True
    except Exception:
        return False


def main():
    out = Path(sys.argv[1])
    for sub in ("good", "sharded", "bad"):
        (out / sub).mkdir(parents=True, exist_ok=True)
    write_good(out / "good")
    write_sharded(out / "sharded")
    for name, data in bad_files().items():
        (out / "bad" / f"{name}.safetensors").write_bytes(data)
    for path in sorted(out.glob("*/*.safetensors")):
        want = path.parent.name != "bad" or path.stem in OURS_ONLY
        if accepted(path) != want:
            print(f"{path}: the reference library {'accepts' if accepted(path) else 'refuses'} it")


if __name__ == "__main__":
    main()
