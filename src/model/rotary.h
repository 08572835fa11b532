// Rotary positions: Su et al., arXiv:2104.09864, in Hugging Face's half-split form.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "family/rope.h"

namespace sluice {

// Returns the angle per position of each of the head_dim / 2 channel pairs. `is_long` selects
// longrope's factors for sequences beyond the original length.
std::vector<float> rotary_frequencies(std::int64_t head_dim, const detail::RopeConfig& rope,
                                      bool is_long = false);

// Cosines and sines, computed on the host so that the bits are the same on every device. Threads
// may share it.
class RotaryTable {
 public:
  RotaryTable(std::int64_t head_dim, const detail::RopeConfig& rope)
      : frequencies_(rotary_frequencies(head_dim, rope)),
        long_frequencies_(rope.type == "longrope" ? rotary_frequencies(head_dim, rope, true)
                                                  : std::vector<float>()),
        original_length_(rope.original_max_position_embeddings),
        factor_(static_cast<float>(rope.attention_factor)) {}
  std::pair<at::Tensor, at::Tensor> get(std::int64_t length, c10::Device device);
  // Returns [B, L, R] for int64 positions [B, L], bitwise equal to get().
  std::pair<at::Tensor, at::Tensor> at(const at::Tensor& position_ids, c10::Device device) const;

 private:
  struct Entry {
    c10::Device device;
    bool is_long;
    at::Tensor cos_LR, sin_LR;
  };
  bool is_long(std::int64_t length) const {
    return !long_frequencies_.empty() && length > original_length_;
  }
  std::vector<float> frequencies_, long_frequencies_;  // long_frequencies_: only for longrope
  std::int64_t original_length_;
  float factor_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

// Rotates each channel pair (x[r], x[r + R]) of a head, r < R. Channels from 2 R on stay. Cosines
// and sines are [L, R] or [B, 1, L, R].
at::Tensor rotate(const at::Tensor& x_BHLE, const at::Tensor& cos_LR, const at::Tensor& sin_LR);

}  // namespace sluice
