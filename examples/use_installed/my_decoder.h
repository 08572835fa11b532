// A language model of your own. Its forward runs the parts that are present. This file does not use
// sluice.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <string>

constexpr std::int64_t kWidth = 24, kVocabulary = 32, kBlocks = 6;

struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : norm(torch::nn::LayerNormOptions({kWidth})),
        up(kWidth, 4 * kWidth),
        down(4 * kWidth, kWidth) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(at::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

struct DecoderImpl : torch::nn::Module {
  DecoderImpl() {
    embed = register_module("embed", torch::nn::Embedding(kVocabulary, kWidth));
    register_module("blocks", blocks);
    for (int i = 0; i < kBlocks; ++i) blocks->push_back(Block());
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    head = register_module("head", torch::nn::Linear(kWidth, kVocabulary));
  }
  // x: token ids if the embedding is present, otherwise the output of an earlier part.
  at::Tensor forward(at::Tensor x) {
    if (embed) x = embed(x);
    for (const auto& module : *blocks) {
      if (auto* block = module->as<Block>()) x = block->forward(x);
    }
    if (norm) x = norm(x);
    return head ? head(x) : x;
  }
  torch::nn::Embedding embed{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Decoder);

// Initial values of one parameter by name, drawn from torch's default generator.
inline void my_init(const std::string& name, at::Tensor& value) {
  if (value.dim() > 1) {
    value.copy_(at::arange(value.numel(), at::kFloat)
                    .mul_(1.7)
                    .add_(double(name.size()))
                    .sin_()
                    .mul_(0.2)
                    .view_as(value));
  } else {
    value.fill_(name.find("norm.weight") == std::string::npos ? 0.0 : 1.0);
  }
}

inline at::Tensor my_ids(int step) {
  return at::arange(16 * 10).mul(3 + step).add(step).remainder(kVocabulary).view({16, 10});
}
