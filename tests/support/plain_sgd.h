#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "sluice/parts/group.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice::test {

// SGD on the summed gradients, for tests of the executor. Gradients of ties are summed in layer
// order.
class PlainSgd final : public StepOps {
 public:
  // The constructor is collective if the program has ties.
  PlainSgd(std::vector<Stage*> stages, const Program& program, const Group& world, double lr)
      : stages_(std::move(stages)), program_(program), lr_(lr) {
    for (const TieGroup& tie : program.tie_groups) {
      const bool is_member = std::any_of(tie.stages.begin(), tie.stages.end(), [&](int stage) {
        return program.stage_map.rank_of(stage) == world.rank();
      });
      tie_groups_.push_back(world.split(is_member ? 0 : -1));
    }
  }
  Work<void> unshard(int) override { return Work<void>::done(); }
  void reshard(int) override {}
  Work<void> reduce_gradients(int /*stage*/, std::optional<int> /*microbatch*/) override {
    return Work<void>::done();
  }
  Work<void> reduce_tied(int group) override {
    const TieGroup& tie = program_.tie_groups[group];
    std::map<int, at::Tensor> by_layer;
    for_uses(tie.name,
             [&](ParameterInfo& info, at::Tensor& gradient) { by_layer[info.layer] = gradient; });
    std::string layers;
    std::vector<at::Tensor> mine;
    for (auto& [layer, gradient] : by_layer) {
      layers += std::to_string(layer) + " ";
      mine.push_back(gradient);
    }
    const Group& ranks = tie_groups_[group];
    const auto all_layers = ranks.all_gather(layers).wait();
    const auto all = ranks.all_gather(at::stack(mine)).wait();
    std::map<int, at::Tensor> sorted;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::istringstream text(all_layers[i]);
      int layer = 0;
      for (std::int64_t k = 0; text >> layer; ++k) sorted[layer] = all[i][k];
    }
    at::Tensor sum;
    for (auto& [layer, gradient] : sorted) sum = sum.defined() ? sum + gradient : gradient.clone();
    for_uses(tie.name, [&](ParameterInfo&, at::Tensor& gradient) { gradient = sum; });
    summed_.insert(tie.name);
    return Work<void>::done();
  }
  Work<void> reduce_loss() override { return Work<void>::done(); }
  Work<void> gather_outputs() override { return Work<void>::done(); }
  Work<void> reduce_norm() override { return Work<void>::done(); }
  // There is no norm here, only two pieces of idle work that do nothing.
  IdleWork partial_norm(int) override {
    return [left = 2]() mutable { return --left > 0; };
  }
  Work<void> update(int) override { throw std::logic_error("PlainSgd updates all stages at once"); }
  void optimizer_step() override {
    if (lr_ == 0) return;
    at::NoGradGuard no_grad;
    std::map<std::string, std::map<int, at::Tensor>> ties;
    std::map<std::string, at::Tensor> tensors;
    for (Stage* stage : stages_) {
      for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
        ParameterInfo& info = stage->parameters()[i];
        if (!stage->gradient(i).defined()) continue;
        const std::string name = info.tied_to.empty() ? info.name : info.tied_to;
        ties[name][info.layer] = stage->gradient(i);
        tensors[name] = info.tensor;
      }
    }
    for (auto& [name, uses] : ties) {
      at::Tensor sum;
      for (auto& [layer, gradient] : uses) {
        sum = sum.defined() && !summed_.count(name) ? sum + gradient : gradient;
      }
      tensors[name].sub_(sum * lr_);
    }
    summed_.clear();
  }

 private:
  template <typename Use>
  void for_uses(const std::string& name, Use use) {
    for (Stage* stage : stages_) {
      for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
        ParameterInfo& info = stage->parameters()[i];
        if (info.name == name || info.tied_to == name) use(info, stage->gradient(i));
      }
    }
  }
  std::vector<Stage*> stages_;
  const Program& program_;
  double lr_;
  std::set<std::string> summed_;
  std::vector<Group> tie_groups_;
};

}  // namespace sluice::test
