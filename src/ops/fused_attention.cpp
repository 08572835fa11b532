#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <optional>

#include "ops/kernels/kernels.h"
#include "ops/named.h"
#include "sluice/parts/ops.h"

namespace sluice {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused_attention";

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const bool fits = q.dim() == 4 && k.dim() == 4 && k.sizes().equals(v.sizes()) &&
                    q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3) &&
                    k.size(2) > 0 && q.size(2) % k.size(2) == 0;
  if (fits) return;
  ops::refuse(kName,
              "q " + c10::str(q.sizes()) + ", k " + c10::str(k.sizes()) + " and v " +
                  c10::str(v.sizes()) + " do not fit",
              "give q [B, L, H, E] and k, v [B, L, G, E], H a multiple of G");
}

void check_first_key(const at::Tensor& first_BL, const at::Tensor& q_BLHE) {
  if (first_BL.dim() != 2 || first_BL.size(0) != q_BLHE.size(0) ||
      first_BL.size(1) != q_BLHE.size(1) ||
      (first_BL.scalar_type() != at::kLong && first_BL.scalar_type() != at::kInt)) {
    ops::refuse(kName,
                "first_key has the sizes " + c10::str(first_BL.sizes()) + " and the type " +
                    c10::toString(first_BL.scalar_type()),
                "give int64 or int32 [B, L]");
  }
  const at::Tensor place_L = at::arange(first_BL.size(1), first_BL.options());
  const bool fits = (first_BL.ge(0) & first_BL.le(place_L)).all().item<bool>() &&
                    first_BL.diff().ge(0).all().item<bool>();
  if (!fits)
    ops::refuse(kName, "first_key is not ascending within [0, l]",
                "give each token the first token of its document");
}

// Returns int32 [B, L], or an undefined tensor if queries see all earlier keys.
at::Tensor first_keys(const at::Tensor& q_BLHE, const FusedAttentionOptions& options) {
  const std::int64_t length = q_BLHE.size(1);
  const bool windowed = options.window > 0 && options.window < length;
  if (!options.first_key.defined() && !windowed) return {};
  const auto type = q_BLHE.options().dtype(at::kInt).requires_grad(false);
  at::Tensor first_BL = options.first_key.defined() ? options.first_key.to(type)
                                                    : at::zeros({q_BLHE.size(0), length}, type);
  if (windowed)
    first_BL =
        at::maximum(first_BL, at::arange(1 - options.window, length - options.window + 1, type));
  return first_BL.contiguous();
}

at::Tensor by_operators(const at::Tensor& q_BLHE, const at::Tensor& k_BLGE,
                        const at::Tensor& v_BLGE, const at::Tensor& first_BL, double scale,
                        double cap) {
  const at::Tensor q = q_BLHE.transpose(1, 2), k = k_BLGE.transpose(1, 2),
                   v = v_BLGE.transpose(1, 2);
  const std::int64_t group = q.size(1) / k.size(1), length = q.size(2);
  if (cap == 0 && !first_BL.defined()) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, scale,
                                            /*enable_gqa=*/group > 1)
        .transpose(1, 2);
  }
  const auto type = q.options().dtype(at::kInt).requires_grad(false);
  const at::Tensor place_L = at::arange(length, type);
  at::Tensor seen = place_L.unsqueeze(0).le(place_L.unsqueeze(1));
  if (first_BL.defined()) seen = seen & place_L.ge(first_BL.unsqueeze(2)).unsqueeze(1);
  at::Tensor scores = at::matmul(q, k.repeat_interleave(group, 1).transpose(2, 3)) * scale;
  if (cap > 0) scores = at::tanh(scores / cap) * cap;
  scores = scores.masked_fill(seen.logical_not(), -INFINITY);
  return at::matmul(at::softmax(scores, -1), v.repeat_interleave(group, 1)).transpose(1, 2);
}

// Returns x, copied if its rows are not contiguous.
at::Tensor by_rows(const at::Tensor& x_BLHE) {
  const bool as_it_is =
      x_BLHE.stride(3) == 1 && (x_BLHE.size(2) == 1 || x_BLHE.stride(2) == x_BLHE.size(3)) &&
      (x_BLHE.size(1) == 1 || x_BLHE.stride(1) >= x_BLHE.size(2) * x_BLHE.size(3));
  return as_it_is ? x_BLHE : x_BLHE.contiguous();
}

at::Tensor like_rows(const at::Tensor& x_BLHE) {
  return at::empty(x_BLHE.sizes(), x_BLHE.options().memory_format(at::MemoryFormat::Contiguous));
}

// Inputs with contiguous rows. The kernel requires the same row stride for k and v.
struct Rows {
  at::Tensor q, k, v;

  Rows(const at::Tensor& q_BLHE, const at::Tensor& k_BLGE, const at::Tensor& v_BLGE)
      : q(by_rows(q_BLHE)), k(by_rows(k_BLGE)), v(by_rows(v_BLGE)) {
    if (k.stride(1) == v.stride(1)) return;
    k = k.contiguous();
    v = v.contiguous();
  }
};

// Calls run(call, b, g, head) for each sequence b and key-value head g. `head` is g's first query
// head.
template <typename Run>
void each_head(const Rows& in, const at::Tensor& out, const at::Tensor& log_sums_BHL,
               const at::Tensor& first_BL, double scale, double cap, const Run& run) {
  const std::int64_t batch = in.q.size(0), length = in.q.size(1), head_dim = in.q.size(3),
                     key_heads = in.k.size(2), group = in.q.size(2) / key_heads;
  const auto of = [](const at::Tensor& x, std::int64_t b, std::int64_t head) {
    return x.const_data_ptr<float>() + b * x.stride(0) + head * x.size(3);
  };
  at::parallel_for(0, batch * key_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor scratch =
        at::empty({ops::kernels().attention_scratch(length, head_dim)}, in.q.options());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / key_heads, g = i % key_heads, head = g * group;
      ops::AttentionCall call;
      call.length = length;
      call.group = group;
      call.head_dim = head_dim;
      call.q = of(in.q, b, head);
      call.k = of(in.k, b, g);
      call.v = of(in.v, b, g);
      call.row_stride = in.q.stride(1);
      call.kv_stride = in.k.stride(1);
      call.out = out.mutable_data_ptr<float>() + b * out.stride(0) + head * head_dim;
      call.out_stride = out.stride(1);
      call.log_sums = log_sums_BHL.mutable_data_ptr<float>() + (b * in.q.size(2) + head) * length;
      call.scale = static_cast<float>(scale);
      call.cap = static_cast<float>(cap);
      if (first_BL.defined()) call.first_key = first_BL.const_data_ptr<std::int32_t>() + b * length;
      call.scratch = scratch.mutable_data_ptr<float>();
      run(call, b, g, head);
    }
  });
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& first,
                            double scale, double cap) {
    const at::Tensor first_BL = first.value_or(at::Tensor());
    const Rows in(q, k, v);
    const at::Tensor out = like_rows(q),
                     log_sums = at::empty({q.size(0), q.size(2), q.size(1)}, q.options());
    each_head(in, out, log_sums, first_BL, scale, cap,
              [](const ops::AttentionCall& call, auto...) { ops::kernels().attention(call); });
    context->save_for_backward({q, k, v, first_BL, out, log_sums});
    context->saved_data["scale"] = scale;
    context->saved_data["cap"] = cap;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &first_BL = saved[3], &out = saved[4];
    const double scale = context->saved_data["scale"].toDouble(),
                 cap = context->saved_data["cap"].toDouble();
    if (at::GradMode::is_enabled()) {
      const auto found = ops::differentiable_gradients(
          {saved[0], saved[1], saved[2]}, gradients[0], [&](const variable_list& inputs) {
            return by_operators(inputs[0], inputs[1], inputs[2], first_BL, scale, cap);
          });
      return {found[0], found[1], found[2], {}, {}, {}};
    }
    const Rows in(saved[0], saved[1], saved[2]);
    const at::Tensor d_out = gradients[0].contiguous();
    const at::Tensor dq = like_rows(in.q), dk = like_rows(in.k), dv = like_rows(in.v);
    each_head(
        in, out, saved[5], first_BL, scale, cap,
        [&](const ops::AttentionCall& call, std::int64_t b, std::int64_t g, std::int64_t head) {
          const auto to = [&](const at::Tensor& x, std::int64_t at_head) {
            return x.mutable_data_ptr<float>() + b * x.stride(0) + at_head * x.size(3);
          };
          ops::kernels().attention_gradient({.forward = call,
                                             .d_out = to(d_out, head),
                                             .dq = to(dq, head),
                                             .dk = to(dk, g),
                                             .dv = to(dv, g),
                                             .dq_stride = dq.stride(1),
                                             .dkv_stride = dk.stride(1)});
        });
    return {dq, dk, dv, {}, {}, {}};
  }
};

}  // namespace

at::Tensor fused_attention(const at::Tensor& q_BLHE, const at::Tensor& k_BLGE,
                           const at::Tensor& v_BLGE, const FusedAttentionOptions& options) {
  check_shapes(q_BLHE, k_BLGE, v_BLGE);
  if (options.window < 0 || options.cap < 0) {
    ops::refuse(kName, "the window or the cap is negative", "give 0 for none");
  }
  if (options.first_key.defined()) check_first_key(options.first_key, q_BLHE);
  const at::Tensor first_BL = first_keys(q_BLHE, options);
  const std::int64_t head_dim = q_BLHE.size(3);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
  if (head_dim % 16 != 0 || head_dim > 256 || !ops::kernels_take({q_BLHE, k_BLGE, v_BLGE}))
    return by_operators(q_BLHE, k_BLGE, v_BLGE, first_BL, scale, options.cap);
  const auto first = first_BL.defined() ? std::optional<at::Tensor>(first_BL) : std::nullopt;
  return Attention::apply(q_BLHE, k_BLGE, v_BLGE, first, scale, options.cap);
}

}  // namespace sluice
