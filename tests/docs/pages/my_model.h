// The reader's own code in the programs of the migration pages: modules of 32 small layers with the
// names of torchtitan and of Hugging Face, batches, and a loss. It uses nothing of sluice except a
// hook's chunk.
#pragma once

#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

#include "sluice/parts/run_options.h"

constexpr std::int64_t kWords = 256, kLength = 16, kRows = 8;

struct ModelArgs {
  std::int64_t dim = 16, n_layers = 32, vocab_size = kWords;
};
using LlamaConfig = ModelArgs;

struct LlamaDecoderLayerImpl : torch::nn::Module {
  explicit LlamaDecoderLayerImpl(std::int64_t dim) : up(dim, 2 * dim), down(2 * dim, dim) {
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::silu(up(x))); }
  torch::nn::Linear up, down;
};
TORCH_MODULE(LlamaDecoderLayer);

template <typename Embedding, typename Head>
at::Tensor run_parts(at::Tensor x, Embedding& embed, torch::nn::ModuleList& layers,
                     torch::nn::LayerNorm& norm, Head& head) {
  if (embed) x = embed(x);
  for (const auto& layer : *layers)
    if (auto* block = layer->as<LlamaDecoderLayer>()) x = block->forward(x);
  if (norm) x = norm(x);
  return head ? head(x) : x;
}

struct TransformerImpl : torch::nn::Module {
  explicit TransformerImpl(const ModelArgs& args) {
    tok_embeddings =
        register_module("tok_embeddings", torch::nn::Embedding(args.vocab_size, args.dim));
    register_module("layers", layers);
    for (std::int64_t i = 0; i < args.n_layers; ++i) layers->push_back(LlamaDecoderLayer(args.dim));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({args.dim})));
    output = register_module("output", torch::nn::Linear(args.dim, args.vocab_size));
  }
  at::Tensor forward(const at::Tensor& x) {
    return run_parts(x, tok_embeddings, layers, norm, output);
  }
  torch::nn::Embedding tok_embeddings{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear output{nullptr};
};
TORCH_MODULE(Transformer);

struct LlamaImpl : torch::nn::Module {
  explicit LlamaImpl(const LlamaConfig& config) {
    embed_tokens =
        register_module("embed_tokens", torch::nn::Embedding(config.vocab_size, config.dim));
    register_module("layers", layers);
    for (std::int64_t i = 0; i < config.n_layers; ++i)
      layers->push_back(LlamaDecoderLayer(config.dim));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.dim})));
    lm_head = register_module("lm_head", torch::nn::Linear(config.dim, config.vocab_size));
  }
  at::Tensor forward(const at::Tensor& x) {
    return run_parts(x, embed_tokens, layers, norm, lm_head);
  }
  torch::nn::Embedding embed_tokens{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear lm_head{nullptr};
};
TORCH_MODULE(Llama);

inline at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels) {
  return torch::nn::functional::cross_entropy(logits.slice(1, 0, -1).flatten(0, 1).to(at::kFloat),
                                              labels.slice(1, 1).flatten());
}

inline void my_init(const std::string& /*name*/, torch::nn::Module& module) {
  if (auto* linear = module.as<torch::nn::Linear>()) {
    torch::nn::init::xavier_uniform_(linear->weight);
    torch::nn::init::zeros_(linear->bias);
  } else if (auto* embedding = module.as<torch::nn::Embedding>()) {
    torch::nn::init::normal_(embedding->weight);
  }
}

inline void my_parallelize(sluice::LocalChunk& chunk) {
  if (chunk.is_first) std::cout << "the first chunk is on rank " << chunk.rank << '\n';
}

struct Batch {
  at::Tensor ids, labels;
};

inline std::vector<Batch> my_batches() {
  std::vector<Batch> batches;
  for (int step = 1; step <= 2; ++step) {
    // Avoids id 0, which is the directory's padding token. Its embedding is all zeros, whose
    // gradients would overflow.
    const at::Tensor ids = at::arange(kRows * kLength)
                               .mul(3 + step)
                               .remainder(kWords - 1)
                               .add(1)
                               .view({kRows, kLength});
    batches.push_back({ids, ids});
  }
  return batches;
}
