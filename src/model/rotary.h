// Rotary position embedding: Su et al., "RoFormer: Enhanced Transformer with Rotary Position
// Embedding", arXiv:2104.09864, in the half-split form of Hugging Face checkpoints.
//
// Owns: frequencies of the rope types, the table of cosines and sines.
// Does not own: attention (modules.h).
// Thread-safety: a table may be shared by threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "family/rope.h"

namespace sluice {

// Angle per position of each of the head_dim / 2 pairs: rope types "default", "linear" (positions
// divided by a factor), "llama3" (Llama 3.1: long wavelengths divided, medium ones blended) and
// "yarn" (the same by the number of turns within the original context) and "longrope" (divided by a
// factor of every pair; is_long: by that for sequences beyond the original length).
std::vector<float> rotary_frequencies(std::int64_t head_dim, const detail::RopeConfig& rope,
                                      bool is_long = false);

// Cosine and sine of position * frequency, float32, computed on the host: the same bits on every
// device. Grows with the longest sequence asked for.
class RotaryTable {
 public:
  RotaryTable(std::int64_t head_dim, const detail::RopeConfig& rope)
      : frequencies_(rotary_frequencies(head_dim, rope)),
        long_frequencies_(rope.type == "longrope" ? rotary_frequencies(head_dim, rope, true)
                                                  : std::vector<float>()),
        original_length_(rope.original_max_position_embeddings),
        factor_(static_cast<float>(rope.attention_factor)) {}
  // cos_LR, sin_LR on `device`: views into the table.
  std::pair<at::Tensor, at::Tensor> get(std::int64_t length, c10::Device device);
  // [B, L, R] of the positions, int64 [B, L], on `device`: the same bits.
  std::pair<at::Tensor, at::Tensor> at(const at::Tensor& position_ids, c10::Device device) const;

 private:
  struct Entry {
    c10::Device device;
    bool is_long;
    at::Tensor cos_LR, sin_LR;
  };
  // True if sequences of this length have frequencies of their own.
  bool is_long(std::int64_t length) const {
    return !long_frequencies_.empty() && length > original_length_;
  }
  std::vector<float> frequencies_, long_frequencies_;  // the latter empty: they are the same
  std::int64_t original_length_;
  float factor_;  // factor of cosines and sines
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

// Turns the pair (x[r], x[r + R]) of every head by its angle, r < R; what a head has beyond 2 R
// stays. Cosines and sines are [L, R] or [B, 1, L, R].
at::Tensor rotate(const at::Tensor& x_BHLE, const at::Tensor& cos_LR, const at::Tensor& sin_LR);

}  // namespace sluice
