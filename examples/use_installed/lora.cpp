// Low-rank adapters on a Llama, whose Hugging Face directory is the argument. Its own weights are
// frozen, and what only they would need does not run. On one rank, on two, and in a plain loop.
#include <torch/optim/adamw.h>

#include <iostream>

#include "adapter.h"
#include "sluice/sluice.h"

using Tensors = std::vector<at::Tensor>;

sluice::Model adapted(const sluice::ModelSpec& spec, const std::string& path) {
  sluice::Model model = sluice::causal_lm(spec);
  const auto stored = std::make_shared<sluice::HfDirectory>(path);
  for (sluice::LayerSpec& layer : model.layers) {
    layer.initialize = [stored](const auto&, const std::string& name, at::Tensor& value, auto) {
      const auto found = stored->find(name);  // adapters stay as they are made
      if (found) found->file->read_into(found->entry->name, value);
    };
    const bool is_block = layer.role == sluice::LayerRole::kBlock;
    layer.make = [make = layer.make, is_block,
                  width = spec.layers[0].parameters[0].shape[1]]() -> ModulePtr {
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

at::Tensor train(const Tensors& parameters, std::int64_t vocabulary, const auto& loss_of) {
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-2));
  at::Tensor losses = at::zeros(10, at::kDouble);
  for (int i = 0; i < 10; ++i, optimizer.step(), optimizer.zero_grad())
    losses[i] = loss_of(my_tokens(i, vocabulary));
  return losses;
}

int main(int, char** arguments) try {
  const sluice::ModelSpec spec = sluice::read_model_spec(arguments[1]);
  const sluice::Model model = adapted(spec, arguments[1]);
  const auto pipelined = [&](int ranks, const char* schedule) {
    at::Tensor losses;
    sluice::run(model, {.num_ranks = ranks, .schedule = schedule, .num_microbatches = 4},
                [&](sluice::Pipeline& pipeline) {
                  const at::Tensor own =
                      train(pipeline.parameters(), spec.vocab_size, [&](const auto& ids) {
                        return pipeline.train_step({{"input_ids", ids}, {"labels", ids}}).loss;
                      });
                  if (pipeline.has_last_stage()) losses = own;  // all ranks have them
                });
    return losses;
  };
  sluice::Chunk whole(model.layers, 0, {}, model.outputs);  // as one module
  sluice::initialize_parameters(whole, 0);
  Tensors adapters;
  for (const auto& parameter : whole.parameters())
    if (parameter.trainable) adapters.push_back(parameter.tensor);
  const at::Tensor plain = train(adapters, spec.vocab_size, [&](const auto& ids) {
    const sluice::Values batch{{"input_ids", ids}, {"labels", ids}};
    const sluice::LossValue loss = model.loss(whole.forward({}, batch, 0, 0, 0), batch);
    (loss.loss / loss.count).backward();
    return (loss.loss / loss.count).template item<double>();
  });
  const at::Tensor one = pipelined(1, "1F1B"), two = pipelined(2, "ZBVZeroBubble");
  const bool same = at::equal(one, two), close = at::allclose(one, plain, 0, 1e-5);
  std::cout << "loss " << one[0].item<double>() << " -> " << one[9].item<double>() << "; two ranks "
            << (same ? "are the same bits" : "DIFFER") << ", a plain loop "
            << (close ? "agrees" : "DIFFERS") << '\n';
  return same && close && one[9].item<double>() < one[0].item<double>() ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
