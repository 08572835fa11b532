// An encoder-decoder of your own, cut by hand. The encoder's output passes through every stage of
// the decoder. Runs on one rank, on two, on five, and in a plain loop.
#include "my_translator.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

using sluice::Values;

Losses pipelined(const sluice::PipelineOptions& options) {
  const auto make = [](const sluice::Kept& kept) {
    Translator net;
    sluice::drop_unkept(*net, kept, net->source, net->encoder, net->target, net->decoder,
                        net->head);
    return net;
  };
  const auto forward = [](TranslatorImpl& net, const Values& in) {
    const auto if_any = [&](const char* n) { return in.has(n) ? in[n] : at::Tensor(); };
    const Reply r =
        net.forward(if_any("hidden"), if_any("memory"), if_any("source"), if_any("target"));
    return Values{{"hidden", r.hidden}, {"memory", r.memory}};
  };
  sluice::Model model =
      sluice::from_module(make, forward,
                          {.parts = {{"source", {"source"}},
                                     {.name = "encoder", .length = kDepth},
                                     {"target", {"target", "hidden"}, {"hidden", "memory"}},
                                     {"decoder", {"hidden", "memory"}, {"hidden"}, kDepth},
                                     {"head"}}});
  model.loss = sluice::mean_loss(
      [](const Values& out, const Values& in) { return my_loss(out["hidden"], in["target"]); });
  model.initialization.tensor = my_init;
  // Every rank returns the same result.
  return sluice::run(model, options,
                     [&](sluice::Pipeline& pipeline) {  // runs once per rank
                       Losses losses;
                       torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
                       for (int step = 0; step < kSteps; ++step) {
                         const auto result = pipeline.train_step(
                             {{"source", my_source(step)}, {"target", my_target(step)}});
                         pipeline.update(optimizer);
                         optimizer.zero_grad();
                         losses.push_back(result.loss);
                       }
                       return losses;
                     })
      .front();
}

int main() try {
  Translator net;
  const Losses plain = plain_loop(*net, my_init, [&](int step) {
    return my_loss(net->forward({}, {}, my_source(step), my_target(step)).hidden, my_target(step));
  });
  sluice::PipelineOptions five{.num_ranks = 5, .num_microbatches = 4};
  five.partition.cuts = {"encoder.0", "encoder.2", "decoder.0", "decoder.1"};
  return compare(pipelined({.num_microbatches = 4}), pipelined(five), plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
