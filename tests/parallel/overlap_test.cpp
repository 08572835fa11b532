// When ranks sum the gradient of a fused node's input, the sum must overlap the gradients of the
// weights. The bits must be the same as without overlap.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "comm/group_backend.h"
#include "layer/weight_sums.h"
#include "ops/attention_block.h"
#include "ops/feed_forward_block.h"
#include "ops/linear_cross_entropy_block.h"
#include "parallel/slice_ranks.h"

namespace sluice::test::overlap_test {
namespace {

constexpr std::int64_t kHidden = 32, kInner = 64, kHeads = 4, kHeadDim = 16, kClasses = 48;
constexpr std::int64_t kBatch = 2, kLength = 8;

using Log = std::vector<std::string>;

class Recorder : public GroupBackend {
 public:
  Recorder(Group group, Log& log) : group_(std::move(group)), log_(log) {}
  int rank() const override { return group_.rank(); }
  const std::vector<int>& members() const override { return group_.members(); }
  bool spans_processes() const override { return false; }
  Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) override {
    log_.push_back("start " + note.call);
    pieces.resize(members().size());
    auto notes = std::make_shared<Work<std::vector<std::string>>>(group_.all_gather(note.call));
    return group_.all_to_all(std::move(pieces))
        .then([this, notes, call = note.call](std::vector<at::Tensor> given) {
          log_.push_back("wait " + call);
          Exchanged exchanged{.notes = {}, .pieces = std::move(given)};
          for (std::string& text : notes->wait()) exchanged.notes.push_back({std::move(text), {}});
          return exchanged;
        });
  }
  Work<Exchanged> exchange_twice(GroupNote, std::vector<at::Tensor>,
                                 std::function<Gift(Exchanged)>) override {
    throw Error(ErrorKind::kInternal, {.what = "no ranks are in other processes"});
  }
  std::shared_ptr<GroupBackend> split(std::vector<int>) override { return nullptr; }

 private:
  Group group_;
  Log& log_;
};

// Accumulates nothing, but logs the request for each weight.
class HeardWeights : public WeightSums {
 public:
  explicit HeardWeights(Log& log) : log_(log) {}
  SumTarget target(const torch::autograd::Node* /*leaf*/) override {
    log_.push_back("weight");
    return {};
  }

 private:
  Log& log_;
};

struct Node {
  std::vector<at::Tensor> weights;
  std::function<at::Tensor(const at::Tensor& x)> run;
};

at::Tensor own(const char* name, at::IntArrayRef sizes, const SliceGroup& tp) {
  return drawn(name + std::to_string(tp.group().rank()), sizes, 0.2).requires_grad_();
}

ops::NormWeights norm_weights() {
  return {.kind = ops::NormWeights::Kind::kRms,
          .weight = at::ones({kHidden}).requires_grad_(),
          .eps = 1e-5};
}

Node attention(const SliceGroup& tp) {
  const std::int64_t width = kHeads / 2 * kHeadDim;
  const at::Tensor q = own("q", {width, kHidden}, tp), k = own("k", {width, kHidden}, tp),
                   v = own("v", {width, kHidden}, tp), o = own("o", {kHidden, width}, tp);
  return {{q, k, v, o}, [=](const at::Tensor& x) {
            return ops::attention_block(x,
                                        {.half = {.before = norm_weights(),
                                                  .projections = {{q}, {k}, {v}},
                                                  .last = {o},
                                                  .slices = tp},
                                         .num_heads = kHeads,
                                         .num_key_value_heads = kHeads,
                                         .head_dim = kHeadDim},
                                        {});
          }};
}

Node feed_forward(const SliceGroup& tp) {
  const at::Tensor gate = own("gate", {kInner / 2, kHidden}, tp),
                   up = own("up", {kInner / 2, kHidden}, tp),
                   down = own("down", {kHidden, kInner / 2}, tp);
  return {{gate, up, down}, [=](const at::Tensor& x) {
            return ops::feed_forward_block(x, {.half = {.before = norm_weights(),
                                                        .projections = {{gate}, {up}},
                                                        .last = {down},
                                                        .slices = tp},
                                               .width = kInner});
          }};
}

template <std::int64_t block>
Node loss(const SliceGroup& tp) {
  const at::Tensor weight = own("head", {kClasses / 2, kHidden}, tp);
  const at::Tensor labels = at::arange(kBatch * kLength, at::kLong);
  return {{weight}, [=](const at::Tensor& x) {
            return ops::linear_cross_entropy_block(
                x, {.linear = {weight}, .block = block, .slices = tp, .classes = kClasses}, labels);
          }};
}

std::ptrdiff_t place_of(const Log& log, const std::string& what, const std::string& in = "") {
  const auto found = std::find_if(log.begin(), log.end(), [&](const std::string& line) {
    return line.starts_with(what) && line.find(in) != std::string::npos;
  });
  EXPECT_NE(found, log.end()) << what << " " << in;
  return found - log.begin();
}

void expect_overlap(const std::function<Node(const SliceGroup&)>& make) {
  for (const bool sequence : {false, true}) {
    on_slice_ranks({2, 2, sequence}, [&](const SliceGroup& tp) -> FoundByName {
      Log log;
      const SliceGroup recorded(Group(std::make_shared<Recorder>(tp.group(), log)),
                                {.degree = 2, .slices = 2, .sequence = sequence});
      const Node node = make(recorded);
      const at::Tensor x = drawn("x", {kBatch, kLength / (sequence ? 2 : 1), kHidden});
      const std::string sum = sequence ? "reduce_scatter" : "all_reduce";

      const auto gradients = [&](bool halves_apart) {
        const at::Tensor input = x.clone().requires_grad_();
        const at::Tensor y = node.run(input);
        const at::Tensor dy = at::full_like(y, 1.0 / 13);
        log.clear();
        HeardWeights heard(log);
        const WeightSumsScope scope(&heard);
        std::vector<at::Tensor> all = {input};
        if (halves_apart) {
          const auto of_input = torch::autograd::grad({y}, all, {dy}, /*retain_graph=*/true);
          auto found = torch::autograd::grad({y}, node.weights, {dy});
          found.insert(found.begin(), of_input[0]);
          return found;
        }
        all.insert(all.end(), node.weights.begin(), node.weights.end());
        return torch::autograd::grad({y}, all, {dy});
      };
      const auto together = gradients(false);
      EXPECT_LT(place_of(log, "start ", sum), place_of(log, "weight"));
      EXPECT_EQ(std::count(log.begin(), log.begin() + place_of(log, "wait ", sum), "weight"),
                static_cast<std::ptrdiff_t>(node.weights.size()));
      const auto apart = gradients(true);
      EXPECT_LT(place_of(log, "wait ", sum), place_of(log, "weight"));
      for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(same_bits(apart[i], together[i]));
      return {};
    });
  }
}

TEST(OverlapTest, WeightsOfAttentionAreComputedWhileTheGradientOfItsInputAddsUp) {
  expect_overlap(attention);
}

TEST(OverlapTest, WeightsOfAFeedForwardAreComputedWhileTheGradientOfItsInputAddsUp) {
  expect_overlap(feed_forward);
}

TEST(OverlapTest, TheWeightOfAHeadIsComputedWhileTheGradientOfItsInputAddsUp) {
  expect_overlap(loss<0>);
  expect_overlap(loss<16>);
}

}  // namespace
}  // namespace sluice::test::overlap_test
