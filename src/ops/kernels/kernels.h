// The arithmetic of fused operators in float32, one thread, without torch: compiled once for each
// instruction set, chosen at run time.
//
// Owns: the table of kernels, the choice.
// Does not own: matrix products with weights (products.h), memory, threads, autograd.
//
// Invariants, of every kernel:
//  1. The order of every sum is fixed by the sizes alone: the same bits for any alignment, thread
//     and call order. Rows (of attention: sequences and key-value heads) are independent of each
//     other, but for sums over rows, which run from the first to the last.
//  2. Nothing is written outside of what the arguments name; nothing has to be aligned beyond 4
//     bytes; sizes may be any positive numbers unless said otherwise.
//  3. Results differ between instruction sets, by rounding.
// Thread-safety: pure functions; several threads may call them on memory of their own.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ops {

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

// Causal attention of one sequence and one key-value head with the `group` query heads that share
// it. Query r sees the keys [first_key[r], r].
struct AttentionCall {
  std::int64_t length = 0, group = 1;
  std::int64_t head_dim = 0;  // a multiple of 16
  // q holds `group` heads side by side, rows `row_stride` floats apart; k and v one head each.
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t row_stride = 0;
  float* out = nullptr;  // as q, rows `out_stride` apart
  std::int64_t out_stride = 0;
  float* log_sums = nullptr;  // [group, length]: logarithms of the rows' sums of exponentials
  float scale = 1;            // of the scores
  float cap = 0;              // scores become cap * tanh(score / cap); 0: none
  // [length], ascending, first_key[r] <= r: where the window or the document starts. Null: all 0.
  const std::int32_t* first_key = nullptr;
  float* scratch = nullptr;    // attention_scratch() floats
  std::int64_t kv_stride = 0;  // between rows of k and v; 0: row_stride
};

// The gradients of q, k and v have the layout of q, k and v, but for the strides below.
struct AttentionGradientCall {
  AttentionCall forward;         // out and log_sums are read
  const float* d_out = nullptr;  // as out
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::int64_t dq_stride = 0, dkv_stride = 0;  // between their rows; 0: as those of q, of k and v
};

// C [rows, columns] = scale * A B (+ C).
struct ProductCall {
  std::int64_t rows = 0, columns = 0, depth = 0;
  // Element (i, k) of A at a[i * a_row + k * a_column]: one of both is 1.
  const float* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  // Element (k, j) of B at b[k * b_row + j]; transposed: at b[j * b_row + k].
  const float* b = nullptr;
  std::int64_t b_row = 0;
  bool b_transposed = false;
  float* c = nullptr;
  std::int64_t c_row = 0;
  float scale = 1;
  bool add = false;
  float* scratch = nullptr;  // product_scratch() floats
};

// Logits of some of the classes, and what is known of each row: behind the first blocks, of these.
struct LossBlock {
  std::int64_t rows = 0, columns = 0;
  float* logits = nullptr;               // [rows, columns]
  std::int64_t first = 0;                // class of column 0
  const std::int64_t* labels = nullptr;  // [rows], among all classes; below 0: does not count
  float scale = 1, cap = 0;              // z = scale * logit, then cap * tanh(z / cap); cap 0: none
  float* top = nullptr;                  // the largest z; at first kNoLogit
  double* total = nullptr;               // the sum of e^(z - top); at first 0
  float* chosen = nullptr;               // z of the label, once its block has been
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

  // ---- norms: rows of `width` floats, `x_stride` and `y_stride` apart ----
  // y = x / rms(x) * (offset + weight); inverse[row] = 1 / rms(x). eps under the root. offset: 0,
  // or 1 of Gemma. y may be x.
  void (*rms_norm)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t x_stride,
                   const float* weight, float offset, float eps, float* y, std::int64_t y_stride,
                   float* inverse);
  // dx = residual (null: 0) + the gradient of x; d_weight += that of the weight (null: not wanted).
  // x, dy, residual and dx lie x_stride, dy_stride, dx_stride, dx_stride apart; dx may be dy or
  // residual.
  void (*rms_norm_gradient)(std::int64_t rows, std::int64_t width, const float* dy,
                            std::int64_t dy_stride, const float* x, std::int64_t x_stride,
                            const float* inverse, const float* weight, float offset,
                            const float* residual, float* dx, std::int64_t dx_stride,
                            float* d_weight);
  // y = (x - mean) / sqrt(variance + eps) * weight + bias; mean and inverse [rows] are kept.
  void (*layer_norm)(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                     const float* bias, float eps, float* y, float* mean, float* inverse);
  void (*layer_norm_gradient)(std::int64_t rows, std::int64_t width, const float* dy,
                              const float* x, const float* mean, const float* inverse,
                              const float* weight, const float* residual, float* dx,
                              float* d_weight, float* d_bias);

  // ---- feed-forward ----
  // y = activation(gate) * up; rows of gate and up `stride` apart, of y `width`.
  void (*gated)(Activation activation, std::int64_t rows, std::int64_t width, const float* gate,
                const float* up, std::int64_t stride, float* y);
  // gate and up become their gradients.
  void (*gated_gradient)(Activation activation, std::int64_t rows, std::int64_t width, float* gate,
                         float* up, std::int64_t stride, const float* dy);
  void (*activation)(Activation activation, std::int64_t size, const float* x, float* y);
  // x becomes its gradient.
  void (*activation_gradient)(Activation activation, std::int64_t size, float* x, const float* dy);

  // ---- rows ----
  void (*add_bias)(std::int64_t rows, std::int64_t width, const float* bias, float* x,
                   std::int64_t stride);
  // sums[width] += the rows of x, from the first to the last.
  void (*add_rows)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t stride,
                   float* sums);
  // y += scale * x; y = x + scale * z.
  void (*add_scaled)(std::int64_t size, float scale, const float* x, float* y);
  void (*sum_scaled)(std::int64_t size, const float* x, float scale, const float* z, float* y);
  // Turns, in place, the first 2 * half channels of `heads` heads of `head_dim` in every row: x[i],
  // x[i + half] by the angle i of the row. cosines and sines: row r at r * half. direction: 1, or
  // -1 for the gradient.
  void (*rotate)(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, std::int64_t half,
                 float* x, std::int64_t stride, const float* cosines, const float* sines,
                 float direction);

  // ---- attention ----
  // Floats of scratch that both calls below need at most, for any group, window and documents.
  std::int64_t (*attention_scratch)(std::int64_t length, std::int64_t head_dim);
  void (*attention)(const AttentionCall& call);
  void (*attention_gradient)(const AttentionGradientCall& call);

  // ---- products ----
  std::int64_t (*product_scratch)();
  // Rows and columns of C are independent of each other: bits do not depend on how they are
  // divided.
  void (*product)(const ProductCall& call);

  // ---- loss ----
  // Softmax cross-entropy: rows of `classes` logits become scale * their gradient. labels[row] in
  // [0, classes), or below 0: does not count, the gradient is 0. Returns the sum of the losses of
  // the rows that count, not scaled.
  double (*cross_entropy)(std::int64_t rows, std::int64_t classes, float* logits,
                          const std::int64_t* labels, float scale);
  // The same sum; logits stay as they are.
  double (*cross_entropy_value)(std::int64_t rows, std::int64_t classes, const float* logits,
                                const std::int64_t* labels);

  // The same by blocks of the classes. Forward, from the first block to the last: a logit becomes
  // e^(z - top), times the slope of the cap; 0 in rows that do not count. rescale[row]: what is
  // made of the blocks before has to be multiplied with it, since top has grown.
  void (*loss_block)(const LossBlock& block, float* rescale);
  // Backward, with top and total behind the last block: logits become scale * their gradient.
  void (*loss_block_gradient)(const LossBlock& block, float scale);

  // ---- optimizer ----
  // Element by element: the same bits wherever an element stands.
  void (*adamw)(const AdamWCall& call);
};

// The best that this processor has; SLUICE_CPU (base, avx2, avx512) caps it. Decided once a
// process.
const Kernels& kernels();

}  // namespace sluice::ops
