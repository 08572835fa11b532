// Trains a low-rank adapter in the format of Hugging Face's PEFT on a frozen base, on one rank and
// on two. usage: adapt_llama BASE [ADAPTER]; without ADAPTER a new adapter.
#include "adapter.h"
#include "plain_loop.h"
#include "sluice/lora.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/sluice.h"

int main(int count, char** arguments) try {
  const std::string path = arguments[1], saved = count > 2 ? arguments[2] : "";
  const sluice::ModelSpec base = sluice::read_model_spec(path);
  const sluice::Adapter adapter =
      saved.empty() ? sluice::make_adapter(base, {.rank = 4}) : sluice::read_adapter(saved, base);
  sluice::Model model =
      sluice::causal_lm(sluice::with_adapter(base, adapter), {.adapter = adapter});
  model.initialization.tensor = sluice::stored_values_with_adapter(path, saved);

  const auto body = [&](sluice::Pipeline& pipeline) {  // runs once per rank
    Losses numbers;
    // only the adapter's parameters are trained
    torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
    for (int step = 0; step < 4; ++step) {
      const at::Tensor ids = my_tokens(step) % base.vocab_size;
      numbers.push_back(pipeline.train_step({{"input_ids", ids}, {"labels", ids}}).loss);
      numbers.push_back(pipeline.clip_grad_norm(1.0));
      pipeline.update(optimizer);
      optimizer.zero_grad();
    }
    return numbers;  // every rank returns the same
  };
  const auto trained = [&](int ranks) {
    return sluice::run(model, {.num_ranks = ranks, .num_microbatches = 4}, body).front();
  };
  const Losses alone = trained(1);
  std::cout << sluice::adapter_config(adapter, base, path) << '\n';  // PEFT's adapter_config.json
  return report(alone, trained(2) == alone);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
