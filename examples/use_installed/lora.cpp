// Trains low-rank adapters on a Llama whose Hugging Face directory is the argument. The base is
// frozen, and computation that only the base would need does not run. Runs on one rank, on two, and
// with torch's own operators in a plain loop.
#include "adapter.h"
#include "plain_llama.h"
#include "plain_loop.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/sluice.h"

using Tensors = std::vector<at::Tensor>;

sluice::Model adapted(const sluice::ModelSpec& spec, const std::string& path) {
  sluice::Model model = sluice::causal_lm(spec);
  model.initialization.tensor = my_init_and(sluice::stored_values(path, {"*.adapter_*"}));
  for (sluice::LayerSpec& layer : model.layers) {
    const bool is_block = layer.role == sluice::LayerRole::kBlock;
    const std::int64_t width = spec.layers[0].parameters[0].shape[1];
    layer.make = [make = layer.make, is_block, width]() -> ModulePtr {
      return is_block ? std::make_shared<Adapted>(make(), width, /*rank=*/4) : frozen(make());
    };
    if (!is_block) continue;
    layer.forward = [block = layer.forward](torch::nn::Module& module, const Tensors& in) {
      auto& own = static_cast<Adapted&>(module);
      return Tensors{block(*own.block, in)[0] + own.up(own.down(in[0]))};
    };
  }
  return model;
}

Losses pipelined(const sluice::Model& model, int ranks, const char* schedule) {
  const auto body = [&](sluice::Pipeline& pipeline) {  // runs once per rank
    return train(pipeline.parameters(), [&](int step) {
      const at::Tensor ids = my_tokens(step);
      return pipeline.train_step({{"input_ids", ids}, {"labels", ids}}).loss;
    });
  };
  // Every rank returns the same result.
  return sluice::run(model, {.num_ranks = ranks, .schedule = schedule, .num_microbatches = 4}, body)
      .front();
}

int main(int, char** arguments) try {
  const sluice::ModelSpec spec = sluice::read_model_spec(arguments[1]);
  const sluice::Model model = adapted(spec, arguments[1]);
  const auto own = [](sluice::Pipeline& pipeline) { return pipeline.named_parameters(); };
  // the initial parameters of all runs
  const auto initial = sluice::run(model, {.num_ranks = 1}, own).front();
  const std::string& config = spec.config_text;
  PlainLlama llama{.layers = spec.num_blocks(),
                   .heads = std::int64_t(number_of(config, "num_attention_heads")),
                   .key_heads = std::int64_t(number_of(config, "num_key_value_heads")),
                   .epsilon = number_of(config, "rms_norm_eps"),
                   .theta = number_of(config, "rope_theta")};
  Tensors adapters;
  for (const auto& parameter : initial) {
    at::Tensor& weight = llama.weights[parameter.name] = parameter.tensor.detach().clone();
    if (parameter.trainable) adapters.push_back(weight.set_requires_grad(true));
  }
  const Losses plain = train(adapters, [&](int step) {
    const at::Tensor loss = llama.loss(my_tokens(step));
    loss.backward();
    return loss.item<double>();
  });
  return compare(pipelined(model, 1, "1F1B"), pipelined(model, 2, "ZBVZeroBubble"), plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
