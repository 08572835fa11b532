// A module with its own forward, cut by the class of its layers: on one rank, on three under an
// interleaved schedule, and in a plain loop.
#include <torch/nn/functional/loss.h>

#include "my_decoder.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& ids) {
  return torch::nn::functional::cross_entropy(logits.slice(1, 0, -1).flatten(0, 1),
                                              ids.slice(1, 1).flatten());
}

Losses pipelined(int ranks, const char* schedule) {
  const auto make = [](const sluice::Kept& kept) {  // runs once per stage
    Decoder net;
    sluice::drop_unkept(*net, kept, net->embed, net->blocks, net->norm, net->head);
    return net;
  };
  const auto forward = [](DecoderImpl& net, const at::Tensor& x) { return net.forward(x); };
  sluice::Model model =
      sluice::from_module(make, forward, {.input = "ids", .block_class = "Block"});
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return next_token_loss(out["hidden"], in["ids"]);
  });
  model.initialization.tensor = my_init;
  const auto body = [&](sluice::Pipeline& pipeline) {  // runs once per rank
    Losses losses;
    torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
    for (int step = 0; step < kSteps; ++step) {
      const double loss = pipeline.train_step({{"ids", my_ids(step)}}).loss;
      pipeline.update(optimizer);
      optimizer.zero_grad();
      losses.push_back(loss);
    }
    return losses;
  };
  // Every rank returns the same result.
  return sluice::run(model, {.num_ranks = ranks, .schedule = schedule, .num_microbatches = 4}, body)
      .front();
}

int main() try {
  Decoder net;
  const Losses plain = plain_loop(*net, my_init, [&](int step) {
    return next_token_loss(net->forward(my_ids(step)), my_ids(step));
  });
  return compare(pipelined(1, "1F1B"), pipelined(3, "Interleaved1F1B"), plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
