// Fused operators for your own modules: causal attention, RMS norm and gated activations.
//
//   const at::Tensor y_BLHE = sluice::fused_attention(q_BLHE, k_BLGE, v_BLGE, {.window = 512});
//
// They use sluice's kernels for float32 on the CPU. Otherwise, and for create_graph, they use
// LibTorch's operators. The choice depends only on dtypes, devices, sizes and LibTorch's modes
// (docs/fused.md). The kernels give the same bits for any strides, batch size and number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

struct FusedAttentionOptions {
  std::optional<double> scale = {};  // default 1 / sqrt(E)
  double cap = 0;                    // scores become cap * tanh(score / cap); 0: no cap
  std::int64_t window = 0;           // keys that a query sees, including its own; 0: no limit
  // First token of each token's document: int64 or int32 [B, L], ascending along L, 0 <=
  // first_key[b, l] <= l. Undefined: one document per row.
  at::Tensor first_key = {};
};

// Returns softmax(scale * q k^T) v, where query l attends to the keys [max(first_key[l], l - window
// + 1), l]. q and result [B, L, H, E]; k, v [B, L, G, E], H a multiple of G. Query head h reads key
// head h / (H / G). Views whose heads are adjacent are read in place, others are copied. Throws
// Error(kUsage) for wrong shapes or first_key.
at::Tensor fused_attention(const at::Tensor& q_BLHE, const at::Tensor& k_BLGE,
                           const at::Tensor& v_BLGE, const FusedAttentionOptions& options = {});

// Returns x / sqrt(mean(x^2) + eps) * (offset + weight) over the last dimension. x [.., D], weight
// [D]. Gemma uses offset 1. Throws Error(kUsage) for wrong shapes.
at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                          double offset = 0);

// Returns activation(gate) * up, where activation is silu, gelu, gelu_tanh or relu. Throws
// Error(kUsage) for another activation or different shapes.
at::Tensor fused_gated(std::string_view activation, const at::Tensor& gate, const at::Tensor& up);

}  // namespace sluice
