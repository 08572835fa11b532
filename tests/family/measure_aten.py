"""Measures the bytes that ATen operators keep for their backward on the CPU, and their FLOPs.

measure_aten.py            measures and compares with the table beside this file
measure_aten.py --write    rewrites the table

Each case is one call of an operator. It is measured once per set of tensors that may need a gradient. The bytes
are those of the storages that autograd saves, each counted once. Storages of parameters do not count. Parameters
are the tensors that a case names in `weights`.
"""

import argparse
import itertools
import json
import pathlib
import sys
import weakref

import torch
from torch.utils.flop_counter import FlopCounterMode

TABLE = pathlib.Path(__file__).with_name("aten_operators.json")
F32, BF16, I64, BOOL = torch.float32, torch.bfloat16, torch.int64, torch.bool


class T:
    """Describes a tensor argument: sizes and dtype. most: upper bound of integers. axes: memory layout."""

    def __init__(self, *sizes, dtype=F32, most=4, axes=None, expand=None, free=False, positive=False):
        self.sizes, self.dtype, self.most, self.axes = sizes, dtype, most, axes
        self.expand, self.free, self.positive = expand, free, positive

    def make(self):
        sizes = self.sizes
        if self.axes:  # contiguous in this order of axes
            sizes = [self.sizes[a] for a in self.axes]
        if self.dtype == I64:
            made = torch.randint(0, self.most, sizes)
        elif self.dtype == BOOL:
            made = torch.rand(sizes) < 0.5
        else:
            made = (torch.rand(sizes) + 0.5 if self.positive else torch.randn(sizes)).to(self.dtype)
        if self.axes:
            made = made.permute([self.axes.index(i) for i in range(len(self.sizes))])
        if self.expand:
            made = made.expand(self.expand)
        return made

    def at(self, dtype):
        if self.dtype != F32:
            return self
        return T(*self.sizes, dtype=dtype, axes=self.axes, expand=self.expand, free=self.free,
                 positive=self.positive)


def cases():
    x, heads = T(2, 16, 32), T(2, 4, 16, 8)
    turned = T(2, 4, 16, 8, axes=(0, 2, 1, 3))
    image = T(2, 4, 12, 12)

    def case(target, *arguments, weights=(), types=(F32, BF16), **named):
        for dtype in types:
            at = lambda a: a.at(dtype) if isinstance(a, T) else \
                [at(b) for b in a] if isinstance(a, list) else a
            yield target, [at(a) for a in arguments], {k: at(v) for k, v in named.items()}, weights

    yield from case("linear.default", x, T(24, 32), weights=("weight",))
    yield from case("linear.default", x, T(24, 32), T(24), weights=("weight", "bias"))
    yield from case("linear.default", x, T(24, 32), T(24))
    yield from case("linear.default", T(2, 16, 32, axes=(1, 0, 2)), T(24, 32), T(24),
                    weights=("weight", "bias"))
    yield from case("addmm.default", T(24), T(32, 48), T(48, 24), weights=("self", "mat2"))
    yield from case("addmm.default", T(24), T(32, 48), T(48, 24))
    yield from case("mm.default", T(32, 48), T(48, 24))
    yield from case("bmm.default", T(4, 32, 48), T(4, 48, 24))
    yield from case("baddbmm.default", T(4, 32, 24), T(4, 32, 48), T(4, 48, 24))
    yield from case("matmul.default", x, T(32, 24))
    yield from case("matmul.default", x, T(32, 24), weights=("other",))
    yield from case("matmul.default", heads, T(2, 4, 8, 16))
    yield from case("matmul.default", turned, T(2, 4, 8, 16, axes=(0, 3, 1, 2)))
    yield from case("matmul.default", T(16, 16), x)
    yield from case("einsum.default", "bhld,bhmd->bhlm", [heads, heads])
    chunks, states = T(2, 3, 16, 4, 8), T(2, 3, 16, 4, 6)
    yield from case("einsum.default", "bclhn,bcshn->bchls", [states, states])
    yield from case("einsum.default", "bchls,bcshp->bclhp", [T(2, 3, 4, 16, 16), chunks])
    yield from case("einsum.default", "bclhn,bclhp->bchpn", [states, chunks])
    yield from case("einsum.default", "bhzc,bchpn->bzhpn", [T(2, 4, 3, 3), T(2, 3, 4, 8, 6)])
    yield from case("einsum.default", "bl,bd->bld", [T(2, 16), T(2, 8)])
    yield from case("einsum.default", "bhd,hd->bh", [T(2, 4, 8), T(4, 8)])
    yield from case("einsum.default", "bld,de->ble", [x, T(32, 24)])
    for bias in ([], [T(8)]):
        yield from case("conv2d.default", image, T(8, 4, 3, 3), *bias,
                        weights=("weight", "bias"), padding=[1, 1])
    yield from case("conv2d.default", image, T(8, 4, 3, 3), T(8), weights=("weight", "bias"),
                    stride=[2, 2])
    yield from case("conv2d.padding", image, T(8, 4, 3, 3), T(8), [1, 1], "same",
                    weights=("weight", "bias"))
    yield from case("conv1d.default", T(2, 8, 16), T(8, 1, 4), T(8), [1], [3], [1], 8,
                    weights=("weight", "bias"))
    yield from case("conv_transpose2d.input", image, T(4, 8, 2, 2), T(8), [2, 2],
                    weights=("weight", "bias"))
    sdpa = "scaled_dot_product_attention.default"
    mask, causal = T(2, 1, 16, 16, free=True), T(2, 1, 16, 16, dtype=BOOL)
    yield from case(sdpa, heads, heads, heads)
    yield from case(sdpa, heads, heads, heads, is_causal=True)
    yield from case(sdpa, turned, turned, turned)
    yield from case(sdpa, turned, turned, turned, causal)
    yield from case(sdpa, heads, heads, heads, mask)
    yield from case(sdpa, heads, heads, heads, causal)
    yield from case(sdpa, heads, heads, heads, T(1, 4, 16, 16))
    yield from case(sdpa, turned, turned, turned, T(1, 4, 16, 16))
    yield from case(sdpa, heads, heads, heads, dropout_p=0.1)
    yield from case(sdpa, turned, turned, turned, dropout_p=0.1)
    yield from case(sdpa, heads, heads, heads, mask, dropout_p=0.1)
    yield from case(sdpa, heads, heads, heads, causal, dropout_p=0.1)
    yield from case(sdpa, heads, heads, heads, None, 0.1, True)
    yield from case(sdpa, heads, T(2, 2, 16, 8), T(2, 2, 16, 8), enable_gqa=True)
    yield from case(sdpa, heads, T(2, 2, 16, 8), T(2, 2, 16, 8), dropout_p=0.1, enable_gqa=True)
    yield from case(sdpa, heads, T(2, 4, 24, 8), T(2, 4, 24, 8))
    yield from case(sdpa, heads, heads, T(2, 4, 16, 4))
    yield from case(sdpa, x, x, x)
    yield from case(sdpa, heads, heads, heads, T(16, 16, dtype=BOOL))
    yield from case(sdpa, heads, heads, heads, T(2, 1, 16, 16, dtype=BOOL, expand=(2, 4, 16, 16)))
    yield from case(sdpa, heads, heads, heads, T(1, 1, 16, 16, free=True, expand=(2, 4, 16, 16)))
    yield from case(sdpa, heads, T(2, 4, 16, 8, axes=(0, 1, 3, 2)), heads)

    for name in ("silu", "gelu", "relu", "sigmoid", "tanh", "exp", "sin", "cos", "neg", "abs",
                 "softplus", "elu", "leaky_relu", "hardswish", "hardsigmoid", "mish", "erf", "expm1",
                 "square", "relu6", "selu", "log_sigmoid", "sign", "round", "floor", "ceil",
                 "celu", "hardtanh", "clone", "alias", "detach", "contiguous", "zeros_like",
                 "ones_like", "tril", "triu", "t", "view_as_real", "isnan", "logical_not"):
        overload = ".default"
        argument = T(16, 32) if name in ("tril", "triu", "t") else x
        if name == "view_as_real":
            continue
        yield from case(name + overload, argument)
    yield from case("gelu.default", x, approximate="tanh")
    for name in ("log", "sqrt", "rsqrt", "reciprocal", "log1p"):
        yield from case(name + ".default", T(2, 16, 32, positive=True))
    yield from case("glu.default", x)
    yield from case("prelu.default", T(2, 8, 16), T(8), weights=("weight",))
    for name in ("add", "sub", "mul", "div"):
        yield from case(name + ".Tensor", x, x)
        yield from case(name + ".Tensor", x, T(32), weights=("other",))
        yield from case(name + ".Tensor", T(32), x, weights=("self",))
        yield from case(name + ".Tensor", x, T(2, 1, 32))
        yield from case(name + ".Tensor", x, 3.0)
        yield from case(name + ".Tensor", x, T(16, 32, free=True))
    yield from case("rsub.Scalar", x, 1.0)
    for name in ("maximum", "minimum"):
        yield from case(name + ".default", x, x)
    yield from case("max.other", x, x)
    yield from case("min.other", x, x)
    yield from case("pow.Tensor_Scalar", x, 2)
    yield from case("pow.Tensor_Scalar", x, 3.0)
    yield from case("pow.Tensor_Scalar", T(2, 16, 32, positive=True), 0.5)
    yield from case("pow.Tensor_Scalar", T(2, 16, 32, positive=True), -0.5)
    yield from case("pow.Tensor_Tensor", T(2, 16, 32, positive=True), x)
    yield from case("pow.Scalar", 2.0, x)
    yield from case("clamp.default", x, -1.0, 1.0)
    yield from case("clamp_min.default", x, 0.0)
    yield from case("where.self", T(16, 32, dtype=BOOL), x, x)
    yield from case("where.ScalarOther", T(2, 16, 32, dtype=BOOL), x, 0.0)
    yield from case("masked_fill.Scalar", x, T(2, 16, 1, dtype=BOOL), 0.0)
    yield from case("masked_fill.Scalar", x, T(2, 16, 32, dtype=BOOL), 0.0)
    yield from case("addcmul.default", x, x, x)
    yield from case("lerp.Scalar", x, x, 0.5)
    for name in ("le", "lt", "ge", "gt", "eq", "ne"):
        yield from case(name + ".Tensor", x, x)
        yield from case(name + ".Scalar", x, 0.0)
    yield from case("fmod.Scalar", x, 2.0)
    yield from case("remainder.Scalar", x, 2.0)
    yield from case("floor_divide.default", T(2, 16, dtype=I64), 2)
    yield from case("dropout.default", x, 0.1, True)
    yield from case("dropout.default", x, 0.1, False)
    yield from case("dropout.default", x, 0.0, True)
    yield from case("dropout.default", turned, 0.1, True)
    yield from case("feature_dropout.default", image, 0.1, True)
    yield from case("native_dropout.default", x, 0.1, True)

    yield from case("sum.default", x)
    yield from case("sum.dim_IntList", x, [-1], True)
    yield from case("mean.default", x)
    yield from case("mean.dim", x, [-1], True)
    yield from case("var.correction", x, [-1], correction=1, keepdim=True)
    yield from case("std.correction", x, [-1], correction=1, keepdim=True)
    yield from case("var_mean.correction", x, [-1], correction=0, keepdim=True)
    yield from case("amax.default", x, [-1], True)
    yield from case("amin.default", x, [-1], True)
    yield from case("max.dim", x, -1)
    yield from case("min.dim", x, -1)
    yield from case("max.default", x)
    yield from case("argmax.default", x, -1)
    yield from case("logsumexp.default", x, [-1])
    yield from case("linalg_vector_norm.default", x, 2, [-1], True)
    yield from case("norm.ScalarOpt_dim", x, 2, [-1], True)
    yield from case("prod.dim_int", x, -1)
    yield from case("cumsum.default", x, -1)
    yield from case("cumprod.default", x, -1)
    yield from case("softmax.int", x, -1)
    yield from case("softmax.int", x, -1, F32)
    yield from case("_softmax.default", x, -1, False)
    yield from case("log_softmax.int", x, -1)
    yield from case("log_softmax.int", x, -1, F32)
    yield from case("topk.default", x, 4)
    yield from case("sort.default", x)
    yield from case("sort.stable", x, stable=True)
    yield from case("argsort.default", x)
    yield from case("multinomial.default", T(4, 16, positive=True), 2)
    yield from case("diff.default", x)
    yield from case("histc.default", x, 4, 0, 4, types=(F32,))

    yield from case("layer_norm.default", x, [32], T(32), T(32), weights=("weight", "bias"))
    yield from case("layer_norm.default", x, [32])
    yield from case("rms_norm.default", x, [32])
    yield from case("rms_norm.default", x, [32], T(32), weights=("weight",))
    yield from case("rms_norm.default", x, [32], T(32), 1e-6, weights=("weight",))
    yield from case("group_norm.default", image, 2, T(4), T(4), weights=("weight", "bias"))
    yield from case("group_norm.default", image, 2)
    statistics = [T(4, free=True), T(4, free=True, positive=True)]
    yield from case("batch_norm.default", image, T(4), T(4), *statistics, True, 0.1, 1e-5, False,
                    weights=("weight", "bias"), types=(F32,))
    yield from case("batch_norm.default", image, T(4), T(4), *statistics, False, 0.1, 1e-5, False,
                    weights=("weight", "bias"), types=(F32,))
    yield from case("instance_norm.default", image, T(4), T(4), None, None, True, 0.1, 1e-5, False,
                    weights=("weight", "bias"), types=(F32,))

    ids = T(2, 16, dtype=I64)
    yield from case("embedding.default", T(64, 32), ids, weights=("weight",))
    yield from case("embedding.default", T(64, 32), ids, -1, False, False)
    yield from case("index.Tensor", x, [T(40, dtype=I64, most=2)])
    yield from case("index.Tensor", x, [T(40, dtype=I64, most=2), T(40, dtype=I64, most=2)])
    yield from case("index_select.default", x, 1, T(40, dtype=I64, most=2))
    yield from case("gather.default", x, 2, T(2, 16, 3, dtype=I64))
    yield from case("scatter.src", x, 2, T(2, 16, 3, dtype=I64), T(2, 16, 3))
    yield from case("scatter.value", x, 2, T(2, 16, 3, dtype=I64), 1.0)
    yield from case("scatter_add.default", x, 2, T(2, 16, 3, dtype=I64), T(2, 16, 3))
    yield from case("index_put.default", x, [T(40, dtype=I64, most=2)], T(40, 16, 32))
    yield from case("index_add.default", x, 0, T(40, dtype=I64, most=2), T(40, 16, 32))
    yield from case("masked_scatter.default", x, T(2, 16, 32, dtype=BOOL), T(2, 16, 32))
    yield from case("take_along_dim.default", x, T(2, 16, 3, dtype=I64), 2)
    yield from case("bucketize.Tensor", x, T(8, free=True), types=(F32,))
    yield from case("one_hot.default", ids, 4)
    yield from case("cat.default", [x, x], -1)
    yield from case("stack.default", [x, x], -1)
    yield from case("repeat.default", x, [1, 2, 1])
    yield from case("repeat_interleave.self_int", x, 2, 1)
    yield from case("pad.default", x, [0, 0, 1, 0])
    yield from case("constant_pad_nd.default", x, [0, 0, 1, 0])
    yield from case("pad.default", image, [1, 1, 1, 1], "reflect")
    yield from case("roll.default", x, [1], [1])
    yield from case("flip.default", x, [1])

    yield from case("view.default", x, [32, 32])
    yield from case("reshape.default", x, [2, 16, 4, 8])
    yield from case("reshape.default", T(2, 16, 4, 8, axes=(0, 2, 1, 3)), [2, 16, 32])
    yield from case("transpose.int", x, 1, 2)
    yield from case("permute.default", x, [2, 0, 1])
    yield from case("unsqueeze.default", x, 1)
    yield from case("squeeze.dim", T(2, 1, 32), 1)
    yield from case("squeeze.default", T(2, 1, 32))
    yield from case("select.int", x, 1, 0)
    yield from case("slice.Tensor", x, 1, 2, 8)
    yield from case("narrow.default", x, 1, 2, 4)
    yield from case("split.Tensor", x, 16, 2)
    yield from case("split_with_sizes.default", x, [8, 24], 2)
    yield from case("chunk.default", x, 3, 1)
    yield from case("unbind.int", x, 0)
    yield from case("expand.default", T(2, 1, 32), [2, 16, -1])
    yield from case("expand_as.default", T(2, 1, 32), x)
    yield from case("flatten.using_ints", x, 1)
    yield from case("flatten.using_ints", T(2, 16, 4, 8, axes=(0, 2, 1, 3)), 1)
    yield from case("unflatten.int", x, 2, [4, 8])
    yield from case("unfold.default", x, 1, 4, 2)
    yield from case("as_strided.default", x, [2, 7, 4, 32], [512, 64, 32, 1])
    yield from case("diagonal.default", x, 0, 1, 2)
    yield from case("movedim.int", x, 0, 2)
    yield from case("contiguous.default", turned)
    yield from case("to.dtype", x, F32)
    yield from case("to.dtype", x, BF16)
    yield from case("type_as.default", x, x)
    yield from case("broadcast_tensors.default", [T(2, 16, 32), T(32)])
    yield from case("meshgrid.indexing", [T(4), T(5)], indexing="ij")
    yield from case("view_as.default", x, T(32, 32))

    logits, labels = T(32, 64), T(32, dtype=I64)
    yield from case("cross_entropy_loss.default", logits, labels)
    yield from case("cross_entropy_loss.default", logits, labels, None, 2)
    yield from case("cross_entropy_loss.default", logits, labels, None, 1, -100, 0.1)
    yield from case("nll_loss_nd.default", logits, labels)
    yield from case("mse_loss.default", x, x)
    yield from case("l1_loss.default", x, x)
    yield from case("smooth_l1_loss.default", x, x)
    yield from case("huber_loss.default", x, x)
    yield from case("binary_cross_entropy_with_logits.default", x, T(2, 16, 32, free=True))
    yield from case("kl_div.default", x, T(2, 16, 32, free=True, positive=True))
    yield from case("avg_pool2d.default", image, [2, 2])
    yield from case("max_pool2d.default", image, [2, 2])
    yield from case("adaptive_avg_pool2d.default", image, [1, 1])
    yield from case("adaptive_avg_pool2d.default", image, [3, 3])
    yield from case("upsample_nearest2d.vec", image, None, [2.0, 2.0])
    yield from case("upsample_bilinear2d.vec", image, None, False, [2.0, 2.0])
    yield from case("pixel_shuffle.default", image, 2)
    yield from case("pixel_unshuffle.default", image, 2)


def operator_of(target):
    name, overload = target.rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, name), overload)


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def storage(t):
    return t.untyped_storage()._cdata


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def tensors_of(results):
    results = results if isinstance(results, (tuple, list)) else [results]
    return [r for r in results if isinstance(r, torch.Tensor)]


def describe(t, name, spec, weight):
    made = {"name": name, "dtype": dtype_name(t.dtype), "sizes": list(t.shape),
            "strides": list(t.stride()), "storage": t.untyped_storage().nbytes()}
    if weight:
        made["weight"] = name
    if spec is not None and spec.free:
        made["free"] = True
    return made


def measure(target, arguments, named, weights):
    """Returns the row of the table for a case."""
    call = operator_of(target)
    schema = call._schema
    torch.manual_seed(0)
    tensors, values, flat = {}, {}, []  # flat: (name, tensor, spec)

    def fill(argument, given):
        def one(spec, name):
            made = spec.make()
            flat.append((name, made, spec))
            tensors.setdefault(argument, []).append(describe(made, name, spec, argument in weights))
            return made

        if isinstance(given, T):
            return one(given, argument)
        if isinstance(given, list) and given and isinstance(given[0], T):
            return [one(spec, f"{argument}{i}") for i, spec in enumerate(given)]
        if given is not None:
            values[argument] = dtype_name(given) if isinstance(given, torch.dtype) else given
        return given

    names = [a.name for a in schema.arguments]
    positional = [fill(n, given) for n, given in zip(names, arguments)]
    keyword = {k: fill(k, v) for k, v in named.items()}
    wanted = [(n, t) for n, t, spec in flat if t.is_floating_point() and not spec.free]
    of_weights = {storage(t) for n, t, _ in flat if n in weights}

    def run():
        held = weakref.WeakSet()  # weak, so that tensors saved by a freed node do not count

        def pack(t):
            box = Box(t)
            held.add(box)
            return box

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
            out = call(*positional, **keyword)
        kept = {storage(box.tensor): box.tensor.untyped_storage().nbytes() for box in held}
        owner = {storage(t): n for n, t, _ in flat}
        for i, r in enumerate(tensors_of(out)):
            owner.setdefault(storage(r), f"result{i}")
        by_name = {}
        for s, b in kept.items():
            if s not in of_weights:
                name = owner.get(s, "")
                by_name[name] = by_name.get(name, 0) + b
        return out, dict(sorted(by_name.items()))

    row = {"target": "aten." + target, "tensors": tensors, "values": values}
    for _, t in wanted:
        t.requires_grad_(True)
    results, _ = run()
    results = tensors_of(results)
    owners = {storage(t): n for n, t, _ in flat}
    row["results"] = []
    for i, r in enumerate(results):
        made = describe(r, f"result{i}", None, False)
        if storage(r) in owners:
            made["view_of"] = owners[storage(r)]
        row["results"].append(made)
    row["kept"] = []
    for some in itertools.chain.from_iterable(
            itertools.combinations(wanted, k) for k in range(1, len(wanted) + 1)):
        for _, t in wanted:
            t.requires_grad_(False)
        for _, t in some:
            t.requires_grad_(True)
        out, kept = run()
        row["kept"].append({"gradients": [n for n, _ in some], "bytes": kept})
    # FLOPs of the forward, then of the backward.
    counter = FlopCounterMode(display=False)
    with counter:
        out, _ = run()
        forward = counter.get_total_flops()
        outs = [o for o in tensors_of(out) if o.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.ones_like(o) for o in outs])
        row["flops"] = [forward, counter.get_total_flops() - forward]
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, failed = [], 0
    for case in cases():
        try:
            rows.append(measure(*case))
        except Exception as error:  # pylint: disable=broad-except
            print(f"{case[0]}: {type(error).__name__}: {str(error).splitlines()[0]}")
            failed += 1
    lines = [json.dumps(r, separators=(",", ":")) for r in rows]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    if options.write:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        now = set(lines)
        for line in json.loads(TABLE.read_text()):
            if json.dumps(line, separators=(",", ":")) not in now:
                print("differs:", line["target"])
                failed += 1
        print(f"{len(rows)} cases are measured, and the table differs")
        failed += 1
    print(f"{len(rows)} cases, {len({r['target'] for r in rows})} operators, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
