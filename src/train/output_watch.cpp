#include "train/output_watch.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace sluice {

void OutputWatch::produced(const Action& action, const Values& outputs,
                           std::vector<at::Tensor>& /*handed_on*/) {
  if (!is_on_ || action.kind != ActionKind::kForward) return;
  if (!program_.flow.is_last(action.stage, action.microbatch)) return;
  Values& kept = of_microbatch_[action.microbatch];
  for (const std::string& name : names_) {
    const at::Tensor& tensor = outputs.get(name);
    kept.set(name, tensor.defined() ? tensor.detach() : tensor);
  }
}

Work<void> OutputWatch::gather(const Group& ranks) {
  using Gathering = Work<std::vector<at::Tensor>>;
  auto gatherings = std::make_shared<std::vector<Gathering>>();
  for (int m = 0; m < program_.num_microbatches; ++m) {
    const auto own = of_microbatch_.find(m);
    for (const std::string& name : names_) {
      // Receivers share a sent tensor's storage, so send and keep copies.
      at::Tensor given;
      if (own != of_microbatch_.end() && own->second.get(name).defined())
        given = own->second.get(name).clone();
      gatherings->push_back(ranks.all_gather(given));
    }
  }
  return Work<void>([this, gatherings] {
    auto gathering = gatherings->begin();
    for (int m = 0; m < program_.num_microbatches; ++m) {
      for (const std::string& name : names_) {
        const std::vector<at::Tensor> of_ranks = (gathering++)->wait();
        const auto giver = std::find_if(of_ranks.begin(), of_ranks.end(),
                                        [](const at::Tensor& tensor) { return tensor.defined(); });
        of_microbatch_[m].set(name, giver == of_ranks.end() ? at::Tensor() : giver->clone());
      }
    }
  });
}

std::vector<Values> OutputWatch::take() {
  std::vector<Values> outputs;
  for (auto& [microbatch, values] : of_microbatch_) outputs.push_back(std::move(values));
  of_microbatch_.clear();
  return outputs;
}

}  // namespace sluice
