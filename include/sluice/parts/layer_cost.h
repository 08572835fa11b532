// What a layer costs, as functions of the shape of a microbatch.
//
// Owns: MicrobatchShape, ShapePolynomial, LayerCost. Does not own: what a layer is (model_spec.h),
// what a rank's row of instructions makes of it.
// Thread-safety: values.
#pragma once

#include <cstdint>

namespace sluice {

struct MicrobatchShape {
  std::int64_t rows = 0, length = 0;
  std::int64_t tokens() const { return rows * length; }
};

// constant + per_row * rows + per_token * rows * length + per_pair * rows * length^2 + per_length *
// length. Plain numbers: they may be derived from a configuration or measured.
struct ShapePolynomial {
  double constant = 0, per_row = 0, per_token = 0, per_pair = 0, per_length = 0;
  double at(const MicrobatchShape& shape) const;
  // a + factor * b.
  static ShapePolynomial sum(const ShapePolynomial& a, const ShapePolynomial& b,
                             double factor = 1.0);
  friend bool operator==(const ShapePolynomial&, const ShapePolynomial&) = default;
};

// Bytes of fused operators, whose memory stays with the rank from microbatch to microbatch: what is
// used at once of each of these, at most, is there all the time.
struct PooledBytes {
  ShapePolynomial until_input;   // from F to B or I
  ShapePolynomial until_weight;  // from F to B or W
  ShapePolynomial after_input;   // from I to W, and while B runs
  ShapePolynomial in_backward;   // while B or I runs
  ShapePolynomial in_forward;    // while a forward runs that keeps nothing
  friend bool operator==(const PooledBytes&, const PooledBytes&) = default;
};

struct LayerCost {
  // Floating-point operations of matrix products, a multiply-add being two. Attention counts every
  // pair of tokens, masked or not, and nothing that a backward computes again.
  ShapePolynomial forward_flops, input_flops, weight_flops;
  // Bytes.
  ShapePolynomial after_forward;  // kept from F to B or I
  ShapePolynomial after_input;    // kept from I to W
  ShapePolynomial on_entry;       // more than is kept, when a backward begins
  ShapePolynomial at_end;         // more than is left, when a backward ends
  ShapePolynomial in_forward;     // while a forward runs that keeps nothing
  PooledBytes pooled;             // beside them
  // Copies of weights in the type of products, which the microbatches of a step share.
  double casted_weights = 0;
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

}  // namespace sluice
