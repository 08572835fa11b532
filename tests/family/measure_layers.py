"""Measures the bytes that exported layers keep from forward to backward on the CPU, and their peak memory.

measure_layers.py            measures and compares with the table beside this file
measure_layers.py --write    rewrites the table

A layer is recorded as the calls of its exported graph. Kept bytes are those of the storages that autograd saves,
each counted once. Parameters and inputs without a gradient do not count. Peaks come from LibTorch's own record of
allocations. They cover a forward without gradients and a backward, and exclude memory allocated before.
"""

import argparse
import json
import math
import pathlib
import sys
import weakref

import torch
from torch import nn
from torch.nn import functional as F
import transformers.integrations.moe  # pylint: disable=unused-import  # an operator of its own

from measure_aten import Box, dtype_name, storage

TABLE = pathlib.Path(__file__).with_name("aten_layers.json")
# Kernels need scratch memory, which depends on the machine for narrow types.
TOLERANCE = {"kept": 0, "after_input": 0, "calls": 0, "in_forward": 0.1, "in_backward": 0.05}
WIDTH, HEADS, LENGTH, ROWS = 64, 4, 48, 2


class RmsNorm(nn.Module):
    def __init__(self, width, plus_one=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.plus_one = plus_one

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.plus_one:
            return (wide * (1.0 + self.weight.float())).type_as(x)
        return self.weight * wide.to(x.dtype)


def turn(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class LlamaBlock(nn.Module):
    """Grouped heads, rotary positions, a boolean mask, a gated feed-forward."""

    def __init__(self, plus_one=False, one_matrix=False, parallel=False):
        super().__init__()
        d, kv = WIDTH, WIDTH // 2
        self.norm, self.norm2 = RmsNorm(d, plus_one), RmsNorm(d, plus_one)
        self.q, self.k, self.v, self.o = (nn.Linear(d, n, bias=False) for n in (d, kv, kv, d))
        self.one_matrix, self.parallel = one_matrix, parallel
        if one_matrix:
            self.gate_up = nn.Linear(d, 6 * d, bias=False)
        else:
            self.gate, self.up = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False)
        self.down = nn.Linear(3 * d, d, bias=False)

    def forward(self, x, cos, sin, mask):
        b, l, d = x.shape
        y = self.norm(x)
        split = lambda t: t.view(b, l, -1, d // HEADS).transpose(1, 2)
        q, k, v = turn(split(self.q(y)), cos, sin), turn(split(self.k(y)), cos, sin), split(self.v(y))
        repeat = lambda t: t[:, :, None].expand(b, HEADS // 2, 2, l, d // HEADS).reshape(
            b, HEADS, l, d // HEADS)
        a = F.scaled_dot_product_attention(q, repeat(k), repeat(v), attn_mask=mask)
        a = self.o(a.transpose(1, 2).reshape(b, l, -1).contiguous())
        h = x if self.parallel else x + a
        y = self.norm2(h)
        if self.one_matrix:
            gate, up = self.gate_up(y).chunk(2, dim=-1)
        else:
            gate, up = self.gate(y), self.up(y)
        fed = self.down(F.silu(gate) * up)
        return x + a + fed if self.parallel else h + fed


class Gpt2Block(nn.Module):
    """Transposed weights, tanh GELU written out, dropout everywhere."""

    def __init__(self):
        super().__init__()
        d = WIDTH
        self.norm, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        shape = {"qkv": (d, 3 * d), "o": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
        self.w = nn.ParameterDict({n: nn.Parameter(torch.randn(s) / 8) for n, s in shape.items()})
        self.b = nn.ParameterDict({n: nn.Parameter(torch.zeros(s[1])) for n, s in shape.items()})

    def product(self, name, x):
        out = torch.addmm(self.b[name], x.view(-1, x.size(-1)), self.w[name])
        return out.view(x.size()[:-1] + (self.w[name].size(1),))

    def forward(self, x, mask):
        b, l, d = x.shape
        q, k, v = self.product("qkv", self.norm(x)).split(d, dim=2)
        split = lambda t: t.view(b, l, HEADS, d // HEADS).transpose(1, 2)
        a = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=mask, dropout_p=0.1)
        a = self.product("o", a.transpose(1, 2).contiguous().reshape(b, l, d))
        h = F.dropout(a, 0.1, True) + x
        y = self.product("up", self.norm2(h))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return h + F.dropout(self.product("down", y), 0.1, True)


class T5Block(nn.Module):
    """A bias of relative positions, attention written out."""

    def __init__(self):
        super().__init__()
        d = WIDTH
        self.norm, self.norm2 = RmsNorm(d), RmsNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.wi, self.wo = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.bias = nn.Embedding(32, HEADS)

    def forward(self, x, buckets):
        b, l, d = x.shape
        y = self.norm(x)
        split = lambda t: t.view(b, l, HEADS, d // HEADS).transpose(1, 2)
        q, k, v = split(self.q(y)), split(self.k(y)), split(self.v(y))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += self.bias(buckets).permute([2, 0, 1]).unsqueeze(0)
        weights = F.dropout(F.softmax(scores.float(), dim=-1).type_as(scores), 0.1, True)
        a = torch.matmul(weights, v).transpose(1, 2).contiguous().view(b, l, d)
        h = x + F.dropout(self.o(a), 0.1, True)
        return h + F.dropout(self.wo(F.dropout(F.relu(self.wi(self.norm2(h))), 0.1, True)), 0.1, True)


class BertBlock(nn.Module):
    """Norms after each half, biases, a floating-point mask, GELU."""

    def __init__(self):
        super().__init__()
        d = WIDTH
        self.norm, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        b, l, d = x.shape
        split = lambda t: t.view(b, l, HEADS, d // HEADS).transpose(1, 2)
        a = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)),
                                           attn_mask=mask)
        h = self.norm(F.dropout(self.o(a.transpose(1, 2).reshape(b, l, d)), 0.1, True) + x)
        return self.norm2(F.dropout(self.down(F.gelu(self.up(h))), 0.1, True) + h)


class UnetBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.GroupNorm(4, 16), nn.BatchNorm2d(32)
        self.a, self.b = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.skip, self.time = nn.Conv2d(16, 32, 1), nn.Linear(24, 32)
        self.down = nn.Conv2d(32, 32, 3, stride=2, padding=1)

    def forward(self, x, time):
        h = self.a(F.silu(self.norm(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.b(F.dropout(F.relu(self.norm2(h)), 0.1, True))
        h = h + self.skip(x)
        return F.interpolate(self.down(h), scale_factor=2.0, mode="nearest") + F.avg_pool2d(
            h, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)


class MambaBlock(nn.Module):
    """The chunked scan of Mamba-2, as transformers writes it."""

    def __init__(self):
        super().__init__()
        d, self.heads, self.state, self.chunk = WIDTH, 4, 8, 16
        self.inner = 2 * d
        self.norm, self.gated = RmsNorm(d), RmsNorm(self.inner)
        width = self.inner + 2 * self.state
        self.enter = nn.Linear(d, self.inner + width + self.heads, bias=False)
        self.conv = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.a_log, self.bias = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.ones(4))
        self.d = nn.Parameter(torch.ones(4))
        self.leave = nn.Linear(self.inner, d, bias=False)

    def segments(self, x):
        l = x.size(-1)
        x = x[..., None].expand(*x.size(), l)
        x = x.masked_fill(~torch.tril(torch.ones(l, l, dtype=torch.bool), diagonal=-1), 0)
        x = torch.cumsum(x, dim=-2)
        return x.masked_fill(~torch.tril(torch.ones(l, l, dtype=torch.bool)), -torch.inf)

    def forward(self, x):
        b, l, _ = x.shape
        n, h, c = self.state, self.heads, self.chunk
        gate, inner, steps = self.enter(self.norm(x)).split(
            [self.inner, self.inner + 2 * n, h], dim=-1)
        inner = F.silu(self.conv(inner.transpose(1, 2))[..., :l].transpose(1, 2))
        u, first, second = torch.split(inner, [self.inner, n, n], dim=-1)
        steps = F.softplus(steps + self.bias).clamp(min=0.001)
        u = u.reshape(b, l, h, -1).float()
        first = first.reshape(b, l, 1, n).float().repeat(1, 1, h, 1)
        second = second.reshape(b, l, 1, n).float().repeat(1, 1, h, 1)
        skip = self.d[..., None] * u
        u = u * steps[..., None]
        a = -torch.exp(self.a_log.float()) * steps
        u, a, first, second = (t.reshape(b, l // c, c, *t.shape[2:]) for t in (u, a, first, second))
        a = a.permute(0, 3, 1, 2)
        sums = torch.cumsum(a, dim=-1)
        decay = torch.exp(self.segments(a))
        pairs = (second[:, :, :, None] * first[:, :, None]).sum(dim=-1)
        mixed = (pairs[..., None] * decay.permute(0, 2, 3, 4, 1)[..., None]).sum(dim=-1)
        inside = (mixed[..., None] * u[:, :, None]).sum(dim=3)
        left = torch.exp(sums[:, :, :, -1:] - sums)
        states = ((first * left.permute(0, 2, 3, 1)[..., None])[..., None, :] * u[..., None]).sum(dim=2)
        out = inside + (second[..., None, :] * states[:, :, None]).sum(-1) * torch.exp(
            sums).permute(0, 2, 3, 1)[..., None]
        out = (out.reshape(b, l, h, -1) + skip).reshape(b, l, -1)
        return x + self.leave(self.gated(out * F.silu(gate)).to(x.dtype))


class ExpertsBlock(nn.Module):
    """Experts whose weights are gathered for every choice of a token."""

    def __init__(self):
        super().__init__()
        d, e, f = WIDTH, 4, 32
        self.norm, self.gate = RmsNorm(d), nn.Linear(d, e, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(e, 2 * f, d) / 8), nn.Parameter(
            torch.randn(e, d, f) / 8)

    def forward(self, x):
        b, l, d = x.shape
        y = self.norm(x).view(-1, d)
        shares = F.softmax(self.gate(y), dim=-1, dtype=torch.float)
        shares, chosen = torch.topk(shares, 2, dim=-1)
        shares = (shares / shares.sum(dim=-1, keepdim=True)).to(y.dtype)
        tokens = torch.arange(b * l).unsqueeze(1).expand(-1, 2).reshape(-1)
        chosen = chosen.reshape(-1)
        gate, up = torch.bmm(self.up[chosen], y[tokens].unsqueeze(-1)).squeeze(-1).chunk(2, dim=-1)
        out = torch.bmm(self.down[chosen], (F.silu(gate) * up).unsqueeze(-1)).squeeze(-1)
        out = out * shares.reshape(-1, 1)
        return x + out.view(b * l, 2, d).sum(dim=1).view(b, l, d)


class GroupedExpertsBlock(ExpertsBlock):
    """The same with tokens sorted by expert, and with the operator that transformers registers."""

    def forward(self, x):
        b, l, d = x.shape
        y = self.norm(x).view(-1, d)
        shares, chosen = torch.topk(F.softmax(self.gate(y), dim=-1, dtype=torch.float), 2, dim=-1)
        shares = (shares / shares.sum(dim=-1, keepdim=True)).to(y.dtype)
        tokens = torch.arange(b * l).unsqueeze(1).expand(-1, 2).reshape(-1)
        order = torch.argsort(chosen.reshape(-1))
        back = torch.argsort(order)
        counts = torch.histc(chosen.reshape(-1).float(), bins=4, min=0, max=3)
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
        product = torch.ops.transformers.grouped_mm_fallback
        gate, up = product(y[tokens[order]], self.up.transpose(-2, -1), ends).chunk(2, dim=-1)
        out = product(F.silu(gate) * up, self.down.transpose(-2, -1), ends)
        out = (out * shares.reshape(-1)[order].unsqueeze(-1))[back]
        return x + out.view(b * l, 2, d).sum(dim=1).view(b, l, d)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = RmsNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, x, labels):
        logits = self.out(self.norm(x)).float()
        return F.cross_entropy(logits.view(-1, 256), labels.view(-1), reduction="sum")


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, ids):
        return F.dropout(self.words(ids) + self.places(torch.arange(ids.shape[1])), 0.1, True)


def layers():
    """Yields name, module, inputs with gradients, inputs without, and whether autocast is on."""
    x = torch.randn(ROWS, LENGTH, WIDTH)
    head = WIDTH // HEADS
    cos, sin = torch.randn(1, 1, LENGTH, head), torch.randn(1, 1, LENGTH, head)
    booleans = torch.ones(ROWS, 1, LENGTH, LENGTH, dtype=torch.bool).tril()
    numbers = torch.zeros(ROWS, 1, LENGTH, LENGTH)
    ids = torch.randint(0, 256, (ROWS, LENGTH))
    buckets = torch.randint(0, 32, (LENGTH, LENGTH))
    llama = ({"x": x}, {"cos": cos, "sin": sin, "mask": booleans})
    yield "llama", LlamaBlock(), *llama, False
    yield "llama, norms of 1 + weight, one matrix", LlamaBlock(True, True), *llama, False
    yield "llama, parallel halves", LlamaBlock(parallel=True), *llama, False
    half = ({"x": x.bfloat16()}, {"cos": cos.bfloat16(), "sin": sin.bfloat16(), "mask": booleans})
    yield "llama, bfloat16", LlamaBlock().bfloat16(), *half, False
    yield "llama, autocast", LlamaBlock(), *llama, True
    yield "gpt2", Gpt2Block(), {"x": x}, {"mask": booleans}, False
    yield "t5", T5Block(), {"x": x}, {"buckets": buckets}, False
    yield "t5, bfloat16", T5Block().bfloat16(), {"x": x.bfloat16()}, {"buckets": buckets}, False
    yield "bert", BertBlock(), {"x": x}, {"mask": numbers}, False
    yield "bert, autocast", BertBlock(), {"x": x}, {"mask": numbers}, True
    yield "unet", UnetBlock(), {"x": torch.randn(ROWS, 16, 16, 16)}, {"time": torch.randn(ROWS, 24)}, False
    yield "mamba", MambaBlock(), {"x": x}, {}, False
    yield "experts", ExpertsBlock(), {"x": x}, {}, False
    yield "experts, grouped", GroupedExpertsBlock(), {"x": x}, {}, False
    yield "head", Head(), {"x": x}, {"labels": ids}, False
    yield "head, autocast", Head(), {"x": x}, {"labels": ids}, True
    yield "embedding", Embedding(), {}, {"ids": ids}, False


def calls_of(program, with_gradient):
    """Returns the program's graph as calls, and the names of its results."""
    kinds = {}
    for spec in program.graph_signature.input_specs:
        kinds[spec.arg.name] = (spec.kind.name, spec.target)
    calls, made = [], {}

    def described(node):
        if node.name in made:
            return {"name": node.name}
        value = node.meta["val"]
        kind, target = kinds.get(node.name, ("", ""))
        one = {"name": node.name, "dtype": dtype_name(value.dtype), "sizes": list(value.shape),
               "strides": list(value.stride()), "storage": value.untyped_storage().nbytes()}
        if kind == "PARAMETER":
            one["weight"] = target
        elif node.name not in with_gradient:
            one["free"] = True
        return one

    for node in program.graph.nodes:
        if node.op != "call_function" or node.target.__class__.__name__ == "builtin_function_or_method":
            continue
        call = {"target": str(node.target), "tensors": {}, "values": {}, "results": []}
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            continue
        given = list(zip([a.name for a in schema.arguments], node.args)) + list(node.kwargs.items())
        for name, value in given:
            if isinstance(value, torch.fx.Node):
                if isinstance(value.meta["val"], torch.Tensor):
                    call["tensors"][name] = [described(value)]
            elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.fx.Node) for v in value):
                call["tensors"][name] = [described(v) for v in value if isinstance(v, torch.fx.Node)]
            elif value is not None:
                plain = isinstance(value, (bool, int, float, str, list, tuple))
                call["values"][name] = list(value) if isinstance(value, (list, tuple)) else \
                    value if plain and value == value and value not in (math.inf, -math.inf) else \
                    dtype_name(value) if isinstance(value, torch.dtype) else str(value)
        values = node.meta["val"]
        parts = values if isinstance(values, (list, tuple)) else [values]
        names = [node.name]
        if isinstance(values, (list, tuple)):
            names = [None] * len(parts)
            for user in node.users:  # getitem
                names[user.args[1]] = user.name
            names = [n or f"{node.name}.{i}" for i, n in enumerate(names)]
        for name, part in zip(names, parts):
            if isinstance(part, torch.Tensor):
                call["results"].append({"name": name, "dtype": dtype_name(part.dtype),
                                        "sizes": list(part.shape)})
                made[name] = True
        calls.append(call)
    leaving = [s.arg.name for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    return calls, leaving


def most_at_once(run, before=lambda: None):
    """Returns the peak bytes allocated while `run` runs on what `before` returned, above the bytes at its
    start. The allocations of `before` are recorded too."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        made = before()
        with torch.profiler.record_function("what counts"):
            run(made)
    events = profile.profiler.kineto_results.events()
    begin = min(e.start_ns() for e in events if e.name() == "what counts")
    now = at_first = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        now += event.nbytes()
        if event.start_ns() < begin:
            at_first = most = now
        most = max(most, now)
    return most - at_first


def waits_for_weights(out, inputs, of_others):
    """Returns the bytes that stay between the gradient of the inputs and the later gradient of the weights.
    They are the tensors saved by the nodes where the two paths part, and the gradients that arrive there."""
    targets = {t.grad_fn for t in inputs.values()}
    reach, order, path = {}, [], [out.grad_fn]
    while path:
        node = path[-1]
        below = [n for n, _ in node.next_functions if n is not None and node not in targets]
        new = [n for n in below if n not in reach]
        if new:
            path.extend(new[:1])
            continue
        path.pop()
        if node in reach:
            continue
        own = {"input"} if node in targets else {"weight"} if hasattr(node, "variable") else set()
        reach[node] = own.union(*(reach[n] for n in below))
        order.append(node)
    kept = {}

    def count(tensor):
        if isinstance(tensor, torch.Tensor) and storage(tensor) not in of_others:
            kept[storage(tensor)] = tensor

    hooks = []
    for node in order:
        if "input" not in reach[node] or node in targets or not any(
                n is not None and reach.get(n) == {"weight"} for n, _ in node.next_functions):
            continue
        for attribute in dir(node):
            if attribute.startswith("_saved_"):
                saved = getattr(node, attribute)
                for each in saved if isinstance(saved, (list, tuple)) else [saved]:
                    count(each)
        for each in getattr(node, "saved_tensors", ()):  # of an operator in Python
            count(each)
        hooks.append(node.register_prehook(lambda gradients: [count(g) for g in gradients] and None))
    saved_and_arrived = kept
    out.backward(torch.ones_like(out))
    return sum(t.untyped_storage().nbytes() for t in saved_and_arrived.values())


def measure(name, module, moving, free, autocast):
    torch.manual_seed(0)
    module.train()
    program = torch.export.export(module, (), kwargs={**moving, **free}, strict=False)
    calls, leaving = calls_of(program, set(moving))
    exported = program.module()
    for node in list(exported.graph.nodes):  # the recorded types do not hold under autocast
        if "_assert_tensor_metadata" in str(node.target):
            exported.graph.erase_node(node)
    exported.recompile()
    # The clone is a view, because autocast would cache the casts of leaves for all readers.
    inputs = {n: t.clone().requires_grad_(True).view(t.shape) for n, t in moving.items()}
    others = {n: t.clone() for n, t in free.items()}
    cast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast)
    of_others = {storage(t) for t in [*exported.parameters(), *exported.buffers(), *others.values()]}
    held = weakref.WeakSet()

    def pack(t):
        box = Box(t)
        held.add(box)
        return box

    def forward():
        with cast:
            return exported(**inputs, **others)

    exported(**inputs, **others)  # the first run makes everything that is made only once
    with torch.no_grad():
        taken = most_at_once(lambda _: forward())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        out = forward()
    kept = {storage(b.tensor): b.tensor.untyped_storage().nbytes() for b in held}
    bytes_kept = sum(b for s, b in kept.items() if s not in of_others)
    held = None
    for parameter in exported.parameters():  # gradients are sums that already exist
        parameter.grad = torch.zeros_like(parameter)

    def begun():
        out = forward()
        return [out, torch.ones_like(out)]

    gradients = most_at_once(lambda made: made[0].backward(made[1]), begun)
    narrow = autocast or any(p.dtype != torch.float32 for p in exported.parameters())
    waiting = waits_for_weights(forward(), inputs, of_others) if inputs else 0
    return {"name": name, "autocast": autocast, "gradients": list(moving), "leaving": leaving,
            "kept": bytes_kept, "in_forward": taken, "in_backward": None if narrow else gradients,
            "after_input": waiting, "calls": calls}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, failed = [], 0
    for layer in layers():
        rows.append(measure(*layer))
    text = "[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n"
    if options.write:
        TABLE.write_text(text)
    else:
        before = {r["name"]: r for r in json.loads(TABLE.read_text())}
        for row in rows:
            known = before.get(row["name"], {})
            for what, share in TOLERANCE.items():
                now, then = row[what], known.get(what)
                same = then == now if share == 0 or None in (then, now) else \
                    abs(now - then) <= share * then
                # Without AVX-512, LibTorch's bfloat16 products need less scratch memory than the table
                # states.
                if row["name"].endswith("autocast") and what == "in_forward" and \
                        torch.backends.cpu.get_cpu_capability() != "AVX512":
                    same = now <= then * (1 + share)
                if not same:
                    print(f"differs: {row['name']}, {what}: {now}, not {then}")
                    failed += 1
    for row in rows:
        print(row["name"], len(row["calls"]), "calls:", row["kept"], row["in_forward"], row["in_backward"],
              row["after_input"])
    print(f"{len(rows)} layers, {failed} failed")
    return 1 if failed or len(rows) < 17 else 0


if __name__ == "__main__":
    sys.exit(main())
