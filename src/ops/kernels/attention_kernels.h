// Causal attention of one sequence and one key-value head.
//
// The forward loops over blocks of queries, then keys. Each row keeps its largest score and sum of
// exponentials. A larger score rescales the output (arXiv:1805.02867, arXiv:2205.14135). Up to
// kForwardKeys keys form one block, without rescaling.
//
// The gradient loops over blocks of keys, then queries, so that K, V and their gradients stay in
// the cache. It recomputes probabilities from log_sums. With s = scale q k, t = cap tanh(s / cap)
// and p = e^(t - log_sum):
//   dv = p^T do,   ds = p (do v^T - sum(o do)) (1 - (t / cap)^2) scale,
//   dq = ds k,     dk = ds^T q
#pragma once

#include "base/kernel_sizes.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/tiles.h"
#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

constexpr Index kQueries = kQueryBlock;
constexpr Index kForwardKeys = 1024;  // kQueries x 1024 scores take 192 KiB
constexpr Index kSlack = kScoreSlack;

// Returns the number of keys per block, for which K, K^T, V^T, dK and dV take at most 480 KiB,
// unless 64 keys take more.
inline Index gradient_keys(Index head_dim) {
  return most(64, least(1024, 24576 / head_dim / 64 * 64));
}
inline Index padded(Index length) { return (length + 63) / 64 * 64; }
inline Index forward_keys(Index length) { return least(padded(length), kForwardKeys); }
inline Index gradient_keys(Index length, Index head_dim) {
  return least(padded(length), gradient_keys(head_dim));
}

Index attention_scratch(Index length, Index head_dim) {
  const Index forward = 2 * padded(length) * head_dim + kQueries * (forward_keys(length) + kSlack);
  const Index keys = gradient_keys(length, head_dim);
  const Index gradient = kKeyMatrices * keys * head_dim + 2 * kQueries * (keys + kSlack + head_dim);
  return most(forward, gradient) + kLine;
}

// Packs factor * X^T into zero-padded panels [head_dim, kPanel].
inline void pack_transposed(Index length, Index head_dim, const float* x, Index stride,
                            float factor, float* y) {
  const Index columns = (length + kPanel - 1) / kPanel * kPanel;
  for (Index l = 0; l < columns; l += 4) {
    float* const panel = y + l / kPanel * kPanel * head_dim + l % kPanel;
    for (Index e = 0; e < head_dim; e += 4) {
      Four r[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        r[i] = l + i < length ? load_four(x + (l + i) * stride + e) * factor : Four{};
      const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
                 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
                 d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
      float* const to = panel + e * kPanel;
      store_four(to, __builtin_shufflevector(a, b, 0, 1, 4, 5));
      store_four(to + kPanel, __builtin_shufflevector(a, b, 2, 3, 6, 7));
      store_four(to + 2 * kPanel, __builtin_shufflevector(c, d, 0, 1, 4, 5));
      store_four(to + 3 * kPanel, __builtin_shufflevector(c, d, 2, 3, 6, 7));
    }
  }
}

// Infinite or NaN keys or values would spread to other queries, because masked ones are multiplied
// by 0.
inline bool all_finite(Index rows, Index width, const float* x, Index stride) {
  Floats sums{};
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < width; i += kFloats) sums += load(x + row * stride + i) * 0.0f;
  }
  return sum(sums) == 0.0f;
}
// If values are not finite, uses blocks of one query, which contain no later keys.
inline Index queries_at_once(bool finite) { return finite ? kQueries : 1; }

inline void copy_rows(Index rows, Index width, const float* x, Index x_stride, float* y,
                      Index y_stride) {
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < width; i += kFloats)
      store(y + row * y_stride + i, load(x + row * x_stride + i));
  }
}

// Computes q[r] . k[j], at least for j <= r + diagonal. `panels` come from pack_transposed().
inline void scores_of(Index rows, Index keys, Index diagonal, Index head_dim, const float* q,
                      Index stride, const float* panels, float* scores, Index scores_stride) {
  for (Index j = 0; j < keys; j += kPanel) {
    const Index first = most(0, j - diagonal) / kTileSums * kTileSums;
    const Index vectors = (least(kPanel, keys - j) + kFloats - 1) / kFloats;
    panel_of({.shape = Shape::kWhole,
              .diagonal = 0,
              .rows = rows,
              .depth = head_dim,
              .a = q,
              .a_row = stride,
              .a_column = 1,
              .b = panels + j * head_dim,
              .b_row = kPanel,
              .c = scores + j,
              .c_row = scores_stride,
              .add = false},
             0, vectors, first);
  }
}

// A row's visible scores [low, high), and [begin, end) padded to whole vectors.
struct Seen {
  Index low, high, begin, end;
};

// Which of `keys` keys, starting at `from`, lie in [first, row].
inline Seen seen_of(Index from, Index keys, Index first, Index row) {
  const Index low = most(first - from, 0), high = least(row + 1 - from, keys);
  if (low >= high) return {0, 0, 0, 0};
  return {low, high, low / kFloats * kFloats, (high + kFloats - 1) / kFloats * kFloats};
}

inline void fill(float* row, Index begin, Index end, float value) {
  for (Index j = begin; j < end; ++j) row[j] = value;
}

struct Block {
  Index begin, rows;
  Index from, keys;                                // `from` is the first key of a panel
  Index diagonal() const { return begin - from; }  // query r sees keys up to r + diagonal
};

inline Block block_of(const AttentionCall& call, Index begin, Index queries, Index key_begin,
                      Index key_end) {
  const Index end = least(call.length, begin + queries);
  const Index first = call.first_key ? call.first_key[begin] : 0;
  const Index from = key_begin + most(first - key_begin, 0) / kPanel * kPanel;
  return {begin, end - begin, from, least(key_end, end) - from};
}

inline Index kv_stride_of(const AttentionCall& call) {
  return call.kv_stride ? call.kv_stride : call.row_stride;
}

inline Index first_of(const AttentionCall& call, Index row) {
  return call.first_key ? call.first_key[row] : 0;
}

inline float exp_of(float x) { return exp_of(all(x))[0]; }

// Largest score and sum of exponentials per query.
struct RowState {
  float top[kQueries], total[kQueries];
};

inline void exponentials(const AttentionCall& call, const Block& block, bool begun, float* scores,
                         Index stride, RowState& state, float* out) {
  const float inverse_cap = 1.0f / call.cap;
  for (Index r = 0; r < block.rows; ++r) {
    float* const row = scores + r * stride;
    const Seen seen =
        seen_of(block.from, block.keys, first_of(call, block.begin + r), block.begin + r);
    if (call.cap > 0) {
      for (Index j = seen.begin; j < seen.end; j += kFloats)
        store(row + j, tanh_of(load(row + j) * inverse_cap) * call.cap);
    }
    fill(row, seen.begin, seen.low, -__builtin_inff());
    fill(row, seen.high, seen.end, -__builtin_inff());
    Floats top = all(state.top[r]);
    for (Index j = seen.begin; j < seen.end; j += kFloats) top = larger(top, load(row + j));
    const float largest_now = largest(top);
    Floats sums{};
    for (Index j = seen.begin; j < seen.end; j += kFloats) {
      const Floats e = exp_of(load(row + j) - largest_now);
      store(row + j, e);
      sums += e;
    }
    fill(row, 0, seen.begin, 0);
    fill(row, seen.end, block.keys, 0);
    const float factor = begun ? exp_of(state.top[r] - largest_now) : 0.0f;
    state.total[r] = (begun ? state.total[r] * factor : 0.0f) + sum(sums);
    state.top[r] = largest_now;
    if (begun && factor != 1.0f) {
      float* const to = out + r * call.out_stride;
      for (Index e = 0; e < call.head_dim; e += kFloats) store(to + e, load(to + e) * factor);
    }
  }
}

void attention(const AttentionCall& call) {
  const Index length = call.length, head_dim = call.head_dim;
  const Index stride = forward_keys(length) + kSlack, kv_stride = kv_stride_of(call);
  float* const keys = cache_line(call.scratch);
  float* const values = keys + padded(length) * head_dim;
  float* const scores = values + padded(length) * head_dim;
  pack_transposed(length, head_dim, call.k, kv_stride, call.scale, keys);
  copy_rows(length, head_dim, call.v, kv_stride, values, head_dim);
  const Index at_once = queries_at_once(all_finite(length, head_dim, values, head_dim));
  for (Index head = 0; head < call.group; ++head) {
    for (Index begin = 0; begin < length; begin += at_once) {
      const float* const q = call.q + begin * call.row_stride + head * head_dim;
      float* const out = call.out + begin * call.out_stride + head * head_dim;
      const Index rows = least(at_once, length - begin);
      RowState state;
      for (Index r = 0; r < rows; ++r) state.top[r] = kLowest;
      bool begun = false;
      const Index first_block = first_of(call, begin) / kForwardKeys * kForwardKeys;
      for (Index key = first_block; key < begin + rows; key += kForwardKeys) {
        const Block block = block_of(call, begin, at_once, key, key + kForwardKeys);
        scores_of(rows, block.keys, block.diagonal(), head_dim, q, call.row_stride,
                  keys + block.from * head_dim, scores, stride);
        exponentials(call, block, begun, scores, stride, state, out);
        multiply({.shape = Shape::kLower,
                  .diagonal = block.diagonal(),
                  .rows = rows,
                  .depth = block.keys,
                  .a = scores,
                  .a_row = stride,
                  .a_column = 1,
                  .b = values + block.from * head_dim,
                  .b_row = head_dim,
                  .c = out,
                  .c_row = call.out_stride,
                  .add = begun},
                 head_dim);
        begun = true;
      }
      for (Index r = 0; r < rows; ++r) {
        const float inverse = 1.0f / state.total[r];
        for (Index e = 0; e < head_dim; e += kFloats) {
          float* const to = out + r * call.out_stride + e;
          store(to, load(to) * inverse);
        }
        call.log_sums[head * length + begin + r] = state.top[r] + __builtin_logf(state.total[r]);
      }
    }
  }
}

// Turns p from scores into probabilities, and ds from do v^T into the gradient of q k.
inline void gradients_of_scores(const AttentionCall& call, const Block& block, Index head,
                                const float* d_out, float* p, float* ds, Index stride) {
  const float inverse_cap = 1.0f / call.cap;
  for (Index r = 0; r < block.rows; ++r) {
    const Index query = block.begin + r;
    float *const p_row = p + r * stride, *const ds_row = ds + r * stride;
    const Seen seen = seen_of(block.from, block.keys, first_of(call, query), query);
    const float* const out = call.out + query * call.out_stride + head * call.head_dim;
    const float* const d = d_out + r * call.head_dim;
    Floats dots{};
    for (Index e = 0; e < call.head_dim; e += kFloats) dots += load(out + e) * load(d + e);
    const float delta = sum(dots), log_sum = call.log_sums[head * call.length + query];
    if (call.cap > 0) {
      for (Index j = seen.begin; j < seen.end; j += kFloats) {
        const Floats t = tanh_of(load(p_row + j) * inverse_cap), e = exp_of(t * call.cap - log_sum);
        store(p_row + j, e);
        store(ds_row + j, e * (load(ds_row + j) - delta) * call.scale * (1.0f - t * t));
      }
    } else {
      for (Index j = seen.begin; j < seen.end; j += kFloats) {
        const Floats e = exp_of(load(p_row + j) - log_sum);
        store(p_row + j, e);
        store(ds_row + j, e * (load(ds_row + j) - delta) * call.scale);
      }
    }
    for (float* const row : {p_row, ds_row}) {
      fill(row, 0, seen.low, 0);
      fill(row, seen.high, block.keys, 0);
    }
  }
}

void attention_gradient(const AttentionGradientCall& gradient) {
  const AttentionCall& call = gradient.forward;
  const Index length = call.length, head_dim = call.head_dim;
  const Index block_keys = gradient_keys(head_dim), most_keys = gradient_keys(length, head_dim);
  const Index stride = most_keys + kSlack, size = most_keys * head_dim;
  const Index kv_stride = kv_stride_of(call),
              dq_stride = gradient.dq_stride ? gradient.dq_stride : call.row_stride,
              dkv_stride = gradient.dkv_stride ? gradient.dkv_stride : kv_stride;
  float* const keys_t = cache_line(call.scratch);
  float *const values_t = keys_t + size, *const keys = values_t + size, *const dk = keys + size,
               *const dv = dk + size, *const p = dv + size, *const ds = p + kQueries * stride,
               *const q = ds + kQueries * stride, *const d_out = q + kQueries * head_dim;
  for (Index key = 0; key < length; key += block_keys) {
    const Index num_keys = least(block_keys, length - key);
    const float* const k = call.k + key * kv_stride;
    pack_transposed(num_keys, head_dim, k, kv_stride, call.scale, keys_t);
    pack_transposed(num_keys, head_dim, call.v + key * kv_stride, kv_stride, 1.0f, values_t);
    copy_rows(num_keys, head_dim, k, kv_stride, keys, head_dim);
    fill(dk, 0, num_keys * head_dim, 0);
    fill(dv, 0, num_keys * head_dim, 0);
    const Index at_once = queries_at_once(all_finite(num_keys, head_dim, keys, head_dim));
    for (Index head = 0; head < call.group; ++head) {
      for (Index begin = key / at_once * at_once; begin < length; begin += at_once) {
        if (first_of(call, begin) >= key + num_keys) break;
        const Block block = block_of(call, begin, at_once, key, key + num_keys);
        const Index at = block.from - key;
        copy_rows(block.rows, head_dim, call.q + begin * call.row_stride + head * head_dim,
                  call.row_stride, q, head_dim);
        copy_rows(block.rows, head_dim, gradient.d_out + begin * call.out_stride + head * head_dim,
                  call.out_stride, d_out, head_dim);
        scores_of(block.rows, block.keys, block.diagonal(), head_dim, q, head_dim,
                  keys_t + at * head_dim, p, stride);
        scores_of(block.rows, block.keys, block.diagonal(), head_dim, d_out, head_dim,
                  values_t + at * head_dim, ds, stride);
        gradients_of_scores(call, block, head, d_out, p, ds, stride);
        const Product to_keys = {.shape = Shape::kUpper,
                                 .diagonal = block.diagonal(),
                                 .rows = block.keys,
                                 .depth = block.rows,
                                 .a = p,
                                 .a_row = 1,
                                 .a_column = stride,
                                 .b = d_out,
                                 .b_row = head_dim,
                                 .c = dv + at * head_dim,
                                 .c_row = head_dim,
                                 .add = true};
        multiply(to_keys, head_dim);
        Product of_keys = to_keys;
        of_keys.a = ds;
        of_keys.b = q;
        of_keys.c = dk + at * head_dim;
        multiply(of_keys, head_dim);
        const bool begun = first_of(call, begin) / block_keys * block_keys < key;
        multiply({.shape = Shape::kLower,
                  .diagonal = block.diagonal(),
                  .rows = block.rows,
                  .depth = block.keys,
                  .a = ds,
                  .a_row = stride,
                  .a_column = 1,
                  .b = keys + at * head_dim,
                  .b_row = head_dim,
                  .c = gradient.dq + begin * dq_stride + head * head_dim,
                  .c_row = dq_stride,
                  .add = begun},
                 head_dim);
      }
    }
    copy_rows(num_keys, head_dim, dk, head_dim, gradient.dk + key * dkv_stride, dkv_stride);
    copy_rows(num_keys, head_dim, dv, head_dim, gradient.dv + key * dkv_stride, dkv_stride);
  }
}

}  // namespace
}  // namespace sluice::ops
