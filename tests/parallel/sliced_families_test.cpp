// Native families divided into slices, with fused nodes and with plain operators. The bits must be
// the same for every degree, with rows divided or whole. Rounding errors must be like those of one
// slice.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layer/initialize_chunks.h"
#include "parallel/slice_group_scope.h"
#include "parallel/slice_ranks.h"
#include "parallel/tree_exchange.h"
#include "plan/slices.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"
#include "sluice/model.h"
#include "sluice/parts/chunk.h"

namespace sluice::test::sliced_families_test {
namespace {

struct Family {
  std::string name, type, more;
  std::int64_t key_value_heads = 4, vocabulary = 99;
};

std::ostream& operator<<(std::ostream& out, const Family& family) { return out << family.name; }

bool has_one_kind_of_heads(const Family& family) {
  return family.type == "gpt_neox" || family.type == "gpt2";
}

// Heads have 16 channels, which fused nodes support. The slices do not divide the widths evenly.
// `more` adds keys of the family.
ModelSpec spec_of(const Family& family, LossChunks loss_chunks, bool loss_in_head) {
  const std::int64_t heads = (has_one_kind_of_heads(family) ? 1 : 2) * family.key_value_heads;
  const std::string text =
      R"({"model_type": ")" + family.type +
      R"(", "hidden_size": 64, "intermediate_size": 90, "num_hidden_layers": 2,
    "num_attention_heads": )" +
      std::to_string(heads) + R"(, "num_key_value_heads": )" +
      std::to_string(family.key_value_heads) + R"(, "vocab_size": )" +
      std::to_string(family.vocabulary) +
      R"(, "head_dim": 16, "max_position_embeddings": 64, "initializer_range": 0.2)" + family.more +
      "}";
  return parse_model_spec(text, family.name + ".json",
                          {.loss_chunks = loss_chunks, .loss_in_head = loss_in_head});
}

constexpr const char* kPlainGpt2 =
    R"(, "n_inner": 90, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0)";

const std::vector<Family> kFamilies = {
    {"llama", "llama", R"(, "attention_bias": true, "mlp_bias": true)"},
    {"tied", "llama", R"(, "tie_word_embeddings": true)"},
    {"qwen3", "qwen3", ""},
    {"gemma2", "gemma2",
     R"(, "query_pre_attn_scalar": 16, "sliding_window": 4, "final_logit_softcapping": 3.0)"},
    {"granite", "granite",
     R"(, "residual_multiplier": 0.5, "attention_multiplier": 0.25, "logits_scaling": 4.0)"},
    {"phi3", "phi3", R"(, "pad_token_id": null, "sliding_window": null)"},
    {"starcoder2", "starcoder2", R"(, "sliding_window": null)"},
    {"mixtral", "mixtral",
     R"(, "num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": true,
        "router_aux_loss_coef": 0.5)"},
    {"qwen3_moe", "qwen3_moe",
     R"(, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "mlp_only_layers": [1])"},
    {"gpt2", "gpt2", kPlainGpt2},
    {"gpt2 untied", "gpt2", std::string(kPlainGpt2) + R"(, "tie_word_embeddings": false)"},
    {"gpt_neox", "gpt_neox", R"(, "hidden_act": "gelu")"},
    {"gpt_neox in turn", "gpt_neox", R"(, "hidden_act": "gelu", "use_parallel_residual": false)"},
};

const std::vector<Family> kWithDropout = {
    {"gpt2 embedding", "gpt2",
     R"(, "n_inner": 90, "embd_pdrop": 0.3, "attn_pdrop": 0.0, "resid_pdrop": 0.0)"},
    {"gpt2 attention", "gpt2",
     R"(, "n_inner": 90, "embd_pdrop": 0.0, "attn_pdrop": 0.3, "resid_pdrop": 0.0)"},
    {"gpt2 residual", "gpt2",
     R"(, "n_inner": 90, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.3)"},
    {"gpt2", "gpt2", ""},
    {"llama", "llama", R"(, "attention_dropout": 0.2)"},
    {"gemma2", "gemma2", R"(, "query_pre_attn_scalar": 16, "attention_dropout": 0.2)"},
    {"phi3", "phi3", R"(, "pad_token_id": null, "sliding_window": null, "attention_dropout": 0.2)"},
    {"starcoder2", "starcoder2",
     R"(, "sliding_window": null, "residual_dropout": 0.2, "embedding_dropout": 0.2)"},
    {"gpt_neox", "gpt_neox",
     R"(, "hidden_act": "gelu", "attention_dropout": 0.2, "hidden_dropout": 0.2)"},
};

std::vector<std::string> balance_values(const Model& model) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers)
    for (const std::string& name : layer.writes)
      if (!model.auxiliary.empty() && name != "hidden" && name != model.outputs[0])
        names.push_back(name);
  return names;
}

Chunk chunk_of(const ModelSpec& spec, const SliceGroup& tp, bool fused, at::ScalarType dtype,
               std::uint64_t seed = 5) {
  const detail::SliceGroupScope scope(tp);
  Model model = causal_lm(spec, {.dtype = dtype, .fused = fused});
  std::vector<std::string> outputs = model.outputs;
  for (const std::string& name : balance_values(model)) outputs.push_back(name);
  Chunk chunk(model.layers, 0, {}, outputs);
  share_tied_storage({&chunk});
  if (dtype == at::kFloat) {
    initialize_parameters(chunk, seed);
  } else {
    Chunk narrow = chunk_of(spec, tp, fused, at::kFloat, seed);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < chunk.parameters().size(); ++i)
      chunk.parameters()[i].tensor.copy_(narrow.parameters()[i].tensor);
    return chunk;
  }
  // With ones and zeros, a wrong sum could go unnoticed.
  const at::NoGradGuard no_grad;
  for (const ParameterInfo& parameter : chunk.parameters()) {
    if (parameter.global_shape.size() > 1) continue;
    at::Tensor more = at::sin(at::arange(parameter.global_shape[0], at::kFloat) * 0.7) * 0.1;
    if (parameter.split && !parameter.is_whole()) {
      std::vector<at::Tensor> own;
      for (const detail::Cut& cut : detail::cuts_of(parameter.global_shape, *parameter.split,
                                                    parameter.slices, parameter.name))
        own.push_back(more.slice(0, cut.begin, cut.end));
      more = at::cat(own);
    }
    at::Tensor tensor = parameter.tensor;
    tensor.add_(more);
  }
  return chunk;
}

// Adds the gradients of a weight that slices share, which has a variable for each slice.
at::Tensor sum_of_variables(const Chunk& chunk, const ParameterInfo& parameter,
                            const SliceGroup& tp) {
  std::vector<at::Tensor> own, all;
  for (const ParameterInfo& other : chunk.parameters())
    if (other.name == parameter.name || other.tied_to == parameter.name)
      own.push_back(other.tensor.grad());
  const at::Tensor sum = detail::tree_sum(own);
  if (tp.degree() == 1) return sum;
  return detail::tree_sum(tp.group().all_gather(sum).wait());
}

at::Tensor whole_gradient(const Chunk& chunk, const ParameterInfo& parameter,
                          const SliceGroup& tp) {
  if (!parameter.summed.empty()) return sum_of_variables(chunk, parameter, tp);
  const at::Tensor own = parameter.tensor.grad();
  if (parameter.is_whole() || !own.defined()) return own;
  at::Tensor whole = at::empty(parameter.global_shape, own.options());
  const auto parts = tp.group().all_gather(own).wait();
  for (std::size_t member = 0; member < parts.size(); ++member) {
    std::int64_t before = 0;
    for (const detail::Cut& cut :
         detail::cuts_of(parameter.global_shape, *parameter.split,
                         tp.slices_of(static_cast<int>(member)), parameter.name)) {
      whole.slice(parameter.split->dim, cut.begin, cut.end)
          .copy_(parts[member].slice(parameter.split->dim, before, before + cut.size()));
      before += cut.size();
    }
  }
  return whole;
}

struct Way {
  bool fused = true;
  LossChunks loss_chunks = LossChunks::kOn;  // affects only fused operators
  bool loss_in_head = true, packed = false;
  at::ScalarType dtype = at::kFloat;
  std::int64_t step = 1;
  std::uint64_t seed = 5;  // of the weights
};

std::string name_of(const Way& way) {
  return std::string(way.fused ? ", fused" : ", plain") +
         (way.loss_chunks == LossChunks::kOn ? "" : ", no blocks") +
         (way.loss_in_head ? "" : ", logits of all") + (way.packed ? ", packed" : "");
}

FoundByName losses_and_gradients(const Family& family, const Way& way, const SliceGroup& tp) {
  const ModelSpec spec =
      spec_of(family, way.fused ? way.loss_chunks : LossChunks::kOff, way.loss_in_head);
  Chunk chunk = chunk_of(spec, tp, way.fused, way.dtype, way.seed);
  const Model model = causal_lm(spec, {.dtype = way.dtype, .fused = way.fused});
  FoundByName found;
  for (const std::int64_t microbatch : {0, 1}) {
    const std::int64_t length = 8 + 4 * microbatch;
    const at::Tensor ids =
        (at::arange(3 * length, at::kLong) * 7 + 5 * microbatch).remainder(97).view({3, length});
    at::Tensor labels = ids.clone();
    labels.slice(1, 0, 2).fill_(-100);
    Values batch({{"input_ids", ids},
                  {"labels", labels},
                  {"attention_mask", at::Tensor()},
                  {"position_ids", at::Tensor()}});
    if (way.packed) {
      at::Tensor positions = at::arange(length, at::kLong).repeat({3, 1});
      positions.slice(1, 3).sub_(3);
      batch.set("position_ids", positions);
    }
    const Values out = chunk.forward({}, batch, 1, way.step, microbatch);
    at::Tensor loss = model.loss(out, batch).loss;
    for (const std::string& name : balance_values(model))
      loss = loss + out.get(name) * model.auxiliary[0].scale;
    (loss / 13).backward();  // the loss of a step is a mean
    found["loss " + std::to_string(microbatch)] = {loss};
  }
  for (const ParameterInfo& parameter : chunk.parameters())
    if (parameter.tied_to.empty()) found[parameter.name] = {whole_gradient(chunk, parameter, tp)};
  return found;
}

Whole whole_of(const Family& family, const Way& way, const SliceLayout& layout) {
  return on_slice_ranks(
      layout, [&](const SliceGroup& tp) { return losses_and_gradients(family, way, tp); });
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  return ((a.to(at::kDouble) - wide).norm() / wide.norm().clamp_min(1e-30)).item<double>();
}

class SlicedDropoutTest : public testing::TestWithParam<Family> {};
class SlicedFamiliesTest : public testing::TestWithParam<Family> {};
class SlicedAccuracyTest : public testing::TestWithParam<Family> {};

void expect_same_bits_for_every_degree(const Family& family) {
  for (const Way& way :
       {Way{}, Way{.loss_chunks = LossChunks::kOff}, Way{.fused = false}, Way{.packed = true},
        Way{.loss_chunks = LossChunks::kOff, .loss_in_head = false}}) {
    for (const int slices : {2, 4}) {
      const Whole one = whole_of(family, way, {1, slices, false});
      ASSERT_GT(one.size(), 5U);
      for (const int degree : {1, 2, 4}) {
        if (degree > slices) continue;
        for (const bool sequence : {false, true}) {
          const SliceLayout layout{degree, slices, sequence};
          const Whole other = whole_of(family, way, layout);
          for (const auto& [name, tensor] : one) {
            EXPECT_TRUE(same_bits(tensor, other.at(name)))
                << name << ", " << name_of(layout) << name_of(way);
          }
        }
      }
    }
  }
}

TEST_P(SlicedFamiliesTest, HaveTheSameBitsForEveryDegreeWithRowsDividedAndWhole) {
  expect_same_bits_for_every_degree(GetParam());
}

TEST_P(SlicedDropoutTest, HasTheSameBitsForEveryDegreeWithRowsDividedAndWhole) {
  expect_same_bits_for_every_degree(GetParam());
}

TEST_P(SlicedDropoutTest, DropsOtherNumbersInEveryStep) {
  const SliceLayout layout{2, 4, true};
  const Whole first = whole_of(GetParam(), {}, layout);
  const Whole second = whole_of(GetParam(), {.step = 2}, layout);
  EXPECT_FALSE(same_bits(first.at("loss 0"), second.at("loss 0")));
}

struct Distances {
  double one_slice = 0, sliced = 0;
  double apart = 0;
  void add(const Distances& other) {
    one_slice += other.one_slice;
    sliced += other.sliced;
    apart += other.apart;
  }
  // Returns by what fraction the slices are farther from float64 than one slice.
  double excess() const { return std::sqrt(sliced / one_slice) - 1; }
};

// One seed is one sample of the distribution of rounding errors, and another instruction set gives
// another sample. The mean over 32 seeds is nearly the same on all processors.
TEST_P(SlicedAccuracyTest, RoundingErrorsAreThoseOfOneSlice) {
  constexpr std::uint64_t kSeeds = 32;
  const std::vector<Way> ways = {Way{}, Way{.loss_chunks = LossChunks::kOff}, Way{.fused = false}};
  std::vector<std::map<std::string, Distances>> found(ways.size());
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Whole truth =
        whole_of(GetParam(), {.fused = false, .dtype = at::kDouble, .seed = seed}, {1, 1, false});
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way way = ways[i];
      way.seed = seed;
      const Whole one = whole_of(GetParam(), way, {1, 1, false}),
                  sliced = whole_of(GetParam(), way, {1, 4, false});
      for (const auto& [name, tensor] : truth) {
        found[i][name].add({.one_slice = std::pow(distance(one.at(name), tensor), 2),
                            .sliced = std::pow(distance(sliced.at(name), tensor), 2),
                            .apart = std::pow(distance(sliced.at(name), one.at(name)), 2)});
      }
    }
  }
  for (std::size_t i = 0; i < ways.size(); ++i) {
    Distances all;
    for (const auto& [name, distances] : found[i]) {
      all.add(distances);
      const std::string what = name + name_of(ways[i]);
      EXPECT_LT(std::sqrt(distances.apart / kSeeds), 4e-6) << what;
      // A loss is a single number with one or two roundings, so 32 samples are too few to compare.
      if (name.starts_with("loss")) continue;
      ASSERT_GT(distances.one_slice, 0) << what;
      EXPECT_LT(distances.excess(), 0.1) << what;
    }
    EXPECT_LT(all.excess(), 0.08) << name_of(ways[i]);
  }
}

std::int64_t largest_result(const ModelSpec& spec, bool fused) {
  static std::atomic<std::int64_t> most;
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) { return std::unique_ptr<at::ObserverContext>(); },
          [](const at::RecordFunction& call, at::ObserverContext*) {
            for (const c10::IValue& value : call.outputs()) {
              if (!value.isTensor() || !value.toTensor().defined()) continue;
              const std::int64_t size = value.toTensor().numel();
              for (std::int64_t seen = most;
                   seen < size && !most.compare_exchange_weak(seen, size);)
                ;
            }
          })
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  on_slice_ranks({4, 4, true}, [&](const SliceGroup& tp) -> FoundByName {
    Chunk chunk = chunk_of(spec, tp, fused, at::kFloat);
    const Model model = causal_lm(spec, {.fused = fused});
    tp.group().barrier().wait();
    most = 0;  // ignores initialization, which draws whole tensors
    tp.group().barrier().wait();
    const at::Tensor ids = at::arange(3 * 64, at::kLong).remainder(97).view({3, 64});
    const Values batch({{"input_ids", ids},
                        {"labels", ids},
                        {"attention_mask", at::Tensor()},
                        {"position_ids", at::Tensor()}});
    model.loss(chunk.forward({}, batch, 1, 1, 0), batch).loss.backward();
    return {};
  });
  at::removeCallback(handle);
  return most;
}

TEST(SlicedHeadTest, NoRankHasTheLogitsOfOthersWhereTheHeadHasTheLoss) {
  const Family family{"llama", "llama", "", 4, 1000};
  const std::int64_t logits = std::int64_t{3} * 64 * 1000;
  for (const bool fused : {true, false}) {
    for (const LossChunks chunks : {LossChunks::kOff, LossChunks::kOn})
      EXPECT_LE(largest_result(spec_of(family, chunks, true), fused), logits / 4) << fused;
    EXPECT_EQ(largest_result(spec_of(family, LossChunks::kOff, false), fused), logits) << fused;
  }
}

TEST(SlicedHeadTest, RefusesLabelsOfAnotherLengthWithDividedRows) {
  const ModelSpec spec = spec_of({"llama", "llama", ""}, LossChunks::kOn, true);
  on_slice_ranks({4, 4, true}, [&](const SliceGroup& tp) -> FoundByName {
    Chunk chunk = chunk_of(spec, tp, /*fused=*/true, at::kFloat);
    const at::Tensor ids = at::arange(3 * 64, at::kLong).remainder(97).view({3, 64});
    const Values batch({{"input_ids", ids},
                        {"labels", ids.narrow(1, 0, 16)},
                        {"attention_mask", at::Tensor()},
                        {"position_ids", at::Tensor()}});
    EXPECT_THROW(chunk.forward({}, batch, 1, 1, 0), Error);
    return {};
  });
}

// Counts the rows of all products of experts.
std::int64_t expert_rows(const SliceLayout& layout) {
  static std::atomic<std::int64_t> rows;
  const ModelSpec spec =
      spec_of({"mixtral", "mixtral", R"(, "num_local_experts": 4, "num_experts_per_tok": 2)"},
              LossChunks::kOff, true);
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
            const c10::ArrayRef<const c10::IValue> inputs = call.inputs();
            // Width 90 is the experts' only.
            if (std::string(call.name()) == "aten::linear" && inputs[1].toTensor().size(1) == 90)
              rows += inputs[0].toTensor().size(0);
            return nullptr;
          })
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  on_slice_ranks(layout, [&](const SliceGroup& tp) -> FoundByName {
    Chunk chunk = chunk_of(spec, tp, /*fused=*/false, at::kFloat);
    tp.group().barrier().wait();
    rows = 0;
    tp.group().barrier().wait();
    const at::Tensor ids = at::arange(3 * 16, at::kLong).remainder(97).view({3, 16});
    const at::NoGradGuard no_grad;
    chunk.forward({},
                  Values({{"input_ids", ids},
                          {"labels", ids},
                          {"attention_mask", at::Tensor()},
                          {"position_ids", at::Tensor()}}),
                  1, 1, 0);
    return {};
  });
  at::removeCallback(handle);
  return rows;
}

TEST(SlicedExpertsTest, ARankComputesTheRowsOfItsOwnSlices) {
  constexpr std::int64_t kPairs = std::int64_t{3} * 16 * 2 * 2;  // tokens x choices x layers
  EXPECT_EQ(expert_rows({1, 1, false}), kPairs);
  for (const bool sequence : {false, true}) EXPECT_EQ(expert_rows({4, 4, sequence}), kPairs);
}

std::string test_name(const testing::TestParamInfo<Family>& family) {
  std::string name = family.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(, SlicedFamiliesTest, testing::ValuesIn(kFamilies), test_name);
INSTANTIATE_TEST_SUITE_P(, SlicedAccuracyTest, testing::ValuesIn(kFamilies), test_name);
INSTANTIATE_TEST_SUITE_P(, SlicedDropoutTest, testing::ValuesIn(kWithDropout), test_name);

}  // namespace
}  // namespace sluice::test::sliced_families_test
