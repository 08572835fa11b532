// Tensor parallelism by a table of layer names. One rank, two ranks on each of three stages, and
// four ranks give the same bits.
#include <torch/nn/functional/loss.h>

#include "my_decoder.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/parts/tensor_parallel.h"
#include "sluice/pipeline.h"

Losses trained(int stages, int degree) {
  using namespace sluice;
  const auto make = [](const Kept& kept) {  // runs once per stage
    Decoder net;
    drop_unkept(*net, kept, net->embed, net->blocks, net->norm, net->head);
    return net;
  };
  const auto forward = [](DecoderImpl& net, const at::Tensor& x) { return net.forward(x); };
  Model model = from_module(make, forward, {.input = "ids", .block_class = "Block"});
  model.loss = mean_loss([](const Values& out, const Values& in) {
    return torch::nn::functional::cross_entropy(out["hidden"].flatten(0, 1), in["ids"].flatten());
  });
  PipelineOptions options{.num_ranks = stages, .num_microbatches = 4};
  options.tensor_parallel = {.degree = degree, .slices = 4};
  RunOptions run_options;
  run_options.parallelize = [](LocalChunk& chunk) {
    parallelize_module(chunk, {{"embed", kRowwise},
                               {"*.up", kColwise},
                               {"*.down", kRowwise},
                               {"*norm", kSequence},
                               {"head", kColwiseGather}});
  };
  const auto body = [](Pipeline& pipeline) {  // runs once per rank
    Losses numbers;
    torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
    for (int step = 0; step < 6; ++step) {
      const double loss = pipeline.train_step({{"ids", my_ids(step)}}).loss;
      numbers.push_back(pipeline.clip_grad_norm(1.0));
      numbers.push_back(loss);
      pipeline.update(optimizer);
      optimizer.zero_grad();
    }
    return numbers;  // every rank returns the same
  };
  return run(model, options, body, run_options).front();
}

int main() try {
  const Losses alone = trained(1, 1);
  return report(alone, trained(3, 2) == alone && trained(1, 4) == alone);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
