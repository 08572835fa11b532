// A Llama with a low-rank adapter beside every block, in torch's own operators. Its weights have
// the names of its Hugging Face directory. This file does not use sluice.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

using Weights = std::map<std::string, at::Tensor>;

inline double number_of(const std::string& config_json, const std::string& key) {
  const std::size_t at = config_json.find('"' + key + '"');
  return std::strtod(config_json.c_str() + config_json.find(':', at) + 1, nullptr);
}

struct PlainLlama {
  Weights weights;
  std::int64_t layers, heads, key_heads;
  double epsilon, theta;

  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return at::linear(x, weights.at(name + ".weight"));
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return x * (x.square().mean(-1, true) + epsilon).rsqrt() * weights.at(name + ".weight");
  }
  // [rows, length, width] to [rows, count, length, width / count].
  static at::Tensor split(const at::Tensor& x, std::int64_t count) {
    return x.unflatten(-1, {count, -1}).transpose(1, 2);
  }
  at::Tensor turned(const at::Tensor& x) const {
    const std::int64_t half = x.size(-1) / 2;
    const at::Tensor rates =
        at::pow(theta, at::arange(half, at::kFloat) / -static_cast<double>(half));
    const at::Tensor angles = at::outer(at::arange(x.size(-2), at::kFloat), rates);
    const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
    return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, -1);
  }
  at::Tensor attention(const at::Tensor& x, const std::string& name) const {
    const at::Tensor q = turned(split(linear(x, name + ".q_proj"), heads));
    const at::Tensor k = turned(split(linear(x, name + ".k_proj"), key_heads));
    const at::Tensor v = split(linear(x, name + ".v_proj"), key_heads);
    const std::int64_t each = heads / key_heads, length = x.size(1);
    const at::Tensor scores = at::matmul(q, k.repeat_interleave(each, 1).transpose(-1, -2)) /
                              std::sqrt(static_cast<double>(q.size(-1)));
    const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
    const at::Tensor seen = scores.masked_fill(later, -INFINITY).softmax(-1);
    const at::Tensor found = at::matmul(seen, v.repeat_interleave(each, 1));
    return linear(found.transpose(1, 2).flatten(2), name + ".o_proj");
  }
  at::Tensor block(const at::Tensor& x, const std::string& name) const {
    const at::Tensor h = x + attention(norm(x, name + ".input_layernorm"), name + ".self_attn");
    const at::Tensor y = norm(h, name + ".post_attention_layernorm");
    const at::Tensor gated =
        at::silu(linear(y, name + ".mlp.gate_proj")) * linear(y, name + ".mlp.up_proj");
    return h + linear(gated, name + ".mlp.down_proj") +
           linear(linear(x, name + ".adapter_down"), name + ".adapter_up");
  }
  at::Tensor loss(const at::Tensor& ids) const {
    at::Tensor x = at::embedding(weights.at("model.embed_tokens.weight"), ids);
    for (std::int64_t i = 0; i < layers; ++i) x = block(x, "model.layers." + std::to_string(i));
    const at::Tensor logits = linear(norm(x, "model.norm"), "lm_head");
    return at::cross_entropy_loss(logits.slice(1, 0, -1).flatten(0, 1), ids.slice(1, 1).flatten());
  }
};
