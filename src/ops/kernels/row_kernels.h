#pragma once

#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

void add_bias(Index rows, Index width, const float* bias, float* x, Index stride) {
  for (Index row = 0; row < rows; ++row, x += stride) {
    each_vector(width, [&](Index i, auto part) {
      part.write(x + i, part.read(x + i) + part.read(bias + i));
    });
  }
}

void add_rows(Index rows, Index width, const float* x, Index stride, float* sums) {
  each_vector(width, [&](Index i, auto part) {
    Floats total = part.read(sums + i);
    for (Index row = 0; row < rows; ++row) total += part.read(x + row * stride + i);
    part.write(sums + i, total);
  });
}

void add_scaled(Index size, float scale, const float* x, float* y) {
  each_vector(size, [&](Index i, auto part) {
    part.write(y + i, part.read(y + i) + scale * part.read(x + i));
  });
}

void sum_scaled(Index size, const float* x, float scale, const float* z, float* y) {
  each_vector(size, [&](Index i, auto part) {
    part.write(y + i, part.read(x + i) + scale * part.read(z + i));
  });
}

void rotate(Index rows, Index heads, Index head_dim, Index half, float* x, Index stride,
            const float* cosines, const float* sines, float direction) {
  for (Index row = 0; row < rows; ++row, x += stride, cosines += half, sines += half) {
    for (Index head = 0; head < heads; ++head) {
      float *low = x + head * head_dim, *high = low + half;
      each_vector(half, [&](Index i, auto part) {
        const Floats a = part.read(low + i), b = part.read(high + i);
        const Floats c = part.read(cosines + i), s = part.read(sines + i) * direction;
        part.write(low + i, a * c - b * s);
        part.write(high + i, b * c + a * s);
      });
    }
  }
}

}  // namespace
}  // namespace sluice::ops
