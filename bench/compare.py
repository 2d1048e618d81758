#!/usr/bin/env python3
"""Measures outcore against its own bounds and against PyTorch and DeepSpeed; standard library only.

    compare.py [PART...]   default: all; a name that is none tells which there are

What is compared takes turns (ABAB...), several steps a turn, and medians over all turns are set
against each other: other load on the machine disturbs both. The first step of each process warms up
and is not counted. Results go to out/bench/NAME.json and a table to standard output. The peers live
in $OC_PEERS (bench/peers/setup.sh installs them); without them those parts are skipped, and that
is said. $OC_BUILD is the folder with outcore and the bench programs."""
import hashlib
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
from common import prompts  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("OC_BUILD", "build"))
OUT = os.environ.get("OC_BENCH_OUT", os.path.join(ROOT, "out", "bench"))
PEERS = os.environ.get("OC_PEERS", os.path.expanduser("~/.cache/outcore-peers"))
THREADS = int(os.environ.get("OC_THREADS", os.cpu_count() or 1))
ROUNDS = int(os.environ.get("OC_ROUNDS", "2"))
STEPS = int(os.environ.get("OC_STEPS", "3"))
WORK = os.path.join(OUT, "work")

median = statistics.median

# Another build's program, measured beside ours in the overlap part.
BASELINE = os.environ.get("OC_BASELINE")


def config(name, **changes):
    """A folder with a llama config.json."""
    c = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096,
        "vocab_size": 2048,
        "tie_word_embeddings": True,
        "rope_theta": 10000.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "initializer_range": 0.02,
    }
    c.update(changes)
    folder = os.path.join(WORK, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(c, file)
    return folder


def text():
    path = os.path.join(WORK, "text.txt")
    if not os.path.exists(path):
        os.makedirs(WORK, exist_ok=True)
        rng = random.Random(1)
        words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
                 for _ in range(2000)]
        with open(path, "w", encoding="utf-8") as file:
            file.write(" ".join(rng.choices(words, k=200000)))
    return path


def lanes_of(trace, steps):
    """Per lane of the last of so many steps: bytes moved and seconds busy, forward and backward
    apart. A step is several submissions, all steps equally many."""
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    ran = [e for e in events if e["ph"] == "X" and e["args"]["plan"] != "eval"]
    last = max(e["args"]["step"] for e in ran)
    mine = [e for e in ran if e["args"]["step"] > last - last // steps]
    forward = [e for e in mine if e["name"].startswith("forward")]
    turn = max((e["ts"] for e in forward), default=0)
    lanes, kinds = {}, {}
    for e in mine:
        lane = lanes.setdefault(names[e["tid"]], {"bytes": 0, "bytes_forward": 0, "seconds": 0,
                                                  "seconds_forward": 0})
        lane["bytes"] += e["args"]["bytes"]
        lane["seconds"] += e["dur"] * 1e-6
        if e["ts"] < turn:
            lane["bytes_forward"] += e["args"]["bytes"]
            lane["seconds_forward"] += e["dur"] * 1e-6
        key = names[e["tid"]] + " " + e["name"].split()[0]
        kinds[key] = kinds.get(key, 0) + e["dur"] * 1e-6
    return {"lanes": lanes, "kinds": kinds}


def cpu_by_step(child, log):
    """The processor time a run has used when each line of its log appears, until it ends."""
    tick, used = os.sysconf("SC_CLK_TCK"), []
    while child.poll() is None:
        time.sleep(0.01)
        try:
            with open(f"/proc/{child.pid}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(log, "rb") as file:
                lines = file.read().count(b"\n")
        except OSError:
            continue
        now = (int(fields[11]) + int(fields[12])) / tick
        used += [now] * (lines - len(used))
    return used


def outcore(folder, dtype, seq, micro, accum=1, steps=STEPS, extra=(), program=None):
    """Runs steps + 1 steps; seconds of all but the first. program: another build's, for comparison."""
    out = os.path.join(WORK, "model")
    log, trace = os.path.join(WORK, "log.jsonl"), os.path.join(WORK, "trace.json")
    command = [program or os.path.join(BUILD, "outcore"), "train", "--init", folder, "--tokenizer", "bytes",
               "--data", text(), "--output", out, "--overwrite", "--dtype", dtype, "--threads",
               str(THREADS), "--seq-length", str(seq), "--micro-batch", str(micro), "--grad-accum",
               str(accum), "--max-steps", str(steps + 1), "--weight-decay", "0.01", "--log", log,
               "--trace", trace, *extra]
    if os.path.exists(log):
        os.remove(log)
    with open(os.path.join(WORK, "stderr"), "w+", encoding="utf-8") as errors:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        cpu = cpu_by_step(child, log)
        errors.seek(0)
        notes = errors.read()
    if child.returncode:
        sys.exit(f"{' '.join(command)}\n{notes}")
    with open(log, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    shutil.rmtree(out, ignore_errors=True)
    result = {"seconds": [r["step_seconds"] for r in rows[1:]],
              "cpu_seconds": [b - a for a, b in zip(cpu, cpu[1:])], "tokens": rows[-1]["tokens"],
              "peak_bytes": rows[-1]["peak_bytes"], "loss": [r["loss"] for r in rows],
              "notes": notes.strip().split("\n")[-3:], "options": list(extra)}
    result.update(lanes_of(trace, len(rows)))
    return result


def peer(script, **options):
    """The RESULT line of a peer's script, or why there is none."""
    python = os.path.join(PEERS, "bin", "python")
    command = [python, os.path.join(ROOT, "bench", "peers", script), "--threads", str(THREADS)]
    for name, value in options.items():
        if value is True:
            command.append("--" + name)
        elif value is not False:
            command += ["--" + name, str(value)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"failed": str(error)}
    for line in done.stdout.split("\n"):
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT "):])
    return {"failed": (done.stderr or done.stdout).strip()[-600:]}


def save(name, value):
    os.makedirs(OUT, exist_ok=True)
    value = {"when": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "threads": THREADS,
             "load": os.getloadavg()[0], **value}
    with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)


def row(what, value, target, more=""):
    print(f"{what:<58} {value:>8}  {target:<9} {more}", flush=True)


class Ledger:
    """What was measured so far, a line each, so that a run that was stopped goes on where it was; only by the
    same programs with the same settings. Says what is being measured, every half minute if that takes long."""

    def __init__(self, fresh):
        self.path = os.path.join(OUT, "turns.jsonl")
        self.kept, self.part, self.number, self.of, self.inside = {}, "", 0, "", False
        lines = []
        if not fresh and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                lines = [line for line in file if line.endswith("\n")]
        same = lines and json.loads(lines[0]) == self.settings()
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(lines if same else [json.dumps(self.settings()) + "\n"])
        for line in lines[1:] if same else []:
            key, value = json.loads(line)
            self.kept[key] = value

    @staticmethod
    def settings():
        peers = os.path.join(ROOT, "bench", "peers")
        paths = [os.path.join(BUILD, name) for name in sorted(os.listdir(BUILD)) if name == "outcore" or name.startswith("bench_")]
        paths += [__file__] + [os.path.join(peers, name) for name in sorted(os.listdir(peers)) if name.endswith(".py")]
        programs = hashlib.sha256()
        for path in paths + ([BASELINE] if BASELINE else []):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    programs.update(file.read())
        return {"programs": programs.hexdigest(), "threads": THREADS, "rounds": ROUNDS, "steps": STEPS, "peers": PEERS,
                "baseline": BASELINE, **{name: os.environ.get(name) for name in ("OC_HOST_STEPS", "OC_TOKENIZER")}}

    def begin(self, part, k, n):
        self.part, self.number, self.of = part, 0, f"{k} of {n}"
        about = (PARTS[part].__doc__ or "").split("\n")[0]
        print(f"\n{part} (part {k} of {n}): {about}", flush=True)

    def take(self, what, measure):
        """Measures once; what is measured within a measurement is a part of it. What failed is tried again."""
        if self.inside:
            return measure()
        self.number += 1
        key = f"{self.part} {self.number} {what}"
        if key in self.kept:
            return self.kept[key]
        self.inside = True
        try:
            value = self.tell(what, measure)
        finally:
            self.inside = False
        if not (isinstance(value, dict) and "failed" in value):
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps([key, value]) + "\n")
        return json.loads(json.dumps(value))

    def skip(self):
        """Keeps the places of what follows."""
        self.number += not self.inside

    def tell(self, what, measure):
        done, started = threading.Event(), time.monotonic()

        def lines():
            while not done.wait(30):
                print(f"  .. {self.part} ({self.of}): {what}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

        threading.Thread(target=lines, daemon=True).start()
        try:
            return measure()
        finally:
            done.set()

    def end(self):
        os.remove(self.path)


ledger = None


def take_turns(legs, rounds=ROUNDS):
    """legs: name -> function that returns a result; all results of a name are gathered."""
    results = {name: [] for name in legs}
    for k in range(rounds):
        for name, leg in legs.items():
            if results[name] and "failed" in results[name][-1]:
                ledger.skip()
                continue
            results[name].append(ledger.take(f"{name}, turn {k + 1} of {rounds}", leg))
    return results


def seconds(results, kind="seconds"):
    """Median, or None when the leg failed."""
    all_seconds = [s for r in results for s in r.get(kind, [])]
    return median(all_seconds) if all_seconds else None


def spread(results):
    """Half the distance between the quartiles, relative to the median."""
    s = sorted(x for r in results for x in r.get("seconds", []))
    return (s[3 * len(s) // 4] - s[len(s) // 4]) / 2 / median(s) if s else 0.0


# ---- one part each ----


def overlap(layers=32, seq=512, accum=8):
    """Step time under paced links against max(link, compute). Both directions have one rate R, as
    a full-duplex bus has; link = the larger of both directions' bytes / R; compute = a step with
    every state in place. Micro-batches are interleaved: in plain depth-first order a forward waits
    for weights on a link that the backward cannot fill (at ratio 1 that costs 17 to 25 %; the
    depth-first leg shows it)."""
    folder = config("overlap", num_hidden_layers=layers, hidden_size=512, intermediate_size=1536,
                    num_attention_heads=8, num_key_value_heads=4)
    shape = ("fp32", seq, 1, accum)
    base = ("--recompute", "none")
    placed = base + ("--weights-home", "host", "--optimizer-home", "host", "--act-home", "device",
                     "--slots", "6", "--slabs", "3", "--micro-order", "interleave")
    legs = {"resident": lambda: outcore(folder, *shape, extra=base),
            "streamed": lambda: outcore(folder, *shape, extra=placed)}
    probe = take_turns(legs, rounds=1)
    compute = seconds(probe["resident"])
    lanes = probe["streamed"][0]["lanes"]
    most = max(lanes[lane]["bytes"] for lane in ("h2d", "d2h"))
    rates = {ratio: most / (ratio * compute) for ratio in (0.25, 0.5, 1, 2)}

    def paced(ratio, *more):
        rate = f"{rates[ratio]:.0f}B/s"
        return lambda: outcore(folder, *shape, extra=placed + (
            "--pace", "h2d=" + rate, "--pace", "d2h=" + rate) + more)

    for ratio in rates:
        legs[f"ratio {ratio}"] = paced(ratio)
    legs["depth-first 1"] = paced(1, "--micro-order", "depth")
    legs["serial 1"] = paced(1, "--serial-lanes")
    if BASELINE:
        legs["baseline streamed"] = lambda: outcore(folder, *shape, extra=placed, program=BASELINE)
        for ratio in rates:
            rate = f"{rates[ratio]:.0f}B/s"
            legs[f"baseline {ratio}"] = lambda rate=rate: outcore(
                folder, *shape, extra=placed + ("--pace", "h2d=" + rate, "--pace", "d2h=" + rate),
                program=BASELINE)
    results = take_turns(legs)
    compute = seconds(results["resident"])
    report = {}
    share = compute / seconds(results["streamed"])
    row("overlap: streamed, no pace: share of the resident rate", f"{share:.3f}", ">= 0.97",
        f"{compute:.2f} s a step, +-{spread(results['resident']):.1%}")
    for ratio, rate in rates.items():
        step, link = seconds(results[f"ratio {ratio}"]), most / rate
        target = "<= 1.12" if ratio == 1 else "<= 1.05"
        value = step / max(link, compute)
        busiest = median([r["seconds"][-1] / max(v["seconds"] for v in r["lanes"].values())
                          for r in results[f"ratio {ratio}"]])
        report[ratio] = {"step": step, "link": link, "value": value, "of_busiest_lane": busiest}
        row(f"overlap: step / max(link, compute), link / compute {link / compute:.2f}",
            f"{value:.3f}", target,
            f"{rate / 1e9:.2f} GB/s; step / its own busiest lane {busiest:.3f}")
    other = {}
    for name in ("depth-first 1", "serial 1"):
        other[name] = seconds(results[name]) / max(compute, most / rates[1])
        row(f"overlap: the same at 1, {name[:-2]}", f"{other[name]:.3f}", "worse")
    for ratio in rates if BASELINE else ():
        ours, theirs = results[f"ratio {ratio}"], results[f"baseline {ratio}"]
        row(f"overlap: step / the baseline's step, link / compute {ratio}",
            f"{seconds(ours) / seconds(theirs):.3f}", "<= 1")
    if BASELINE:
        row("overlap: streamed, no pace: step / the baseline's",
            f"{seconds(results['streamed']) / seconds(results['baseline streamed']):.3f}", "<= 1")
    save("overlap", {"config": f"llama 512 x {layers} layers, fp32, {accum} x 1 x {seq} tokens, saved "
                     "tensors kept, 6 slots, 3 slabs, interleaved, clip 1",
                     "share_of_resident": share, "ratios": report, "others": other,
                     "results": results, "probe": probe})


def plan():
    """What planning costs: layers x accumulation. A set does not depend on how often its plans run."""
    lines = bench_program("bench_plan")
    rows = [dict(zip(("layers", "hidden", "accumulation", "seconds", "ops", "bytes"),
                     map(float, line.split()))) for line in lines.splitlines()]
    for r in rows:
        big = r["hidden"] > 8192
        row(f"plan: {r['layers']:.0f} layers of {r['hidden']:.0f}, {r['accumulation']:.0f} "
            "micro-batches", f"{r['seconds']:.2f} s", "< 3 s" if big else "< 1 s",
            f"{r['ops']:.0f} ops, {r['bytes'] / 1e6:.0f} MB")
    save("plan", {"rows": rows})


def early(layers=16, seq=256):
    """A step that the optimizer's link bounds: its lane is paced so that late updates take `ratio`
    times the arithmetic of a step. Late, they begin when the backward has ended and run on under the
    next forward; early, they run under the backward, and gradients are not folded first."""
    folder = config("early", num_hidden_layers=layers, hidden_size=512, intermediate_size=1536,
                    num_attention_heads=8, num_key_value_heads=4)
    shape = ("bf16", seq, 1, 1)
    placed = ("--weights-home", "host", "--optimizer-home", "host", "--act-home", "device",
              "--slots", "6", "--slabs", "3", "--clip-grad-norm", "0")
    legs = {"late": lambda: outcore(folder, *shape, extra=placed + ("--early-updates", "off")),
            "early": lambda: outcore(folder, *shape, extra=placed + ("--early-updates", "on"))}
    probe = take_turns(legs, rounds=1)
    lanes = {leg: probe[leg][0]["lanes"] for leg in legs}
    compute = lanes["late"]["compute"]["seconds"]
    for ratio in (1, 2, 4, 8):
        for leg in ("late", "early"):
            rate = lanes["late"]["optim"]["bytes"] / (ratio * compute)
            mode = "off" if leg == "late" else "on"
            legs[f"{leg} {ratio}"] = lambda rate=rate, mode=mode: outcore(
                folder, *shape, extra=placed + ("--early-updates", mode, "--pace",
                                                f"optim={rate:.0f}B/s"))
    results = take_turns(legs)
    report = {}
    for ratio in (1, 2, 4, 8):
        for leg in ("late", "early"):
            name = f"{leg} {ratio}"
            of = median([r["seconds"][-1] / max(v["seconds"] for v in r["lanes"].values())
                         for r in results[name]])
            report[name] = {"step": seconds(results[name]), "of_busiest_lane": of}
            row(f"{leg} updates: step / busiest lane, optim / compute {ratio}", f"{of:.3f}",
                "<= 1.05" if leg == "early" and ratio == 8 else "", f"{seconds(results[name]):.2f} s")
    for ratio in (1, 2, 4, 8):
        share = seconds(results[f"early {ratio}"]) / seconds(results[f"late {ratio}"])
        row(f"early / late, optim / compute {ratio}", f"{share:.3f}", "< 1")
    save("early", {"config": f"llama 512 x {layers} layers, bf16, 1 x {seq} tokens, clip 0",
                   "ratios": report, "results": results, "probe": probe})


def host():
    """The shape of Qwen3-0.6B in the llama family: more state than half of a small machine."""
    folder = config("qwen", num_hidden_layers=28, head_dim=128, vocab_size=151936)
    extra = ("--weights-home", "host", "--optimizer-home", "host", "--act-home", "host",
             "--recompute", "full", "--slots", "2", "--slabs", "2")
    shape = ("bf16", 512, 1)
    planned = subprocess.run(
        [os.path.join(BUILD, "outcore"), "plan", "--init", folder, "--dtype", shape[0],
         "--seq-length", str(shape[1]), "--micro-batch", str(shape[2]), "--grad-accum", "4",
         "--json", *extra], capture_output=True, text=True, check=True)
    plan = json.loads(planned.stdout)
    steps = int(os.environ.get("OC_HOST_STEPS", "2"))
    result = ledger.take("the run", lambda: outcore(folder, *shape, accum=4, steps=steps, extra=extra))
    step = median(result["seconds"])
    bytes_planned = {tier: plan["tiers"][tier]["bytes"] for tier in ("device", "host")}
    row("host: llama of Qwen3-0.6B's shape, bf16, 4 x 512 tokens: s", f"{step:.1f}", "",
        f"{result['tokens'] / step:.1f} tokens/s, {plan['parameters'] / 1e6:.0f} M parameters")
    row("host: lanes busy", "", "", ", ".join(
        f"{n} {v['seconds'] / step:.0%}" for n, v in result["lanes"].items()))
    row("host: bytes planned, device + host", f"{sum(bytes_planned.values()) / 2**30:.2f}", "GiB",
        f"log {sum(result['peak_bytes'].values()) / 2**30:.2f} GiB; {result['notes'][-1]}")
    save("host", {"plan": plan, "result": result})


def pytorch():
    folder = config("pytorch", num_hidden_layers=4, vocab_size=8192)
    settings = (("fp32", 4, 1024, 1.1), ("bf16", 4, 1024, 1.3), ("fp32", 1, 256, 1.5),
                ("bf16", 1, 256, 1.5))
    report = []
    for dtype, batch, seq, target in settings:
        steps = STEPS if batch * seq >= 2048 else 8
        shape = {"config": folder, "dtype": dtype, "batch": batch, "seq": seq, "steps": steps}
        legs = {"outcore": lambda: outcore(folder, dtype, seq, batch, steps=steps,
                                           extra=("--recompute", "none")),
                "AdamW": lambda: peer("torch_train.py", **shape),
                "AdamW(fused)": lambda: peer("torch_train.py", **shape, fused=True)}
        if dtype == "bf16":
            legs["autocast, fp32 master, fused"] = lambda: peer(
                "torch_train.py", **shape, fused=True, weights="autocast")
        results = take_turns(legs)
        ours = seconds(results["outcore"])
        for name in list(legs)[1:]:
            theirs = seconds(results[name])
            kind = "bf16 weights, " if dtype == "bf16" and "autocast" not in name else ""
            what = f"pytorch: {dtype}, {batch * seq} tokens, {kind}{name}"
            if theirs is None:
                row(what, "failed", "", results[name][-1]["failed"][-100:])
                continue
            cpu = (seconds(results[name], "cpu_seconds") /
                   seconds(results["outcore"], "cpu_seconds"))
            row(what, f"{theirs / ours:.2f}x", f">= {target}",
                f"{ours:.3f} against {theirs:.3f} s, +-{spread(results['outcore']):.0%}, "
                f"+-{spread(results[name]):.0%}; processor time {cpu:.2f}x")
        report.append({"shape": shape, "target": target, "results": results})
    save("pytorch", {"config": "llama 1024 x 4 layers, vocabulary 8192 tied", "settings": report})


def step_gemm(folder, dtype, tokens, recompute):
    """Seconds of a step's products with our kernels."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        c = json.load(file)
    head = c["head_dim"]
    lines = bench_program("bench_step_gemm", THREADS, dtype, tokens, c["hidden_size"],
                          c["num_attention_heads"] * head, c["num_key_value_heads"] * head,
                          c["intermediate_size"], c["num_hidden_layers"], c["vocab_size"],
                          int(recompute), 3)
    return {"seconds": [float(lines.split()[-1])]}


def deepspeed():
    """ZeRO-3 with parameters and optimizer on the CPU against ours streaming through two slots: what
    a step costs beyond its products, each with its own library's."""
    folder = config("deepspeed", num_hidden_layers=8)
    extra = ("--weights-home", "host", "--optimizer-home", "host", "--act-home", "host",
             "--recompute", "full", "--slots", "2", "--slabs", "2")
    report = []
    for dtype in ("fp32", "bf16"):
        shape = {"config": folder, "dtype": dtype, "batch": 2, "seq": 512, "steps": STEPS,
                 "recompute": True}
        results = take_turns({
            "outcore": lambda: outcore(folder, dtype, 512, 2, extra=extra),
            "our GEMM": lambda: step_gemm(folder, dtype, 1024, True),
            "ZeRO-3": lambda: peer("deepspeed_train.py", **shape),
            "their GEMM": lambda: peer("torch_gemm.py", **shape)})
        report.append({"shape": shape, "results": results})
        failed = [n for n in results if seconds(results[n]) is None]
        for name in failed:
            row(f"deepspeed {dtype}: {name}", "failed", "", results[name][-1]["failed"][-200:])
        if failed:
            continue
        ours, our_gemm, theirs, their_gemm = (seconds(results[n]) for n in results)
        row(f"deepspeed {dtype}: beyond the GEMMs, ours / ZeRO-3 offload",
            f"{(ours - our_gemm) / (theirs - their_gemm):.2f}", "<= 0.5",
            f"step {ours:.2f} against {theirs:.2f} s; GEMMs {our_gemm:.2f}, {their_gemm:.2f} s")
    save("deepspeed", {"legs": report})


def planned(folder, dtype, seq, micro, extra, accum=1):
    """Device bytes of a run, and how many layers keep each value."""
    done = subprocess.run([os.path.join(BUILD, "outcore"), "plan", "--init", folder, "--tokenizer", "bytes",
                           "--data", text(), "--dtype", dtype, "--threads", str(THREADS),
                           "--seq-length", str(seq), "--micro-batch", str(micro), "--grad-accum", str(accum),
                           "--json", "--quiet", *extra], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found["tiers"]["device"]["bytes"], found["placement"]["kept"]


def recompute(layers=8, seq=1024):
    """What --recompute auto makes of a budget that an explicit choice needs to the byte: that choice
    keeps the same values in all layers. Processor time is compared, since what is made again is
    arithmetic. "Last layers whole" is computed, not run: as many layers as the budget holds keep all
    they have, each of which saves its share of what `none` saves over `full`."""
    folder = config("recompute", num_hidden_layers=layers, hidden_size=512, intermediate_size=1536,
                    num_attention_heads=8, num_key_value_heads=4)
    values = ("qkv", "attention", "mid", "up")
    shape = ("bf16", seq, 1)
    placed = ("--weights-home", "host", "--optimizer-home", "host", "--act-home", "device", "--slots",
              "2", "--slabs", "2")

    def options(choice, budget="64GiB"):
        return placed + ("--recompute", choice, "--device-memory", str(budget))

    choices = {"full": "full", "none": "none"}
    for kept in (("attention",), ("qkv", "attention"), ("qkv", "attention", "mid"), ("up",)):
        choices["keep " + "+".join(kept)] = ",".join(
            [v for v in values if v not in kept] + ["logits"])
    need = {name: planned(folder, *shape, options(choice))[0] for name, choice in choices.items()}
    legs, kept = {}, {}
    for name, choice in choices.items():
        legs[name] = lambda choice=choice: outcore(folder, *shape, extra=options(choice))
        if name in ("full", "none"):
            continue
        auto = options("auto", need[name])
        kept[name] = planned(folder, *shape, auto)[1]
        legs["auto for " + name] = lambda auto=auto: outcore(folder, *shape, extra=auto)
    results = take_turns(legs)
    of_cpu = {name: seconds(r, "cpu_seconds") for name, r in results.items()}
    slow, fast = of_cpu["full"], of_cpu["none"]
    row("recompute: none / full, processor time", f"{fast / slow:.3f}", "< 1",
        f"{fast:.2f} and {slow:.2f} s; wall {seconds(results['none']):.2f} and "
        f"{seconds(results['full']):.2f} s, +-{spread(results['full']):.1%}; "
        f"{need['none'] / 2**20:.0f} and {need['full'] / 2**20:.0f} MiB of the device")
    report = {}
    for name, of in kept.items():
        part = (need[name] - need["full"]) / (need["none"] - need["full"])
        step, auto = of_cpu[name], of_cpu["auto for " + name]
        wall = seconds(results["auto for " + name]) / seconds(results[name])
        whole = slow - int(part * layers) / layers * (slow - fast)
        report[name] = {"part": part, "step": step, "auto": auto, "last_layers_whole": whole,
                        "wall": wall, "kept": of}
        row(f"recompute: auto / {name}, {part:.0%} of the bytes", f"{auto / step:.3f}", "<= 1",
            f"{auto:.2f} against {step:.2f} s; wall {wall:.3f}; last layers whole {whole:.2f} s; keeps " +
            ", ".join(f"{v} {n}" for v, n in of.items() if n))
    save("recompute", {"config": f"llama 512 x {layers} layers, bf16, 1 x {seq} tokens, 2 slots, 2 slabs",
                       "need": need, "rows": report, "results": results})


def mixed(layers=16, seq=256, accum=4, budgets=10, rate="400MB/s"):
    """Ten budgets from the least device memory to every state there, both links paced: what the
    planner makes of each, beside another build's ($OC_BASELINE)."""
    folder = config("mixed", num_hidden_layers=layers, hidden_size=512, intermediate_size=1536,
                    num_attention_heads=8, num_key_value_heads=4)
    shape = ("fp32", seq, 1, accum)
    paced = ("--pace", "h2d=" + rate, "--pace", "d2h=" + rate)
    least = planned(folder, "fp32", seq, 1, ("--device-memory", "64GiB", "--recompute", "full",
                                             "--act-home", "host", "--slots", "1", "--slabs", "1"),
                    accum)[0]
    most = planned(folder, "fp32", seq, 1, ("--device-memory", "64GiB"), accum)[0]
    sizes = [int(1.05 * least + (1.01 * most - 1.05 * least) * k / (budgets - 1))
             for k in range(budgets)]
    legs = {}
    for size in sizes:
        extra = paced + ("--device-memory", str(size))
        legs[f"ours {size}"] = lambda extra=extra: outcore(folder, *shape, extra=extra)
        if BASELINE:
            legs[f"baseline {size}"] = lambda extra=extra: outcore(folder, *shape, extra=extra,
                                                                   program=BASELINE)
    results = take_turns(legs)
    for size in sizes:
        ours = seconds(results[f"ours {size}"])
        gain = seconds(results[f"baseline {size}"]) / ours if BASELINE else 0
        row(f"mixed: {size / 2**20:.0f} MiB of {most / 2**20:.0f}",
            f"{gain:.3f}" if BASELINE else f"{ours:.2f} s", ">= 1" if BASELINE else "",
            f"{ours:.2f} s a step")
    save("mixed", {"config": f"llama 512 x {layers} layers, fp32, {accum} x 1 x {seq} tokens, both links "
                   f"at {rate}", "sizes": sizes, "results": results})


def bench_program(name, *arguments):
    command = [os.path.join(BUILD, name), *map(str, arguments)]
    return ledger.take(" ".join([name, *map(str, arguments)]),
                       lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def adamw():
    """bench_adamw interleaves ours and the kernel without arithmetic; DeepSpeed takes turns."""
    millions = 64

    def ours():
        lines = bench_program("bench_adamw", THREADS, millions, 7)
        found = re.search(r"outcore .* ([0-9.]+) M parameters/s +([0-9.]+) of the streams", lines)
        return {"seconds": [millions / float(found[1])], "of_streams": float(found[2]), "lines": lines.split("\n")}

    def theirs(**more):
        return lambda: peer("deepspeed_adam.py", millions=millions, steps=7, **more)

    results = take_turns({"outcore": ours, "DeepSpeed": theirs(),
                          "DeepSpeed + copy": theirs(copy=True)}, rounds=ROUNDS + 1)
    rate = millions * 1e6 / seconds(results["outcore"])
    ratios = [r["of_streams"] for r in results["outcore"]]
    save("adamw", {"of_streams": ratios, "results": results})
    row("adamw: ours / same streams without arithmetic", f"{median(ratios):.2f}", ">= 0.9",
        f"{rate / 1e6:.0f} M parameters/s, 30 bytes each, fp32 g + bf16 copy")
    for name, target, what in (
            ("DeepSpeed + copy", ">= 1.2", "fp32 update, then the bf16 weights: the same job"),
            ("DeepSpeed", ">= 1.2", "fp32 update alone, 28 bytes each: ours still writes bf16")):
        took = seconds(results[name])
        if took is None:
            row(f"adamw: ours / {name}", "failed", "", results[name][-1]["failed"][-200:])
            continue
        row(f"adamw: ours / {name}", f"{took * rate / (millions * 1e6):.2f}x", target,
            f"{took * 1e3:.0f} ms for {millions} M; {what}")


def gemm():
    lines = bench_program("bench_gemm", THREADS, 5, 0, 12)
    print(lines.strip())
    save("gemm", {"lines": lines.split("\n")})


def few():
    """What a pass of generation is made of: products of few rows, and attention over pages."""
    lines = "".join(bench_program(name, THREADS, 7, dtype)
                    for name in ("bench_few", "bench_paged") for dtype in ("bf16", "fp32"))
    print(lines.strip())
    save("few", {"lines": lines.split("\n")})


def generation_model():
    """A llama of 286 M parameters in bf16, as safetensors."""
    folder = config("llama-300m", intermediate_size=2816, num_hidden_layers=20, vocab_size=32000,
                    tie_word_embeddings=False)
    model = os.path.join(WORK, "llama-300m-bf16")
    if not os.path.exists(os.path.join(model, "model.safetensors")):
        command = [os.path.join(BUILD, "outcore"), "train", "--init", folder, "--tokenizer", "bytes", "--data", text(),
                   "--output", model, "--overwrite", "--dtype", "bf16", "--max-steps", "1", "--lr", "1e-9", "--seq-length",
                   "64", "--quiet"]
        ledger.tell("a model", lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    return model


def generated(model, batch, prompt, new, extra=()):
    """Greedy answers to the peers' prompts, each run a process that reads the model anew."""
    rows, answers = os.path.join(WORK, "rows.jsonl"), os.path.join(WORK, "answers.jsonl")
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        vocab = json.load(file)["vocab_size"]
    with open(rows, "w", encoding="utf-8") as file:
        for ids in prompts(vocab, batch, prompt):
            file.write(json.dumps({"input_ids": ids}) + "\n")
    command = [os.path.join(BUILD, "outcore"), "generate", "--model", model, "--dtype", "bf16", "--threads",
               str(THREADS), "--input", rows, "--output", answers, "--overwrite", "--temperature", "0",
               "--ignore-eos", "--max-new-tokens", str(new), "--batch", str(batch), *extra]
    result = {"seconds": [], "options": list(extra)}
    for _ in range(STEPS):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told = re.search(r"([0-9.]+) tokens/s of prompts, ([0-9.]+) tokens/s of answers \(([0-9.]+) overall",
                         done.stderr)
        if done.returncode or not told:
            return {"failed": done.stderr[-600:]}
        result["seconds"].append(batch * new / float(told[3]))
        result.setdefault("prefill", []).append(float(told[1]))
        result.setdefault("decode", []).append(float(told[2]))
    return result


def compare_generation(name, legs, tokens):
    results = take_turns(legs)
    ours = seconds(results["ours"])
    if ours is None:
        sys.exit(results["ours"][-1]["failed"])
    row(f"{name}: tokens/s", f"{tokens / ours:.1f}", "", f"spread {spread(results['ours']):.0%}")
    for leg in list(legs)[1:]:
        theirs = seconds(results[leg])
        failed = results[leg][-1].get("failed", "")
        row(f"  of {leg}'s", f"{theirs / ours:.2f}" if theirs else "-", "> 1",
            f"{tokens / theirs:.1f} tokens/s" if theirs else failed[-120:])
    return results


def machine_rates():
    """Bytes a second that are read at best, and flops a second of products of many rows (bf16), now."""
    rows = [line.split() for line in bench_program("bench_few", THREADS, 3, "bf16").split("\n")[2:] if line.strip()]
    return max(float(r[1]) for r in rows) * 1e9, float(rows[-1][4]) * 1e9


def decode_bounds(model, batch, keys, rates, link):
    """Seconds that a pass of one token a sequence takes at least, by hand: what it reads in memory, what it
    multiplies, what crosses the link (bytes a second; None: nothing does)."""
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        c = json.load(file)
    hidden, layers, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    width = c.get("head_dim", hidden // heads)
    kv = c["num_key_value_heads"] * width
    layer = 2 * hidden * heads * width + 2 * hidden * kv + 3 * hidden * c["intermediate_size"]
    weights = layers * layer + hidden * c["vocab_size"]
    cache = 2 * batch * keys * layers * kv
    flops = 2 * batch * weights + 4 * batch * keys * layers * heads * width
    return {"memory": 2 * (weights + cache) / rates[0], "arithmetic": flops / rates[1],
            "link": 2 * weights / link if link else 0}


def svg(path, series, title):
    """Lines over batches, both axes by powers of two."""
    colours, left, top, width, height = ("#1f77b4", "#d62728", "#2ca02c", "#888888"), 70, 40, 520, 300
    xs = sorted({x for _, points in series for x, _ in points})
    ys = [y for _, points in series for _, y in points]
    low, high = math.floor(math.log2(min(ys))), math.ceil(math.log2(max(ys)))
    def at(x, y):
        return (left + width * math.log2(x / xs[0]) / math.log2(xs[-1] / xs[0]),
                top + height * (1 - (math.log2(y) - low) / (high - low)))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 190}" height="{top + height + 50}" '
           'font-family="sans-serif" font-size="12">', f'<text x="{left}" y="20" font-size="14">{title}</text>']
    for x in xs:
        out.append(f'<text x="{at(x, 2**low)[0]:.0f}" y="{top + height + 18}" text-anchor="middle">{x}</text>')
    for k in range(low, high + 1):
        y = at(xs[0], 2**k)[1]
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{2**k:g}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">sequences at a time</text>')
    for i, (name, points) in enumerate(series):
        dash = ' stroke-dasharray="5,4"' if "bound" in name else ""
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(x, y) for x, y in points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colours[i]}" stroke-width="2"{dash}/>'
                   f'<text x="{left + width + 10}" y="{top + 20 + 18 * i}" fill="{colours[i]}">{name}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")


def bounds(prompt=128, new=64):
    """Answers alone, each batch beside what its passes take at least: resident, every layer fetched, and over a
    link of 4 GB/s."""
    model, saved, series = generation_model(), [], {"resident": [], "its bound": [], "fetched": [], "4 GB/s": []}
    device = ("--device-memory", "1GiB", "--resident-blocks", "0", "--slots", "2")
    legs = {"resident": ((), None), "fetched": (device, None), "4 GB/s": ((*device, "--pace", "h2d=4GB/s"), 4e9)}
    for batch in (1, 2, 4, 8, 16, 32, 64):
        rates = machine_rates()
        got = take_turns({name: (lambda extra=extra: generated(model, batch, prompt, new, extra))
                          for name, (extra, _) in legs.items()})
        for name, (_, link) in legs.items():
            rate = median([x for run in got[name] for x in run["decode"]])
            least = decode_bounds(model, batch, prompt + new / 2, rates, link)
            bound = batch / max(least.values())
            series[name].append((batch, rate))
            if name == "resident":
                series["its bound"].append((batch, bound))
            row(f"batch {batch}, {name}: tokens/s", f"{rate:.1f}", "", f"{rate / bound:.2f} of {max(least, key=least.get)}")
            saved.append({"batch": batch, "leg": name, "rate": rate, "bound": bound, **least})
    svg(os.path.join(OUT, "generation.svg"), list(series.items()), "Tokens of answers a second, 286 M llama in bf16")
    save("bounds", {"rows": saved})


def generate(prompt=128, new=64):
    """Prompts and answers together: what a batch takes from its first pass to its last token."""
    model, saved = generation_model(), {}
    for batch in (1, 8, 32):
        options = {"model": model, "batch": batch, "prompt": prompt, "new": new, "steps": STEPS}
        saved[batch] = compare_generation(f"generate, batch {batch}", {
            "ours": lambda: generated(model, batch, prompt, new),
            "transformers": lambda: peer("generate_transformers.py", **options),
            "llama.cpp": lambda: peer("generate_llama_cpp.py", **options),
        }, batch * new)
    streamed = ("--device-memory", "400MiB", "--resident-blocks", "0", "--slots", "2")
    options = {"model": model, "batch": 32, "prompt": prompt, "new": new, "steps": 1,
               "accelerate-max-memory": "200MiB", "accelerate-copy": True}
    saved["streamed"] = compare_generation("generate, batch 32, every layer fetched each pass", {
        "ours": lambda: generated(model, 32, prompt, new, streamed),
        "accelerate": lambda: peer("generate_transformers.py", **options),
        "ours, resident": lambda: generated(model, 32, prompt, new),
    }, 32 * new)
    save("generate", saved)


def bible(name):
    """The text of Debian's bible-kjv, as running text."""
    path = os.path.join(WORK, name)
    if not os.path.exists(path):
        done = subprocess.run(["bible", "-l0", "-f", "Gen1:1-Rev22:21"], capture_output=True,
                              text=True, errors="replace", check=True)
        os.makedirs(WORK, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^[0-9A-Za-z]+:[0-9]+ ", "", done.stdout))
    return path


def tokenizer():
    """OC_TOKENIZER names a directory with a tokenizer.json; else a BPE of 32,000 entries is made."""
    text_file = bible("bible.txt")
    folder = os.environ.get("OC_TOKENIZER")
    shape = {"dir": folder or os.path.join(WORK, "bpe"), "text": text_file, "steps": STEPS}
    if not folder and "failed" in peer("tokenizer_encode.py", **shape, make=True):
        row("tokenizer", "failed", "", "no tokenizer could be made")
        return

    def ours():
        lines = bench_program("bench_tokenizer", shape["dir"], text_file, STEPS)
        found = {k: float(v) for k, v in re.findall(r"(open|documents|whole) ([0-9.]+)", lines)}
        return {"seconds": [os.path.getsize(text_file) * 1e-6 / found["documents"]],
                "open": found["open"], "whole": found["whole"], "ids": re.findall(r"(\d+) ids",
                                                                                lines)}

    results = take_turns({"outcore": ours, "tokenizers": lambda: peer("tokenizer_encode.py",
                                                                      **shape)})
    save("tokenizer", {"shape": shape, "results": results})
    size = os.path.getsize(text_file) * 1e-6
    took, theirs = seconds(results["outcore"]), seconds(results["tokenizers"])
    first = results["outcore"][0]
    if theirs is None:
        row("tokenizer: theirs", "failed", "", results["tokenizers"][-1]["failed"][-200:])
        return
    other = results["tokenizers"][0]
    row("tokenizer: plain English, one core, MB/s", f"{size / took:.1f}", ">= 10",
        f"tokenizers library {size / theirs:.1f}; whole text {first['whole']:.1f}; ids "
        f"{'equal in number' if int(first['ids'][0]) == other['ids'] else 'DIFFER'}")
    row("tokenizer: opening its file, s", f"{first['open']:.3f}", "< 1",
        f"{os.path.getsize(os.path.join(shape['dir'], 'tokenizer.json')) * 1e-6:.1f} MB; "
        f"tokenizers library {other['open_seconds']:.3f}")


PARTS = {f.__name__: f for f in (adamw, gemm, few, generate, bounds, tokenizer, plan, overlap, early, recompute, mixed, host,
                                 pytorch, deepspeed)}


def main():
    global ledger
    wanted = [name for name in sys.argv[1:] if name != "--fresh"] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    os.makedirs(WORK, exist_ok=True)
    print(f"{THREADS} threads, load {os.getloadavg()[0]:.1f}; {ROUNDS} turns, {STEPS} steps each")
    if not os.path.exists(os.path.join(PEERS, "bin", "python")):
        print(f"no peers in {PEERS} (bench/peers/setup.sh installs them): left out")
        wanted = [name for name in wanted if name not in ("tokenizer", "pytorch", "deepspeed", "generate")]
    ledger = Ledger("--fresh" in sys.argv)
    if ledger.kept:
        print(f"going on: {len(ledger.kept)} measurements of the same programs are kept (--fresh: begin anew)")
    for k, name in enumerate(wanted):
        ledger.begin(name, k + 1, len(wanted))
        PARTS[name]()
    ledger.end()
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; the same line goes on where it was, --fresh begins anew")
