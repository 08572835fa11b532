// Declares, per page, what the page's C++ blocks expect from the reader. Compiled, never linked.
#pragma once

#include <sluice/sluice.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "my_model.h"
#include "sluice/lora.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/ops.h"
#include "sluice/parts/stage.h"
#include "sluice/parts/tensor_parallel.h"
#include "sluice/parts/transport.h"
#include "sluice/parts/whole_module.h"
#include "sluice/trainer.h"

namespace page_data_parallel {
struct Batch {
  at::Tensor x, y;
};
struct Loader : std::vector<Batch> {
  Loader(const std::vector<Batch>& data, int replica, int num_replicas);
};
extern sluice::Model model;
extern std::vector<Batch> data;
extern Loader loader;
extern sluice::Pipeline& pipeline;
}  // namespace page_data_parallel

namespace page_fused {
extern torch::nn::Linear q_k_v_proj;
extern at::Tensor x_BLD;
extern std::int64_t B, L, H, G, E;
}  // namespace page_fused

namespace page_library {
struct BlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x);
};
TORCH_MODULE(Block);
struct DecoderImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor x);
  torch::nn::Embedding embed{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Decoder);
struct Batch {
  at::Tensor x, y;
};
torch::nn::Sequential my_net();
std::vector<Batch> my_batches(std::uint64_t seed);
at::Tensor my_norm(const at::Tensor& x, const at::Tensor& weight);
void my_init(const std::string& name, at::Tensor& value);
void my_init(torch::nn::Module& module);
extern torch::nn::Embedding embed;
extern torch::nn::ModuleList blocks;
extern torch::nn::Linear head;
extern at::Tensor x, y, order;
extern sluice::Model model;
extern sluice::Pipeline& pipeline;
extern sluice::PipelineOptions options;
extern sluice::RunOptions run_options;
extern torch::optim::AdamW optimizer;
}  // namespace page_library

namespace page_models {
extern std::vector<sluice::LayerSpec> layers;
}  // namespace page_models

namespace page_numbers {
extern std::uint64_t seed, step, microbatch;
extern torch::nn::Dropout dropout;
extern at::Tensor x, y;
}  // namespace page_numbers

namespace page_transport {
extern sluice::Transport& transport;
extern at::Tensor gradient;
void apply(const at::Tensor& sum);
}  // namespace page_transport
