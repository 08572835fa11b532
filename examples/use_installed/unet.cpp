// A U-Net of your own with skips across stages and two outputs: on one rank, on three, and in a
// plain loop.
#include "my_unet.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

using sluice::Values;

Losses pipelined(int ranks, const char* schedule) {
  const auto make = [](const sluice::Kept& kept) { return UNet(kept); };
  const auto forward = [](UNetImpl& net, const Values& in) {
    const auto if_any = [&](const char* n) { return in.has(n) ? in[n] : at::Tensor(); };
    const Flow f = net.forward({if_any(in.has("x") ? "x" : "h"), if_any("skip1"), if_any("skip2")});
    return Values{
        {"h", f.x}, {"skip1", f.skip1}, {"skip2", f.skip2}, {"mean", f.mean}, {"spread", f.spread}};
  };
  sluice::Model model = sluice::from_module(make, forward,
                                            {.parts = {{"down1", {"x"}, {"h", "skip1"}},
                                                       {"down2", {"h"}, {"h", "skip2"}},
                                                       {"middle", {"h"}, {"h"}},
                                                       {"up2", {"h", "skip2"}, {"h"}},
                                                       {"up1", {"h", "skip1"}, {"h"}},
                                                       {"tail", {"h"}, {"mean", "spread"}}}});
  model.loss = sluice::mean_loss([](const Values& out, const Values& in) {
    return my_loss(out["mean"], out["spread"], in["x"]);
  });
  model.initialization.tensor = my_init;
  const auto body = [&](sluice::Pipeline& pipeline) {  // runs once per rank
    Losses losses;
    torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
    for (int step = 0; step < kSteps; ++step) {
      const double loss = pipeline.train_step({{"x", my_signal(step)}}).loss;
      pipeline.update(optimizer);
      optimizer.zero_grad();
      losses.push_back(loss);
    }
    return losses;
  };
  // Every rank returns the same result.
  return sluice::run(model, {.num_ranks = ranks, .schedule = schedule, .num_microbatches = 6}, body)
      .front();
}

int main() try {
  UNet net;
  const Losses plain = plain_loop(*net, my_init, [&](int step) {
    const Flow out = net->forward({my_signal(step)});
    return my_loss(out.mean, out.spread, my_signal(step));
  });
  return compare(pipelined(1, "1F1B"), pipelined(3, "ZBVZeroBubble"), plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
