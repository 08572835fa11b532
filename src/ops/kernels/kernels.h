// Single-threaded float32 kernels of the fused operators, compiled once per instruction set.
//
// The order of sums depends only on sizes, so bits do not depend on alignment or threads. They
// differ between instruction sets. Rows do not affect each other, except in sums over rows, which
// run from first to last.
//
// Pointers need 4-byte alignment only. Sizes are any positive numbers unless noted. Strides are in
// floats. Kernels are thread-safe on disjoint memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ops {

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

// Causal attention of one sequence and one key-value head with its `group` query heads. Query r
// sees keys first_key[r] to r.
struct AttentionCall {
  std::int64_t length = 0, group = 1;
  std::int64_t head_dim = 0;  // a multiple of 16
  // A row of q has `group` heads side by side, a row of k and v one head.
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t row_stride = 0;
  float* out = nullptr;  // same layout as q, with out_stride
  std::int64_t out_stride = 0;
  float* log_sums = nullptr;  // [group, length]: log of the sum of exponentials
  float scale = 1;
  float cap = 0;  // scores become cap * tanh(score / cap); 0: none
  // First visible key per query [length], ascending, first_key[r] <= r. Null: all 0.
  const std::int32_t* first_key = nullptr;
  float* scratch = nullptr;
  std::int64_t kv_stride = 0;  // row stride of k and v; 0: row_stride
};

// Gradients have the layout of q, k and v, except for their strides.
struct AttentionGradientCall {
  AttentionCall forward;
  const float* d_out = nullptr;  // same layout as `out`
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::int64_t dq_stride = 0, dkv_stride = 0;  // 0: the strides of q and of k
};

// The product C [rows, columns] = scale * A B, plus the old C if `add`.
struct ProductCall {
  std::int64_t rows = 0, columns = 0, depth = 0;
  // A(i, k) is a[i * a_row + k * a_column]. One of the strides must be 1.
  const float* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  // B(k, j) is b[k * b_row + j], or b[j * b_row + k] if transposed.
  const float* b = nullptr;
  std::int64_t b_row = 0;
  bool b_transposed = false;
  float* c = nullptr;
  std::int64_t c_row = 0;
  float scale = 1;
  bool add = false;
  float* scratch = nullptr;
};

// A block of classes, and statistics of each row over all blocks so far.
struct LossBlock {
  std::int64_t rows = 0, columns = 0;
  float* logits = nullptr;
  std::int64_t first = 0;  // class of column 0
  // [rows], numbered among all classes; negative: row does not count
  const std::int64_t* labels = nullptr;
  float scale = 1, cap = 0;  // z = scale * logit, then cap * tanh(z / cap)
  float* top = nullptr;      // largest z; initially kNoLogit
  double* total = nullptr;   // sum of e^(z - top); initially 0
  float* chosen = nullptr;   // z of the label, set in the label's block
};
inline constexpr float kNoLogit = -3.402823466e+38F;

struct AdamWCall {
  std::int64_t size = 0;
  float *value = nullptr, *mean = nullptr, *square = nullptr;
  const float* gradient = nullptr;
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta^step
  double gradient_divisor = 1;
};

struct Kernels {
  std::string_view name;  // "avx512", "avx2", "base"

  // ---- norms: rows of `width` floats ---- Computes y = x / rms(x) * (offset + weight) and
  // inverse[row] = 1 / rms(x). eps is added under the root. y may be x.
  void (*rms_norm)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t x_stride,
                   const float* weight, float offset, float eps, float* y, std::int64_t y_stride,
                   float* inverse);
  // Computes dx = residual + the gradient of x. Adds the weight's gradient to d_weight. residual
  // and d_weight may be null. residual has dx's stride. dx may be dy or residual.
  void (*rms_norm_gradient)(std::int64_t rows, std::int64_t width, const float* dy,
                            std::int64_t dy_stride, const float* x, std::int64_t x_stride,
                            const float* inverse, const float* weight, float offset,
                            const float* residual, float* dx, std::int64_t dx_stride,
                            float* d_weight);
  // Computes y = (x - mean) / sqrt(variance + eps) * weight + bias. inverse = 1 / sqrt(..), [rows].
  void (*layer_norm)(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                     const float* bias, float eps, float* y, float* mean, float* inverse);
  void (*layer_norm_gradient)(std::int64_t rows, std::int64_t width, const float* dy,
                              const float* x, const float* mean, const float* inverse,
                              const float* weight, const float* residual, float* dx,
                              float* d_weight, float* d_bias);

  // ---- feed-forward ----
  // Computes y = activation(gate) * up. Rows of gate and up are `stride` apart.
  void (*gated)(Activation activation, std::int64_t rows, std::int64_t width, const float* gate,
                const float* up, std::int64_t stride, float* y);
  // Overwrites gate and up with their gradients.
  void (*gated_gradient)(Activation activation, std::int64_t rows, std::int64_t width, float* gate,
                         float* up, std::int64_t stride, const float* dy);
  void (*activation)(Activation activation, std::int64_t size, const float* x, float* y);
  // Overwrites x with its gradient.
  void (*activation_gradient)(Activation activation, std::int64_t size, float* x, const float* dy);

  void (*add_bias)(std::int64_t rows, std::int64_t width, const float* bias, float* x,
                   std::int64_t stride);
  void (*add_rows)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t stride,
                   float* sums);
  // add_scaled: y += scale * x. sum_scaled: y = x + scale * z.
  void (*add_scaled)(std::int64_t size, float scale, const float* x, float* y);
  void (*sum_scaled)(std::int64_t size, const float* x, float scale, const float* z, float* y);
  // Rotary embedding in place: rotates channels i and i + half of each head by the row's angle i.
  // Channels from 2 * half on are unchanged. direction: 1, or -1 for the gradient.
  void (*rotate)(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, std::int64_t half,
                 float* x, std::int64_t stride, const float* cosines, const float* sines,
                 float direction);

  // ---- attention ----
  // Returns the scratch floats that attention() or attention_gradient() needs.
  std::int64_t (*attention_scratch)(std::int64_t length, std::int64_t head_dim);
  void (*attention)(const AttentionCall& call);
  void (*attention_gradient)(const AttentionGradientCall& call);

  std::int64_t (*product_scratch)();
  // Bits of C do not depend on how callers split it into rows and columns.
  void (*product)(const ProductCall& call);

  // ---- loss ----
  // Softmax cross-entropy. Replaces logits by scale * their gradient. Returns the unscaled sum of
  // losses. Rows with a negative label have no loss and gradient 0.
  double (*cross_entropy)(std::int64_t rows, std::int64_t classes, float* logits,
                          const std::int64_t* labels, float scale);
  // Like cross_entropy(), but leaves the logits unchanged.
  double (*cross_entropy_value)(std::int64_t rows, std::int64_t classes, const float* logits,
                                const std::int64_t* labels);

  // Forward, called for blocks in order. Replaces logits by e^(z - top) times the cap's slope, or
  // by 0 in rows that do not count. The caller multiplies earlier blocks' results by rescale[row].
  void (*loss_block)(const LossBlock& block, float* rescale);
  // Backward. Requires that all forward blocks are done, so that each row's top (largest logit) and
  // total (sum of exponentials) are final. Replaces logits by scale * their gradient.
  void (*loss_block_gradient)(const LossBlock& block, float scale);

  // ---- optimizer ----
  // Updates weights. An element's bits do not depend on its position.
  void (*adamw)(const AdamWCall& call);
};

// Returns the best kernels that this processor supports and SLUICE_CPU allows.
const Kernels& kernels();

}  // namespace sluice::ops
