// Native families divided into slices, on fused nodes and on plain operators: the same bits for
// every degree with rows divided and whole, and as far from the truth as without slices.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
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
#include "sluice/model.h"
#include "sluice/parts/chunk.h"

namespace sluice::test::sliced_families_test {
namespace {

struct Family {
  std::string name, type, more;
  std::int64_t key_value_heads = 4;
};

std::ostream& operator<<(std::ostream& out, const Family& family) { return out << family.name; }

// Heads of 16 channels, which fused nodes take; widths that slices do not divide. more: keys of the
// family.
ModelSpec spec_of(const Family& family, bool by_blocks) {
  const std::string text =
      R"({"model_type": ")" + family.type +
      R"(", "vocab_size": 99, "hidden_size": 64, "intermediate_size": 90, "num_hidden_layers": 2,
    "num_attention_heads": )" +
      std::to_string((family.type == "gpt_neox" ? 1 : 2) * family.key_value_heads) +
      R"(, "num_key_value_heads": )" + std::to_string(family.key_value_heads) +
      R"(, "head_dim": 16, "max_position_embeddings": 64, "initializer_range": 0.2)" + family.more +
      "}";
  return parse_model_spec(text, family.name + ".json",
                          {.loss_chunks = by_blocks ? LossChunks::kOn : LossChunks::kOff});
}

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
    {"gpt_neox", "gpt_neox", R"(, "hidden_act": "gelu")"},
    {"gpt_neox in turn", "gpt_neox", R"(, "hidden_act": "gelu", "use_parallel_residual": false)"},
};

// The values of a model's auxiliary loss.
std::vector<std::string> balance_values(const Model& model) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers)
    for (const std::string& name : layer.writes)
      if (!model.auxiliary.empty() && name != "hidden" && name != model.outputs[0])
        names.push_back(name);
  return names;
}

// Chunk of the whole model, with initial values that are the same for every layout.
Chunk chunk_of(const ModelSpec& spec, const SliceGroup& tp, bool fused, at::ScalarType dtype) {
  const detail::SliceGroupScope scope(tp);
  Model model = causal_lm(spec, {.dtype = dtype, .fused = fused});
  std::vector<std::string> outputs = model.outputs;
  for (const std::string& name : balance_values(model)) outputs.push_back(name);
  Chunk chunk(model.layers, 0, {}, outputs);
  share_tied_storage({&chunk});
  if (dtype == at::kFloat) {
    initialize_parameters(chunk, 5);
  } else {
    Chunk narrow = chunk_of(spec, tp, fused, at::kFloat);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < chunk.parameters().size(); ++i)
      chunk.parameters()[i].tensor.copy_(narrow.parameters()[i].tensor);
    return chunk;
  }
  // Ones and zeros would hide who adds what.
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

// The whole gradient, of those of all ranks.
at::Tensor whole_gradient(const ParameterInfo& parameter, const SliceGroup& tp) {
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
  bool fused = true, by_blocks = true, packed = false;
  at::ScalarType dtype = at::kFloat;
};

FoundByName losses_and_gradients(const Family& family, const Way& way, const SliceGroup& tp) {
  const ModelSpec spec = spec_of(family, way.by_blocks && way.fused);
  Chunk chunk = chunk_of(spec, tp, way.fused, way.dtype);
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
    const Values out = chunk.forward({}, batch, 1, 1, microbatch);
    at::Tensor loss = model.loss(out, batch).loss;
    for (const std::string& name : balance_values(model))
      loss = loss + out.get(name) * model.auxiliary[0].scale;
    loss.backward();
    found["loss " + std::to_string(microbatch)] = {loss};
  }
  for (const ParameterInfo& parameter : chunk.parameters())
    if (parameter.tied_to.empty()) found[parameter.name] = {whole_gradient(parameter, tp)};
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

class SlicedFamiliesTest : public testing::TestWithParam<Family> {};

TEST_P(SlicedFamiliesTest, HaveTheSameBitsForEveryDegreeWithRowsDividedAndWhole) {
  for (const Way& way :
       {Way{}, Way{.by_blocks = false}, Way{.fused = false}, Way{.packed = true}}) {
    for (const int slices : {2, 4}) {
      const Whole one = whole_of(GetParam(), way, {1, slices, false});
      ASSERT_GT(one.size(), 5U);
      for (const int degree : {1, 2, 4}) {
        if (degree > slices) continue;
        for (const bool sequence : {false, true}) {
          const SliceLayout layout{degree, slices, sequence};
          const Whole other = whole_of(GetParam(), way, layout);
          for (const auto& [name, tensor] : one) {
            EXPECT_TRUE(same_bits(tensor, other.at(name)))
                << name << ", " << name_of(layout) << (way.fused ? ", fused" : ", plain")
                << (way.packed ? ", packed" : "");
          }
        }
      }
    }
  }
}

TEST_P(SlicedFamiliesTest, AreAsFarFromTheTruthAsWithoutSlices) {
  const Whole truth = whole_of(GetParam(), {.fused = false, .dtype = at::kDouble}, {1, 1, false});
  for (const bool fused : {true, false}) {
    const Whole one = whole_of(GetParam(), {.fused = fused}, {1, 1, false}),
                sliced = whole_of(GetParam(), {.fused = fused}, {2, 4, true});
    double of_one = 0, of_sliced = 0;
    for (const auto& [name, tensor] : truth) {
      EXPECT_LT(distance(sliced.at(name), one.at(name)), 2e-6)
          << name << (fused ? ", fused" : ", plain");
      of_one += std::pow(distance(one.at(name), tensor), 2);
      of_sliced += std::pow(distance(sliced.at(name), tensor), 2);
    }
    EXPECT_GT(of_one, 0);
    EXPECT_LT(std::sqrt(of_sliced), 1.1 * std::sqrt(of_one)) << (fused ? "fused" : "plain");
  }
}

INSTANTIATE_TEST_SUITE_P(, SlicedFamiliesTest, testing::ValuesIn(kFamilies),
                         [](const testing::TestParamInfo<Family>& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice::test::sliced_families_test
