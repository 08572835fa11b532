// AdamW update. See optim/adamw.cpp for the equations.
#pragma once

#include "ops/kernels/kernels.h"
#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

void adamw(const AdamWCall& call) {
  const float kept = static_cast<float>(1 - call.lr * call.weight_decay),
              beta1 = static_cast<float>(call.beta1), other1 = static_cast<float>(1 - call.beta1),
              beta2 = static_cast<float>(call.beta2), other2 = static_cast<float>(1 - call.beta2),
              rate = static_cast<float>(call.lr / call.correction1),
              root = static_cast<float>(__builtin_sqrt(call.correction2)),
              eps = static_cast<float>(call.eps),
              divisor = static_cast<float>(call.gradient_divisor);
  each_vector(call.size, [&](Index i, auto part) {
    const Floats g = part.read(call.gradient + i) / divisor;
    const Floats mean = beta1 * part.read(call.mean + i) + other1 * g;
    const Floats square = beta2 * part.read(call.square + i) + other2 * (g * g);
    part.write(call.mean + i, mean);
    part.write(call.square + i, square);
    part.write(call.value + i, part.read(call.value + i) * kept -
                                   rate * (mean / (square_root(square) / root + eps)));
  });
}

}  // namespace
}  // namespace sluice::ops
