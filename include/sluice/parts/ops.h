// Fused operators by name, for your own modules: causal attention, RMS norm and gated activations
// that run on kernels for CPU (float32; AVX-512, AVX2 or any processor) and on LibTorch's operators
// elsewhere.
//
//   const at::Tensor y_BLHE = sluice::fused_attention(q_BLHE, k_BLGE, v_BLGE, {.window = 512});
//
// Invariants:
//  1. Which of the two runs depends on types, devices, sizes and LibTorch's modes alone
//     (docs/fused.md has the conditions); both are checked against float64.
//  2. Kernels give the same bits for any strides, addresses, batch sizes and number of threads.
//  3. A backward that is itself differentiated (create_graph) runs on LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

struct FusedAttentionOptions {
  std::optional<double> scale = {};  // scale of the scores; none: 1 / sqrt(E)
  double cap = 0;                    // scores become cap * tanh(score / cap); 0: none
  std::int64_t window = 0;           // keys that a query sees, its own included; 0: all up to it
  // int64 or int32 [B, L], ascending along L, 0 <= first_key[b, l] <= l: the first token of the
  // document that l belongs to. Undefined: one document a row.
  at::Tensor first_key = {};
};

// softmax(scale * q k^T) v where query l sees the keys [max(first_key[l], l - window + 1), l].
// q [B, L, H, E]; k, v [B, L, G, E], H a multiple of G: query head h reads key head h / (H / G).
// The result is [B, L, H, E]. Views are read in place if a head's numbers are contiguous and so are
// the heads of a row, as columns of one matrix are; others are copied. Throws Error(kUsage) for
// shapes that do not fit, or a first_key that is outside [0, l] or descends.
at::Tensor fused_attention(const at::Tensor& q_BLHE, const at::Tensor& k_BLGE,
                           const at::Tensor& v_BLGE, const FusedAttentionOptions& options = {});

// x / sqrt(mean(x^2) + eps) * (offset + weight) over the last dimension; x [.., D], weight [D].
// offset 1 is Gemma's. Throws Error(kUsage) for shapes that do not fit.
at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                          double offset = 0);

// activation(gate) * up, element by element. activation: silu, gelu, gelu_tanh, relu. Throws
// Error(kUsage) for any other activation, with the nearest name, and for shapes that differ.
at::Tensor fused_gated(std::string_view activation, const at::Tensor& gate, const at::Tensor& up);

}  // namespace sluice
