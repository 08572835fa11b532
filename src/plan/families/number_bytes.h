// Bytes that LibTorch's operators keep of the numbers of a decoder, by what the numbers are.
// Thread-safety: values.
#pragma once

#include <cstdint>

#include "sluice/model_spec.h"

namespace sluice::detail {

inline constexpr double kInt64 = 8;  // bytes of one

inline double as_double(std::int64_t count) { return static_cast<double>(count); }

class NumberBytes {
 public:
  explicit NumberBytes(const Precision& precision)
      : casts_(precision.casts()),
        fuses_(precision.fuses()),
        precision_(precision),
        stored_(static_cast<double>(precision.parameter_bytes())),
        product_(static_cast<double>(precision.product_bytes())) {}

  bool casts() const { return casts_; }
  // True if everything that can be fused is.
  bool fuses() const { return fuses_; }
  // The head has the loss in it (Precision::loss_chunks).
  bool chunks_loss(std::int64_t vocab_size) const { return precision_.chunks_loss(vocab_size); }
  // Always float32: inside norms, the loss, the log-sums of attention.
  static double wide(std::int64_t count) { return 4.0 * static_cast<double>(count); }
  // Bytes of the values that go from layer to layer, and inside norms; of parameters.
  double stored(std::int64_t count) const { return stored_ * static_cast<double>(count); }
  // Operands and results of products of matrices.
  double product(std::int64_t count) const { return product_ * static_cast<double>(count); }
  // Bytes that `readers` products keep of their common input: one, unless each casts it.
  double operand(std::int64_t count, int readers = 1) const {
    return product(count) * (casts_ ? readers : 1);
  }
  // Copies of the weights, one of each for all microbatches of a step.
  double casted_weights(double count) const { return casts_ ? product_ * count : 0.0; }
  // The gradient of a weight before it joins its sum, where it is not added in place.
  double weight_gradient(double count) const {
    if (fuses_) return 0.0;
    return (casts_ ? product_ + stored_ : stored_) * count;
  }
  // A table of rotary positions for the products' type, of so many numbers.
  double casted_table(std::int64_t count) const { return product_ < 4 ? product(count) : 0.0; }

 private:
  bool casts_, fuses_;
  Precision precision_;
  double stored_, product_;
};

}  // namespace sluice::detail
