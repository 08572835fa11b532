// Softmax cross-entropy over rows of logits. See vectors.h for how these headers are used.
//   loss = log(sum of e^z) - z[label];   dz = softmax(z) - [label]
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

}  // namespace
}  // namespace sluice::ops
