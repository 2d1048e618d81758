#!/usr/bin/env python3
"""Write tests/data/attention_expected.h: a few values of PyTorch's attention and its gradients.

Everything is fp64 on inputs that are fp32 values of a formula, so that the C test can make the same
inputs. usage: make_attention_expected.py > tests/data/attention_expected.h
"""
import torch

B, S, H, KV, D, WINDOW, STARTS = 2, 37, 4, 2, 20, 9, (0, 5, 17, 30)
CAP = 2.5
SLOPES = [2.0 ** (-8.0 * (h + 1) / H) for h in range(H)]
COUNT = 24


def values(shape, seed):
    n = 1
    for s in shape:
        n *= s
    i = torch.arange(n, dtype=torch.int64)
    x = ((i * 7919 + seed * 104729) % 2001 - 1000).double() / 500.0
    return x.float().double().reshape(shape)


def mask(window, starts):
    t = torch.arange(S)
    doc = torch.zeros(S, dtype=torch.int64)
    for s in starts:
        doc[s:] = s
    m = (t[None, :] <= t[:, None]) & (t[None, :] >= doc[:, None])
    if window:
        m &= t[None, :] > t[:, None] - window
    return m


def show(name, x):
    flat = x.reshape(-1)
    picks = flat[torch.arange(COUNT) * 61 % flat.numel()]
    rows = [", ".join("%.9e" % v for v in picks[i : i + 4].tolist()) for i in range(0, COUNT, 4)]
    print("static const double expected_%s[%d] = {\n    %s};" % (name, COUNT, ",\n    ".join(rows)))


def attend(q, k, v, m, cap, alibi):
    """As written in the models that cap their scores (Gemma 2) or bias them (BLOOM, MPT)."""
    scores = q @ k.transpose(-1, -2) * 0.3
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if alibi:
        t = torch.arange(S)
        slopes = torch.tensor(SLOPES, dtype=torch.float64)
        scores = scores + slopes[:, None, None] * (t[None, :] - t[:, None])
    return torch.softmax(scores.masked_fill(~m, -float("inf")), -1) @ v


def case(name, window, starts, cap=0.0, alibi=False):
    q = values((B, S, H, D), 1).requires_grad_()
    k = values((B, S, KV, D), 2).requires_grad_()
    v = values((B, S, KV, D), 3).requires_grad_()
    group = H // KV
    qkv = (q.transpose(1, 2), k.transpose(1, 2).repeat_interleave(group, 1),
           v.transpose(1, 2).repeat_interleave(group, 1))
    if cap or alibi:
        out = attend(*qkv, mask(window, starts), cap, alibi)
    else:
        out = torch.nn.functional.scaled_dot_product_attention(
            *qkv, attn_mask=mask(window, starts), scale=0.3)
    out = out.transpose(1, 2)
    out.backward(values((B, S, H, D), 4))
    for part, x in (("out", out.detach()), ("dq", q.grad), ("dk", k.grad), ("dv", v.grad)):
        show(name + "_" + part, x)


print("/* Made by tools/make_attention_expected.py with PyTorch %s. */" % torch.__version__)
print("enum { EXPECTED_COUNT = %d };" % COUNT)
case("causal", 0, (0,))
case("documents", WINDOW, STARTS)
case("capped", WINDOW, STARTS, cap=CAP)
case("alibi", 0, (0,), alibi=True)
case("both", WINDOW, STARTS, cap=CAP, alibi=True)
