"""A server process that times forward and backward of single microbatches on one thread, and the machine's
bound. Each input line is a number of microbatches; the answer is the seconds of one. As in a step, weight
gradients accumulate over the microbatches of a round.

The bound is the time of LibTorch's own kernels for the matrix products (mm into existing outputs) and the attention
(scaled_dot_product_attention and its backward) of a microbatch, without norms, activations, loss or gradient sums.
"""

import json
import os
import sys
import time

import torch

from torch_comparison.workload import SIZES, load_part, loss_of, make_part, read_rows, whole_model_on_meta


class Whole:
    """The model as one part, without a pipeline."""

    def __init__(self, folder, size, compiled):
        part = make_part(whole_model_on_meta(size), size, range(size.layers), True, True)
        load_part(part, folder)
        self.parameters = list(part.parameters())
        self.rows, self.labels = read_rows(folder)
        self.part = torch.compile(part) if compiled else part

    def __call__(self, microbatches):
        for parameter in self.parameters:
            parameter.grad = None
        started = time.perf_counter()
        for i in range(microbatches):
            loss_of(self.part(self.rows[i:i + 1]), self.labels[i:i + 1]).backward()
        return (time.perf_counter() - started) / microbatches


class Product:
    """y = x w^T and its gradients of x and w: three products into existing memory."""

    def __init__(self, rows, inputs, outputs):
        self.x, self.y = torch.randn(rows, inputs), torch.randn(rows, outputs)
        self.w = torch.randn(outputs, inputs)
        self.dx, self.dy, self.dw = torch.empty_like(self.x), torch.randn_like(self.y), torch.empty_like(self.w)

    def __call__(self):
        torch.mm(self.x, self.w.t(), out=self.y)
        torch.mm(self.dy, self.w, out=self.dx)
        torch.mm(self.dy.t(), self.x, out=self.dw)


class Bound:
    def __init__(self, size):
        head_dim = size.hidden // size.heads
        kv = size.kv_heads * head_dim
        shapes = [(size.hidden, size.hidden), (size.hidden, kv), (size.hidden, kv), (size.hidden, size.hidden),
                  (size.hidden, size.ffn), (size.hidden, size.ffn), (size.ffn, size.hidden)]
        # Each layer has its own weight, as in the model. Between two uses of a weight, the others pass
        # through the caches.
        self.products = [Product(size.seq_len, *shape) for _ in range(size.layers) for shape in shapes]
        self.products.append(Product(size.seq_len, size.hidden, size.vocab))
        self.q, self.dout = (torch.randn(1, size.heads, size.seq_len, head_dim) for _ in range(2))
        self.k, self.v = (torch.randn(1, size.kv_heads, size.seq_len, head_dim) for _ in range(2))
        for tensor in (self.q, self.k, self.v):
            tensor.requires_grad_(True)
        self.layers = size.layers

    def __call__(self, microbatches):
        started = time.perf_counter()
        for _ in range(microbatches):
            with torch.no_grad():
                for product in self.products:
                    product()
            for _ in range(self.layers):
                out = torch.nn.functional.scaled_dot_product_attention(
                    self.q, self.k, self.v, is_causal=True, enable_gqa=True)
                torch.autograd.grad(out, (self.q, self.k, self.v), self.dout)
        return (time.perf_counter() - started) / microbatches


def main():
    folder, size, kind = sys.argv[1], SIZES[sys.argv[2]], sys.argv[3]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    call = Bound(size) if kind == "bound" else Whole(folder, size, kind == "compiled")
    for line in sys.stdin:
        print(json.dumps(call(int(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
