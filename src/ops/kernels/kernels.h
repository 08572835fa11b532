// Single-threaded float32 arithmetic of the fused operators. It is compiled once per instruction
// set; kernels() chooses at run time.
//
// The order of every sum depends only on sizes, so results have the same bits for any alignment and
// thread. They differ between instruction sets by rounding. Rows are independent of each other (for
// attention: sequences and key-value heads). Sums over rows run from first to last.
//
// Unless a comment states otherwise, pointers need 4-byte alignment only and sizes are any positive
// numbers. Strides are in floats. Kernels are thread-safe on disjoint memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ops {

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

// Attention of one sequence and one key-value head with its `group` query heads. Query r attends to
// keys [first_key[r], r].
struct AttentionCall {
  std::int64_t length = 0, group = 1;
  std::int64_t head_dim = 0;  // must be a multiple of 16
  // q holds `group` heads side by side, k and v one head.
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t row_stride = 0;
  float* out = nullptr;  // layout of q, rows `out_stride` apart
  std::int64_t out_stride = 0;
  float* log_sums = nullptr;  // [group, length]: log of each row's sum of exponentials
  float scale = 1;            // multiplies the scores
  float cap = 0;              // scores become cap * tanh(score / cap); 0 disables it
  // [length], ascending, first_key[r] <= r: start of the window or document. Null means all 0.
  const std::int32_t* first_key = nullptr;
  float* scratch = nullptr;    // attention_scratch() floats
  std::int64_t kv_stride = 0;  // row stride of k and v; 0: row_stride
};

// Gradients have the layout of q, k and v, except for the strides below.
struct AttentionGradientCall {
  AttentionCall forward;         // `out` and `log_sums` are inputs
  const float* d_out = nullptr;  // layout of `out`
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::int64_t dq_stride = 0, dkv_stride = 0;  // row strides; 0: as those of q and of k
};

// C [rows, columns] = scale * A B, plus the old C if `add`.
struct ProductCall {
  std::int64_t rows = 0, columns = 0, depth = 0;
  // A(i, k) is a[i * a_row + k * a_column]. One of these strides must be 1.
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
  float* scratch = nullptr;  // product_scratch() floats
};

// A block of classes and the statistics of each row, over all blocks so far.
struct LossBlock {
  std::int64_t rows = 0, columns = 0;
  float* logits = nullptr;  // [rows, columns]
  std::int64_t first = 0;   // class of column 0
  const std::int64_t* labels =
      nullptr;               // [rows], among all classes; rows with label < 0 do not count
  float scale = 1, cap = 0;  // z = scale * logit, then cap * tanh(z / cap); cap 0: none
  float* top = nullptr;      // largest z; initially kNoLogit
  double* total = nullptr;   // sum of e^(z - top); initially 0
  float* chosen = nullptr;   // z of the label, written by its block
};
inline constexpr float kNoLogit = -3.402823466e+38F;

struct AdamWCall {
  std::int64_t size = 0;
  float *value = nullptr, *mean = nullptr, *square = nullptr;  // updated
  const float* gradient = nullptr;
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta^step
  double gradient_divisor = 1;
};

struct Kernels {
  std::string_view name;  // "avx512", "avx2", "base"

  // ---- norms: rows of `width` floats ----
  // y = x / rms(x) * (offset + weight) and inverse[row] = 1 / rms(x). eps is added under the root;
  // offset is 1 in Gemma. y may be x.
  void (*rms_norm)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t x_stride,
                   const float* weight, float offset, float eps, float* y, std::int64_t y_stride,
                   float* inverse);
  // dx = residual + the gradient of x; a null residual counts as 0. d_weight += the weight's
  // gradient, unless null. The residual's rows are dx_stride apart. dx may be dy or residual.
  void (*rms_norm_gradient)(std::int64_t rows, std::int64_t width, const float* dy,
                            std::int64_t dy_stride, const float* x, std::int64_t x_stride,
                            const float* inverse, const float* weight, float offset,
                            const float* residual, float* dx, std::int64_t dx_stride,
                            float* d_weight);
  // y = (x - mean) / sqrt(variance + eps) * weight + bias. Writes mean and inverse [rows].
  void (*layer_norm)(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                     const float* bias, float eps, float* y, float* mean, float* inverse);
  void (*layer_norm_gradient)(std::int64_t rows, std::int64_t width, const float* dy,
                              const float* x, const float* mean, const float* inverse,
                              const float* weight, const float* residual, float* dx,
                              float* d_weight, float* d_bias);

  // ---- feed-forward ----
  // y = activation(gate) * up. Rows of gate and up are `stride` apart, rows of y `width`.
  void (*gated)(Activation activation, std::int64_t rows, std::int64_t width, const float* gate,
                const float* up, std::int64_t stride, float* y);
  // Overwrites gate and up with their gradients.
  void (*gated_gradient)(Activation activation, std::int64_t rows, std::int64_t width, float* gate,
                         float* up, std::int64_t stride, const float* dy);
  void (*activation)(Activation activation, std::int64_t size, const float* x, float* y);
  // Overwrites x with its gradient.
  void (*activation_gradient)(Activation activation, std::int64_t size, float* x, const float* dy);

  // ---- rows ----
  void (*add_bias)(std::int64_t rows, std::int64_t width, const float* bias, float* x,
                   std::int64_t stride);
  // sums[width] += each row of x, from first to last.
  void (*add_rows)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t stride,
                   float* sums);
  // y += scale * x, and y = x + scale * z.
  void (*add_scaled)(std::int64_t size, float scale, const float* x, float* y);
  void (*sum_scaled)(std::int64_t size, const float* x, float scale, const float* z, float* y);
  // Rotary embedding, in place. Rotates channels i and i + half of each head by angle i of the row;
  // channels from 2 * half on stay. Row r reads cosines and sines from r * half on. direction: 1,
  // or -1 for the gradient.
  void (*rotate)(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, std::int64_t half,
                 float* x, std::int64_t stride, const float* cosines, const float* sines,
                 float direction);

  // ---- attention ----
  // Scratch floats for both calls below, with any group, window and documents.
  std::int64_t (*attention_scratch)(std::int64_t length, std::int64_t head_dim);
  void (*attention)(const AttentionCall& call);
  void (*attention_gradient)(const AttentionGradientCall& call);

  // ---- products ----
  std::int64_t (*product_scratch)();
  // The bits of an element of C do not depend on how callers split C into rows and columns.
  void (*product)(const ProductCall& call);

  // ---- loss ----
  // Softmax cross-entropy. Overwrites rows of `classes` logits with scale * their gradient. Returns
  // the unscaled sum of losses. labels[row] is in [0, classes); rows with a negative label have no
  // loss and gradient 0.
  double (*cross_entropy)(std::int64_t rows, std::int64_t classes, float* logits,
                          const std::int64_t* labels, float scale);
  // The same sum, without changing the logits.
  double (*cross_entropy_value)(std::int64_t rows, std::int64_t classes, const float* logits,
                                const std::int64_t* labels);

  // Cross-entropy by blocks of classes. The forward visits blocks in order and overwrites logits
  // with e^(z - top) times the cap's slope, or 0 in rows that do not count. If top grew, the caller
  // must multiply what it computed from earlier blocks by rescale[row].
  void (*loss_block)(const LossBlock& block, float* rescale);
  // Backward, with the final top and total: overwrites logits with scale * their gradient.
  void (*loss_block_gradient)(const LossBlock& block, float scale);

  // ---- optimizer ----
  // The bits of an element do not depend on its position.
  void (*adamw)(const AdamWCall& call);
};

// The best kernels of this processor, limited by SLUICE_CPU (base, avx2, avx512). Chosen once per
// process.
const Kernels& kernels();

}  // namespace sluice::ops
