#include <torch/csrc/autograd/autograd.h>

#include "layer/initialize_chunks.h"
#include "model/families.h"
#include "model/support.h"
#include "parallel/slice_group_scope.h"
#include "parallel/slice_ranks.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace sliced_families_test {
namespace {

const std::vector<std::string> kModels = {
    "models/llama_untied",           "models/llama_tied",          "models_extra/grouped_query",
    "models_extra/biases",           "models_extra/qwen2",         "models_extra/qwen2_tied",
    "models_extra/mistral",          "models_extra/qwen3_windows", "models_extra/gemma2",
    "models_extra/gemma3",           "models_extra/granite",       "models_extra/smollm3",
    "models_extra/phi3_window",      "models_extra/starcoder2",    "models_extra/gpt_neox",
    "models_extra/tied_with_padding"};

ModelSpec spec_with_heads(const std::string& model, int heads, int key_value_heads) {
  nlohmann::json config = nlohmann::json::parse(
      read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/" + model).config_text);
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = key_value_heads;
  config["head_dim"] = 4;
  return parse_model_spec(config.dump(), "config.json");
}

ModelSpec spec_of(const std::string& model, bool loss_in_head = false) {
  nlohmann::json config = nlohmann::json::parse(
      read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/" + model).config_text);
  // Dropout depends on the number of slices, so turn it off.
  for (const char* key : {"attention_dropout", "hidden_dropout", "residual_dropout",
                          "embedding_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop"})
    if (config.contains(key)) config[key] = 0.0;
  // Two slices need at least two key-value heads.
  if (model.ends_with("gpt_neox")) config["num_attention_heads"] = 4, config["rotary_pct"] = 1.0;
  if (config.value("num_key_value_heads", 2) == 1) config["num_key_value_heads"] = 2;
  Precision precision;
  precision.loss_in_head = loss_in_head;
  return parse_model_spec(config.dump(), "config.json", precision);
}

at::Tensor gathered(ParameterInfo info, const at::Tensor& own, const SliceGroup& tp) {
  if (info.is_whole()) return own;
  const std::vector<at::Tensor> parts = tp.group().all_gather(own).wait();
  at::Tensor whole = at::zeros(info.global_shape);
  for (int member = 0; member < tp.degree(); ++member) {
    info.slices = tp.slices_of(member);
    std::int64_t begin = 0;
    for (const Slice& box : info.boxes()) {
      at::Tensor target = whole;
      for (std::size_t d = 0; d < box.size(); ++d)
        target = target.narrow(static_cast<std::int64_t>(d), box[d].offset, box[d].size);
      const std::int64_t size = box[static_cast<std::size_t>(info.split->dim)].size;
      target.copy_(parts[static_cast<std::size_t>(member)].narrow(info.split->dim, begin, size));
      begin += size;
    }
  }
  return whole;
}

FoundByName loss_and_gradients(const ModelSpec& spec, const SliceGroup& tp) {
  const detail::SliceGroupScope scope(tp);
  const Model model = causal_lm(spec, {.fused = false});
  Chunk chunk(model.layers, 0, {}, model.outputs);
  initialize_parameters(chunk, 3);
  const std::int64_t vocabulary = spec.layers.front().parameters.front().shape[0];
  const at::Tensor ids = at::arange(2 * 8, at::kLong).mul(7).remainder(vocabulary).view({2, 8});
  const Values batch = {
      {"input_ids", ids}, {"labels", ids}, {"attention_mask", {}}, {"position_ids", {}}};
  const LossValue loss = model.loss(chunk.forward({}, batch, 1, 0, 0), batch);
  (loss.loss / 13).backward();
  FoundByName found = {{"loss", {loss.loss}}};
  for (const ParameterInfo& parameter : chunk.parameters())
    found[parameter.name] = {gathered(parameter, parameter.tensor.grad(), tp)};
  return found;
}

Whole run(const ModelSpec& spec, const SliceLayout& layout) {
  return on_slice_ranks(layout, [&](const SliceGroup& tp) { return loss_and_gradients(spec, tp); });
}

TEST(SlicedFamiliesTest, HaveTheSameBitsForEveryDegreeWithRowsDividedAndWhole) {
  for (const std::string& model : kModels) {
    for (const bool loss_in_head : {false, true}) {
      const ModelSpec spec = spec_of(model, loss_in_head);
      const Whole one = run(spec, {1, 2, false});
      for (const SliceLayout& layout :
           {SliceLayout{1, 2, true}, SliceLayout{2, 2, false}, SliceLayout{2, 2, true}})
        expect_same_bits(one, run(spec, layout), model + ", " + name_of(layout));
    }
  }
}

TEST(SlicedFamiliesTest, FourSlicesHaveTheSameBitsOnOneTwoAndFourRanks) {
  const ModelSpec spec = spec_with_heads("models/llama_untied", 8, 4);
  const Whole one = run(spec, {1, 4, false});
  for (const int degree : {1, 2, 4}) {
    for (const bool sequence : {false, true}) {
      const SliceLayout layout{degree, 4, sequence};
      expect_same_bits(one, run(spec, layout), name_of(layout));
    }
  }
}

TEST(SlicedFamiliesTest, AreAsFarFromOneSliceAsRoundingIs) {
  for (const std::string& model : kModels) {
    const ModelSpec spec = spec_of(model);
    Whole unsliced = run(spec, {1, 1, false});
    // softmax cancels the key's bias, so its gradient is noise
    std::erase_if(unsliced, [](const auto& item) {
      return item.first.ends_with("k_proj.bias") || item.first.ends_with("query_key_value.bias");
    });
    EXPECT_LT(distance(unsliced, run(spec, {2, 2, true})), 2e-5) << model;
  }
}

TEST(SlicedFamiliesTest, RejectsUnsupportedSlicing) {
  const auto refusal = [](const ModelSpec& spec, int slices) {
    const SliceGroup tp({}, {.degree = 1, .slices = slices});
    return message_of([&] { loss_and_gradients(spec, tp); });
  };
  const auto expect = [](const std::string& part, const std::string& message) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("a norm over all heads", refusal(spec_of("models_extra/olmo2"), 2));
  expect("a norm over all heads", refusal(spec_of("models_extra/olmoe"), 2));
  expect("key-value heads", refusal(spec_with_heads("models/llama_untied", 8, 4), 8));
}

}  // namespace
}  // namespace sliced_families_test
}  // namespace sluice::test
