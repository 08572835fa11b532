// Softmax cross-entropy: loss = log(sum of e^z) - z[label], gradient dz = softmax(z) - [label].
// Exponentials are relative to the largest logit so far (arXiv:1805.02867).
#pragma once

#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

inline float largest_of(Index size, const float* z) {
  const Floats none = all(-__builtin_inff());
  Floats top[2] = {none, none};
  each_vector(size, [&](Index i, auto part) {
    const Index turn = i / kFloats % 2;
    top[turn] = larger(top[turn], part.keep(part.read(z + i), none));
  });
  return largest(larger(top[0], top[1]));
}

double cross_entropy(Index rows, Index classes, float* z, const std::int64_t* labels, float scale) {
  double loss = 0;
  for (Index row = 0; row < rows; ++row, z += classes) {
    const Index label = labels[row];
    if (label < 0) {
      __builtin_memset(z, 0, static_cast<std::size_t>(classes) * sizeof(float));
      continue;
    }
    const float chosen = z[label], top = largest_of(classes, z);
    const float total = sum_of(classes, [&](Index i, auto part) {
      const Floats e = part.keep(exp_of(part.read(z + i) - top), Floats{});
      part.write(z + i, e);
      return e;
    });
    const float factor = scale / total;
    each_vector(classes, [&](Index i, auto part) { part.write(z + i, part.read(z + i) * factor); });
    z[label] -= scale;
    loss += __builtin_log(static_cast<double>(total)) + static_cast<double>(top) -
            static_cast<double>(chosen);
  }
  return loss;
}

double cross_entropy_value(Index rows, Index classes, const float* z, const std::int64_t* labels) {
  double loss = 0;
  for (Index row = 0; row < rows; ++row, z += classes) {
    const Index label = labels[row];
    if (label < 0) continue;
    const float top = largest_of(classes, z);
    const float total = sum_of(classes, [&](Index i, auto part) {
      return part.keep(exp_of(part.read(z + i) - top), Floats{});
    });
    loss += __builtin_log(static_cast<double>(total)) + static_cast<double>(top) -
            static_cast<double>(z[label]);
  }
  return loss;
}

inline void scale_and_cap(const LossBlock& b, float* logits) {
  if (b.cap > 0) {
    const float inner = b.scale / b.cap;
    each_vector(b.columns, [&](Index i, auto part) {
      part.write(logits + i, b.cap * tanh_of(part.read(logits + i) * inner));
    });
  } else if (b.scale != 1) {
    each_vector(b.columns, [&](Index i, auto part) {
      part.write(logits + i, part.read(logits + i) * b.scale);
    });
  }
}

// Replaces z by e^(z - top) times the cap's slope. Returns the sum of e^(z - top).
inline float exponentials(const LossBlock& b, float* z, float top) {
  if (b.cap > 0) {
    const float inverse = 1 / b.cap;
    return sum_of(b.columns, [&](Index i, auto part) {
      const Floats capped = part.read(z + i), x = capped * inverse;
      const Floats e = part.keep(exp_of(capped - top), Floats{});
      part.write(z + i, e * (1.0f - x * x));
      return e;
    });
  }
  return sum_of(b.columns, [&](Index i, auto part) {
    const Floats e = part.keep(exp_of(part.read(z + i) - top), Floats{});
    part.write(z + i, e);
    return e;
  });
}

inline void clear_row(const LossBlock& b, float* logits) {
  __builtin_memset(logits, 0, static_cast<std::size_t>(b.columns) * sizeof(float));
}

void loss_block(const LossBlock& b, float* rescale) {
  float* z = b.logits;
  for (Index row = 0; row < b.rows; ++row, z += b.columns) {
    rescale[row] = 1;
    const Index label = b.labels[row];
    if (label < 0) {
      clear_row(b, z);
      continue;
    }
    scale_and_cap(b, z);
    if (label >= b.first && label < b.first + b.columns) b.chosen[row] = z[label - b.first];
    const float before = b.top[row], largest = largest_of(b.columns, z);
    const float top = before > largest ? before : largest;
    if (top != before) {
      rescale[row] = exp_of(all(before - top))[0];
      b.top[row] = top;
    }
    const float sum = exponentials(b, z, top);
    b.total[row] = b.total[row] * static_cast<double>(rescale[row]) + static_cast<double>(sum);
  }
}

void loss_block_gradient(const LossBlock& b, float scale) {
  float* z = b.logits;
  for (Index row = 0; row < b.rows; ++row, z += b.columns) {
    const Index label = b.labels[row];
    if (label < 0) {
      clear_row(b, z);
      continue;
    }
    scale_and_cap(b, z);
    const bool has_label = label >= b.first && label < b.first + b.columns;
    const float x = b.cap > 0 && has_label ? z[label - b.first] / b.cap : 0;
    exponentials(b, z, b.top[row]);
    const float whole = scale * b.scale;
    const auto factor = static_cast<float>(static_cast<double>(whole) / b.total[row]);
    each_vector(b.columns,
                [&](Index i, auto part) { part.write(z + i, part.read(z + i) * factor); });
    if (has_label) z[label - b.first] -= whole * (1 - x * x);
  }
}

}  // namespace
}  // namespace sluice::ops
