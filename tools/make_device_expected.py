#!/usr/bin/env python3
"""Write tests/data/device_ops.json: what PyTorch says device ops and optimizers give.

usage: make_device_expected.py OUTPUT.json        (needs torch, no GPU)

Inputs are fp32 values; ops are computed in fp64 from them, optimizers in fp32 by torch.optim.
"""
import json
import sys

import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_num_threads(1)


def numbers(t):
    return [float(f"{x:.9g}") for x in t.detach().double().flatten().tolist()]


def fp32_values(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).float()


def optimizer_case(name, make, steps, **hyper):
    n = 13
    p0 = fp32_values(n)
    grads = [fp32_values(n, scale=0.1) for _ in range(steps)]
    p = torch.nn.Parameter(p0.clone())
    optimizer = make(p)
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
    return dict(name=name, n=n, p0=numbers(p0), grads=[numbers(g) for g in grads],
                p=numbers(p), **hyper)


def optimizer_cases():
    adam = dict(lr=1e-2, beta1=0.9, beta2=0.999, eps=1e-8, momentum=0.0)
    sgd = dict(beta1=0.0, beta2=0.0, eps=0.0)

    def adam_like(cls, wd, lr=1e-2, betas=(0.9, 0.999)):
        return lambda p: cls([p], lr=lr, betas=betas, eps=1e-8, weight_decay=wd, foreach=False)

    def plain(momentum, wd):
        return lambda p: torch.optim.SGD([p], lr=0.05, momentum=momentum, weight_decay=wd,
                                         foreach=False)

    return [
        optimizer_case("adamw", adam_like(torch.optim.AdamW, 0.1), 5, kind=0,
                       **{**adam, "weight_decay": 0.1}),
        optimizer_case("adamw_no_decay", adam_like(torch.optim.AdamW, 0.0, 5e-5, (0.9, 0.95)), 3,
                       kind=0, **{**adam, "lr": 5e-5, "beta2": 0.95, "weight_decay": 0.0}),
        optimizer_case("adam", adam_like(torch.optim.Adam, 0.1), 5, kind=1,
                       **{**adam, "weight_decay": 0.1}),
        optimizer_case("sgd", plain(0.0, 0.01), 3, kind=2, lr=0.05, momentum=0.0,
                       weight_decay=0.01, **sgd),
        optimizer_case("sgd_momentum", plain(0.9, 0.01), 4, kind=2, lr=0.05, momentum=0.9,
                       weight_decay=0.01, **sgd),
    ]


def activations():
    functions = [F.silu, lambda x: F.gelu(x, approximate="tanh"), F.gelu, F.relu]
    x = torch.cat([torch.linspace(-12, 12, 41), fp32_values(24), torch.tensor([0.0, 1e-3, -1e-3])])
    dy = fp32_values(x.numel())
    out = dict(x=numbers(x), dy=numbers(dy), y=[], dx=[])
    for f in functions:  # in the order of oc_act
        v = x.double().requires_grad_()
        y = f(v)
        y.backward(dy.double())
        out["y"].append(numbers(y))
        out["dx"].append(numbers(v.grad))
    return out


def norm(rms):
    rows, cols, eps = 5, 12, 1e-5
    x, w, b, dy = (fp32_values(*s) for s in [(rows, cols), (cols,), (cols,), (rows, cols)])
    xd, wd, bd = (t.double().requires_grad_() for t in (x, w, b))
    y = F.rms_norm(xd, (cols,), wd, eps) if rms else F.layer_norm(xd, (cols,), wd, bd, eps)
    y.backward(dy.double())
    out = dict(rows=rows, cols=cols, eps=eps, x=numbers(x), w=numbers(w), dy=numbers(dy),
               y=numbers(y), dx=numbers(xd.grad), dw=numbers(wd.grad))
    if not rms:
        out.update(b=numbers(b), db=numbers(bd.grad))
    return out


def cross_entropy():
    rows, classes = 6, 11
    logits = fp32_values(rows, classes, scale=4.0)
    labels = torch.tensor([3, -100, 0, 10, 5, 7])
    x = logits.double().requires_grad_()
    loss = F.cross_entropy(x, labels, reduction="sum")
    loss.backward()
    return dict(rows=rows, classes=classes, logits=numbers(logits), labels=labels.tolist(),
                loss_sum=float(loss.detach()), dlogits=numbers(x.grad))


def attention():
    batch, seq, heads, kv_heads, dim = 2, 7, 4, 2, 8
    q, k, v, dout = (fp32_values(batch, seq, h, dim) for h in (heads, kv_heads, kv_heads, heads))
    xs = [t.double().requires_grad_() for t in (q, k, v)]
    qt, kt, vt = (x.transpose(1, 2) for x in xs)
    out = F.scaled_dot_product_attention(qt, kt, vt, is_causal=True, enable_gqa=True)
    out = out.transpose(1, 2)
    out.backward(dout.double())
    return dict(batch=batch, seq=seq, heads=heads, kv_heads=kv_heads, head_dim=dim,
                q=numbers(q), k=numbers(k), v=numbers(v), dout=numbers(dout), out=numbers(out),
                dq=numbers(xs[0].grad), dk=numbers(xs[1].grad), dv=numbers(xs[2].grad))


def norm_of_heads(rms):
    """RMSNorm (Qwen 3) and LayerNorm (Persimmon) of each head, inside wider rows."""
    rows, groups, cols, before, behind, eps = 4, 3, 10, 2, 5, 1e-6
    ld = before + groups * cols + behind
    x, dy = fp32_values(rows, ld), fp32_values(rows, ld)
    w, b = fp32_values(cols), fp32_values(cols)
    xd, wd, bd = (t.double().requires_grad_() for t in (x, w, b))
    heads = xd[:, before:before + groups * cols].reshape(rows, groups, cols)
    y = F.rms_norm(heads, (cols,), wd, eps) if rms else F.layer_norm(heads, (cols,), wd, bd, eps)
    y.backward(dy.double()[:, before:before + groups * cols].reshape(rows, groups, cols))
    out = dict(rows=rows, groups=groups, cols=cols, before=before, ld=ld, eps=eps, x=numbers(x),
               w=numbers(w), dy=numbers(dy), y=numbers(y), dw=numbers(wd.grad),
               dx=numbers(xd.grad[:, before:before + groups * cols]))
    if not rms:
        out.update(b=numbers(b), db=numbers(bd.grad))
    return out


def cross_entropy_capped():
    rows, classes, cap = 5, 13, 3.0
    logits = fp32_values(rows, classes, scale=4.0)
    labels = torch.tensor([12, 0, -100, 4, 7])
    x = logits.double().requires_grad_()
    capped = torch.tanh(x / cap) * cap
    loss = F.cross_entropy(capped, labels, reduction="sum")
    loss.backward()
    return dict(rows=rows, classes=classes, cap=cap, logits=numbers(logits),
                labels=labels.tolist(), capped=numbers(capped), loss_sum=float(loss.detach()),
                dlogits=numbers(x.grad))


def attention_shaped(cap, alibi, window):
    """Scores capped (Gemma 2), biased by distance (ALiBi: BLOOM, MPT) and limited to a window."""
    batch, seq, heads, kv_heads, dim, scale = 1, 9, 4, 2, 7, 0.5
    slopes = [2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)]
    q, k, v, dout = (fp32_values(batch, seq, h, dim) for h in (heads, kv_heads, kv_heads, heads))
    xs = [t.double().requires_grad_() for t in (q, k, v)]
    qt, kt, vt = (x.transpose(1, 2) for x in xs)
    kt, vt = (x.repeat_interleave(heads // kv_heads, 1) for x in (kt, vt))
    scores = qt @ kt.transpose(-1, -2) * scale
    if cap:
        scores = torch.tanh(scores / cap) * cap
    t = torch.arange(seq)
    if alibi:
        scores = scores + torch.tensor(slopes).double()[:, None, None] * (t[None, :] - t[:, None])
    seen = t[None, :] <= t[:, None]
    if window:
        seen &= t[None, :] > t[:, None] - window
    out = torch.softmax(scores.masked_fill(~seen, -float("inf")), -1) @ vt
    out = out.transpose(1, 2)
    out.backward(dout.double())
    return dict(batch=batch, seq=seq, heads=heads, kv_heads=kv_heads, head_dim=dim, scale=scale,
                cap=cap, window=window, slopes=slopes if alibi else None,
                q=numbers(q), k=numbers(k), v=numbers(v), dout=numbers(dout), out=numbers(out),
                dq=numbers(xs[0].grad), dk=numbers(xs[1].grad), dv=numbers(xs[2].grad))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    data = dict(torch=torch.__version__, optimizers=optimizer_cases(), activations=activations(),
                rms_norm=norm(True), layer_norm=norm(False), cross_entropy=cross_entropy(),
                attention=attention(), rms_norm_heads=norm_of_heads(True),
                layer_norm_heads=norm_of_heads(False),
                cross_entropy_capped=cross_entropy_capped(),
                attention_shaped=[attention_shaped(*c) for c in
                                  [(1.5, False, 0), (0.0, True, 4), (1.5, True, 5)]])
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        json.dump(data, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
