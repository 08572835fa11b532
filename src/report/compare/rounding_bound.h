// How far results may be apart if only the order of additions differs.
//
// A sum of n numbers in another order is off by about sqrt(n) roundings (N. Higham and T. Mary, "A
// new approach to probabilistic rounding error analysis", 2019). Errors of successive layers add up
// like a random walk. Let u be the unit roundoff of the arithmetic, n the additions of the longest
// sum, and L the layers, each run forward and backward. Two gradients are then at most about
//
//   4 * sqrt(2 L) * (u + u_sum * sqrt(n))
//
// apart, relative to their norm. u_sum is float32's at most, because products of half precision are
// summed in float32. Each update lets the distance grow.
#pragma once

#include <cstdint>

#include "report/compare/float_values.h"

namespace sluice {

struct Arithmetic {
  const FloatDtype* dtype = find_float_word("float32");
  std::int64_t terms = 4096;
  std::int64_t layers = 32;

  // Relative distance of gradients before any update.
  double gradient_bound() const;
  // Of a mean over `terms` tokens, summed in float32. Logits rounded to half precision average out.
  double loss_bound() const;
  double norm_bound() const;
  // Of a factor that all elements share, such as a clipping coefficient.
  double scale_bound() const;
  // How much farther apart runs are after `updates` >= 1 updates than after the first.
  static double growth(std::int64_t updates);
  // Relative distance of gradients after `updates` >= 1 updates. AdamW turns gradients of relative
  // distance r into updates of relative distance 2 sqrt(r), because elements near zero change sign.
  double update_bound(std::int64_t updates) const;
  // Distance of two logged curves, relative to the path that they have made since they were equal.
  // Elements near zero hardly move a loss, and errors of many elements average out.
  double curve_bound(std::int64_t updates) const;
};

}  // namespace sluice
