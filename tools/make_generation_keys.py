#!/usr/bin/env python3
"""Write tests/data/generation_keys.txt: every key that transformers' generation_config.json may have.

usage: make_generation_keys.py OUTPUT.txt        (needs transformers)
"""
import sys

import transformers

keys = sorted(k for k in vars(transformers.GenerationConfig()) if k != "_original_object_hash")
with open(sys.argv[1], "w", encoding="utf-8") as f:
    f.write(f"# transformers {transformers.__version__}; written by tools/make_generation_keys.py\n")
    f.write("\n".join(keys) + "\n")
