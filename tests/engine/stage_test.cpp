#include "sluice/parts/stage.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "layer/initialize_chunks.h"
#include "sluice/layer.h"
#include "sluice/parts/observers.h"
#include "support/user_models.h"

namespace sluice::test {
namespace {

constexpr std::int64_t kWidth = 24, kRows = 6;

struct Gradients {
  std::vector<at::Tensor> inputs;
  std::map<std::string, at::Tensor> weights;
};

enum class How { kWhole, kSplit };

Stage middle_stage(UserModel model, double dropout = 0.3) {
  std::vector<LayerSpec> layers = make_user_layers(model, 3, kWidth, dropout);
  layers.erase(layers.begin());
  layers.pop_back();
  Stage stage(1, Chunk(std::move(layers), 1, {"hidden"}, {"hidden"}));
  initialize_parameters(stage.chunk(), 5);
  stage.chunk().train(true);
  return stage;
}
Stage first_stage(UserModel model) {
  std::vector<LayerSpec> layers = make_user_layers(model, 3, kWidth, 0.3);
  layers.pop_back();
  Stage stage(0, Chunk(std::move(layers), 0, {}, {"hidden"}));
  initialize_parameters(stage.chunk(), 5);
  stage.chunk().train(true);
  return stage;
}

at::Tensor input_of(int microbatch) {
  at::Tensor x = at::empty({kRows, kWidth});
  keyed_normal_(x, 3, "input" + std::to_string(microbatch), 0, 1);
  return x;
}

at::Tensor run_forward(Stage& stage, int microbatch) {
  std::vector<at::Tensor> inputs;
  Values batch;
  if (stage.chunk().inputs().empty()) {
    batch.set("x", input_of(microbatch));
  } else {
    inputs.push_back(input_of(microbatch));
    inputs[0].set_requires_grad(true);
  }
  const Values outputs = stage.forward({7, 1, microbatch}, std::move(inputs), batch);
  stage.keep(microbatch, {outputs.get("hidden")});
  return outputs.get("hidden").tensor_data();
}

Gradients run(Stage& stage, How how, int num_microbatches = 3) {
  Gradients result;
  for (int m = 0; m < num_microbatches; ++m) run_forward(stage, m);
  for (int m = 0; m < num_microbatches; ++m) {
    const at::Tensor arrived = input_of(100 + m);
    std::vector<at::Tensor> inputs =
        how == How::kWhole ? stage.backward(m, {arrived}) : stage.backward_input(m, {arrived});
    if (how == How::kSplit) stage.backward_weight(m);
    if (!inputs.empty()) result.inputs.push_back(inputs[0]);
  }
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    result.weights[stage.parameters()[i].name] = stage.gradient(i).clone();
  }
  EXPECT_EQ(stage.num_live(), 0u);
  return result;
}

void expect_same_bits(const Gradients& a, const Gradients& b) {
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t i = 0; i < a.inputs.size(); ++i)
    EXPECT_TRUE(at::equal(a.inputs[i], b.inputs[i])) << i;
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, gradient] : a.weights)
    EXPECT_TRUE(at::equal(gradient, b.weights.at(name))) << name;
}

class EveryModel : public ::testing::TestWithParam<UserModel> {};
INSTANTIATE_TEST_SUITE_P(Stage, EveryModel,
                         ::testing::Values(UserModel::kMlp, UserModel::kUnsplittable,
                                           UserModel::kShared));

TEST_P(EveryModel, WholeBackwardHasTheBitsOfPlainAutograd) {
  // A stage intercepts the gradients before they reach .grad, so the plain run uses a chunk of its
  // own.
  std::vector<LayerSpec> layers = make_user_layers(GetParam(), 3, kWidth, 0.3);
  Stage stage = middle_stage(GetParam());
  Chunk plain({layers.begin() + 1, layers.end() - 1}, 1, {"hidden"}, {"hidden"});
  initialize_parameters(plain, 5);
  plain.train(true);
  const Gradients got = run(stage, How::kWhole);
  std::map<std::string, at::Tensor> weights;
  for (int m = 0; m < 3; ++m) {
    at::Tensor x = input_of(m);
    x.set_requires_grad(true);
    const Values outputs = plain.forward({{"hidden", x}}, {}, 7, 1, m);
    torch::autograd::backward({outputs.get("hidden")}, {input_of(100 + m)});
    EXPECT_TRUE(at::equal(x.grad(), got.inputs[m]));
  }
  for (ParameterInfo& info : plain.parameters()) {
    EXPECT_TRUE(at::equal(info.tensor.grad(), got.weights.at(info.name))) << info.name;
  }
}

TEST_P(EveryModel, SplitBackwardHasTheBitsOfTheWhole) {
  Stage whole = middle_stage(GetParam()), split = middle_stage(GetParam());
  expect_same_bits(run(whole, How::kWhole), run(split, How::kSplit));
  Stage first_whole = first_stage(GetParam()), first_split = first_stage(GetParam());
  expect_same_bits(run(first_whole, How::kWhole), run(first_split, How::kSplit));
}

TEST_P(EveryModel, NeverWritesToGrad) {
  Stage stage = middle_stage(GetParam());
  run(stage, How::kWhole);
  run(stage, How::kSplit);
  for (ParameterInfo& info : stage.parameters())
    EXPECT_FALSE(info.tensor.grad().defined()) << info.name;
}

std::size_t num_gradients(Stage& stage) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) count += stage.gradient(i).defined();
  return count;
}

TEST(StageTest, InputBackwardLeavesEveryWeightOfOrdinaryModulesToW) {
  for (const bool first : {false, true}) {
    Stage stage = first ? first_stage(UserModel::kMlp) : middle_stage(UserModel::kMlp);
    run_forward(stage, 0);
    stage.backward_input(0, {input_of(100)});
    EXPECT_EQ(num_gradients(stage), 0u);
    EXPECT_EQ(stage.num_live(), 1u);
    stage.backward_weight(0);
    EXPECT_EQ(num_gradients(stage), stage.parameters().size());
    EXPECT_TRUE(stage.splits_backward());
  }
}

TEST(StageTest, GivesSharedAndCustomWeightsTheirGradientDuringI) {
  Stage shared = middle_stage(UserModel::kShared);
  run_forward(shared, 0);
  shared.backward_input(0, {input_of(100)});
  for (std::size_t i = 0; i < shared.parameters().size(); ++i) {
    // Each use transposes the matrix, which makes a new node per use. Gain and bias are read
    // directly.
    const std::string& name = shared.parameters()[i].name;
    EXPECT_EQ(shared.gradient(i).defined(), name.starts_with("block1.")) << name;
  }
  EXPECT_TRUE(shared.splits_backward());

  std::vector<LayerSpec> custom{layer_of<CustomScale>("scale", kWidth)};
  Stage unsplittable(1, Chunk(custom, 1, {"hidden"}, {"hidden"}));
  run_forward(unsplittable, 0);
  EXPECT_TRUE(unsplittable.splits_backward());
  unsplittable.backward_input(0, {input_of(100)});
  EXPECT_EQ(num_gradients(unsplittable), 1u);
  EXPECT_FALSE(unsplittable.splits_backward());
  unsplittable.backward_weight(0);
}

TEST(StageTest, HoldsEarlyWeightsUntilWWhenToldTo) {
  Stage stage = middle_stage(UserModel::kShared);
  stage.defer_early_weights(true);
  run_forward(stage, 0);
  stage.backward_input(0, {input_of(100)});
  EXPECT_EQ(num_gradients(stage), 0u);
  stage.backward_weight(0);
  EXPECT_EQ(num_gradients(stage), stage.parameters().size());
}

// Two layers read the output of `side`, which reads no input of the stage. Therefore I already
// completes the gradients of `side`.
TEST(StageTest, HoldsEarlyWeightsOfLayersThatRunTwiceUntilW) {
  const auto gradients = [](bool twice, bool hold) {
    LayerSpec side = layer_of<torch::nn::LinearImpl>("side", kWidth, kWidth);
    side.reads = {"x"};
    side.writes = {"side"};
    side.recompute = twice;
    std::vector<LayerSpec> layers = {side};
    for (const char* name : {"one", "two"}) {
      LayerSpec& layer = layers.emplace_back();
      layer.name = name;
      layer.reads = {"hidden", "side"};
      layer.forward = [](torch::nn::Module& /*module*/, const std::vector<at::Tensor>& in) {
        return std::vector<at::Tensor>{in[0] * in[1]};
      };
    }
    Stage stage(1, Chunk(std::move(layers), 1, {"hidden"}, {"hidden"}));
    initialize_parameters(stage.chunk(), 5);
    stage.defer_early_weights(hold);
    at::Tensor hidden = input_of(0).set_requires_grad(true);
    const Values outputs = stage.forward({7, 1, 0}, {hidden}, {{"x", input_of(1)}});
    stage.keep(0, {outputs.get("hidden")});
    stage.backward_input(0, {input_of(100)});
    EXPECT_EQ(num_gradients(stage), hold ? 0u : 2u);
    stage.backward_weight(0);
    EXPECT_EQ(num_gradients(stage), 2u);
    return std::vector{stage.gradient(0).clone(), stage.gradient(1).clone()};
  };
  const auto expected = gradients(false, false);
  for (const bool hold : {false, true}) {
    const auto found = gradients(true, hold);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(found[i], expected[i]));
  }
}

class ProductCounter {
 public:
  ProductCounter()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&count).scopes({at::RecordScope::FUNCTION}))) {
    products = 0;
  }
  ~ProductCounter() { at::removeCallback(handle_); }
  static thread_local int products;

 private:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    const std::string name = function.name();
    if (name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm") ++products;
    return nullptr;
  }
  at::CallbackHandle handle_;
};
thread_local int ProductCounter::products = 0;

TEST(StageTest, InputAndWeightBackwardTogetherDoTheProductsOfTheWhole) {
  for (const bool first : {false, true}) {
    Stage stage = first ? first_stage(UserModel::kMlp) : middle_stage(UserModel::kMlp);
    run_forward(stage, 0);
    run_forward(stage, 1);
    const ProductCounter counter;
    stage.backward(0, {input_of(100)});
    const int whole = ProductCounter::products;
    stage.backward_input(1, {input_of(101)});
    const int input = ProductCounter::products - whole;
    stage.backward_weight(1);
    const int weight = ProductCounter::products - whole - input;
    // Each block has two products for the input gradients and two for the weight gradients. `first`
    // has one more weight.
    EXPECT_EQ(input, 6);
    EXPECT_EQ(weight, first ? 7 : 6);
    EXPECT_EQ(whole, input + weight);
  }
}

TEST(StageTest, LetsGoOfAnOutputThatNoOperatorSaved) {
  Stage stage = middle_stage(UserModel::kMlp);
  at::Tensor output = run_forward(stage, 0);
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(output.storage().getWeakStorageImpl());
  output.reset();
  EXPECT_TRUE(storage.expired());
  EXPECT_TRUE(stage.backward(0, {input_of(100)})[0].defined());
}

TEST(StageTest, RefusesTheForwardOfAMicrobatchThatIsInFlight) {
  Stage stage = middle_stage(UserModel::kMlp);
  run_forward(stage, 0);
  try {
    run_forward(stage, 0);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("microbatch in flight; stage 1, microbatch 0"),
              std::string::npos)
        << error.what();
  }
  stage.backward(0, {input_of(100)});
  run_forward(stage, 0);
}

TEST(StageTest, FreesEverythingOfAMicrobatchAfterItsBackward) {
  MemoryLedger ledger(1);
  const MemoryLedger::Scope scope(ledger, 0);
  Stage stage = middle_stage(UserModel::kMlp);
  run_forward(stage, 0);
  stage.backward(0, {input_of(100)});  // allocates the gradient sums
  const std::int64_t before = ledger.live_bytes(0);
  for (int m = 1; m <= 3; ++m) run_forward(stage, m);
  const std::int64_t three_live = ledger.live_bytes(0);
  EXPECT_GT(three_live, before);
  stage.backward(1, {input_of(101)});
  EXPECT_EQ(ledger.live_bytes(0) - before, (three_live - before) / 3 * 2);
  stage.backward_input(2, {input_of(102)});
  stage.backward_weight(2);
  stage.backward_input(3, {input_of(103)});
  stage.backward_weight(3);
  EXPECT_EQ(ledger.live_bytes(0), before);
}

TEST(StageTest, InputBackwardFreesWhatOnlyTheInputNeeded) {
  MemoryLedger ledger(1);
  const MemoryLedger::Scope scope(ledger, 0);
  // Only the input gradient needs the dropout masks and the tensors that gelu saved. The weight
  // gradients need the inputs of linear layers and the statistics of norms.
  Stage stage = middle_stage(UserModel::kMlp);
  run_forward(stage, 0);
  stage.backward(0, {input_of(100)});
  const std::int64_t before = ledger.live_bytes(0);
  run_forward(stage, 1);
  const std::int64_t forward = ledger.live_bytes(0) - before;
  stage.backward_input(1, {input_of(101)});
  const std::int64_t mask = kRows * kWidth, gelu_input = kRows * 2 * kWidth * 4;
  // W also needs the gradients that arrived at the frontier: norm [N, W], up [N, 2W], down [N, W].
  const std::int64_t arrived = kRows * (kWidth + 2 * kWidth + kWidth) * 4;
  EXPECT_LE(ledger.live_bytes(0) - before, forward - 3 * (mask + gelu_input) + 3 * arrived);
  stage.backward_weight(1);
  EXPECT_EQ(ledger.live_bytes(0), before);
}

TEST(StageTest, TakesTheFirstGradientOverWithoutACopy) {
  MemoryLedger ledger(1);
  const MemoryLedger::Scope scope(ledger, 0);
  std::vector<LayerSpec> layers{linear_layer("wide", 8, 4096)};
  Stage stage(1, Chunk(layers, 1, {"hidden"}, {"hidden"}));
  at::Tensor input = at::ones({2, 8});
  input.set_requires_grad(true);
  const Values outputs = stage.forward({}, {input}, {});
  stage.keep(0, {outputs.get("hidden")});
  const std::int64_t before = ledger.live_bytes(0);
  ledger.reset_peak(0);
  stage.backward(0, {at::ones({2, 4096})});
  const std::int64_t gradient = 8 * 4096 * 4;
  EXPECT_LT(ledger.peak_bytes(0) - before, gradient + gradient / 2);
  EXPECT_EQ(stage.gradient(0).sizes(), (std::vector<std::int64_t>{4096, 8}));
}

TEST(StageTest, UsesTheMemoryOfTheLastStepAgainUnlessSomebodyHoldsIt) {
  Stage stage = middle_stage(UserModel::kMlp);
  run_forward(stage, 0);
  stage.backward(0, {input_of(100)});
  const void* memory = stage.gradient(0).data_ptr();
  stage.clear_gradients();
  EXPECT_FALSE(stage.gradient(0).defined());
  run_forward(stage, 0);
  stage.backward(0, {input_of(100)});
  EXPECT_EQ(stage.gradient(0).data_ptr(), memory);
  const at::Tensor held = stage.gradient(0);
  const at::Tensor copy = held.clone();
  stage.clear_gradients();
  run_forward(stage, 1);
  stage.backward(1, {input_of(101)});
  EXPECT_NE(stage.gradient(0).data_ptr(), memory);
  EXPECT_TRUE(at::equal(held, copy));
}

TEST(StageTest, AddsHalfPrecisionGradientsInFloat32) {
  // bfloat16 would stop counting at 256, float16 at 2048.
  for (const auto& [type, count] : {std::pair(at::kBFloat16, 300), std::pair(at::kHalf, 2100)}) {
    std::vector<LayerSpec> layers{linear_layer("half", 4, 4)};
    layers[0].make = [type = type] {
      auto linear = std::make_shared<torch::nn::LinearImpl>(4, 4);
      linear->to(type);
      return linear;
    };
    Stage stage(1, Chunk(layers, 1, {"hidden"}, {"hidden"}));
    for (int m = 0; m < count; ++m) {
      at::Tensor input = at::ones({1, 4}, type);
      input.set_requires_grad(true);
      const Values outputs = stage.forward({0, 1, m}, {input}, {});
      stage.keep(m, {outputs.get("hidden")});
      stage.backward(m, {at::ones({1, 4}, type)});
    }
    EXPECT_EQ(stage.gradient(0).scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(stage.gradient(0), at::full({4, 4}, static_cast<double>(count))));
  }
}

// "meta" stands for the device of another rank. It computes nothing, but torch still checks
// devices.
TEST(StageTest, TakesInputsAndGradientsToItsOwnDevice) {
  struct FarScale : torch::nn::Module {
    FarScale() { weight = register_parameter("weight", at::ones({kWidth}, at::kMeta)); }
    at::Tensor forward(const at::Tensor& x) { return x * weight; }
    at::Tensor weight;
  };
  const std::vector<LayerSpec> layers{layer_of<FarScale>("far")};
  for (const How how : {How::kWhole, How::kSplit}) {
    Stage stage(1, Chunk(layers, 1, {"hidden"}, {"hidden"}));
    at::Tensor input = input_of(0);
    input.set_requires_grad(true);
    const Values outputs = stage.forward({7, 1, 0}, {input}, {});
    EXPECT_TRUE(outputs.get("hidden").is_meta());
    stage.keep(0, {outputs.get("hidden")});
    const std::vector<at::Tensor> gradients = how == How::kWhole
                                                  ? stage.backward(0, {input_of(1)})
                                                  : stage.backward_input(0, {input_of(1)});
    EXPECT_TRUE(gradients[0].is_meta());
    if (how == How::kSplit) stage.backward_weight(0);
    EXPECT_TRUE(stage.gradient(0).is_meta());
  }
}

TEST(StageTest, RefusesParametersThatWereConvertedOrUnfrozenAfterItWasMade) {
  for (const bool convert : {true, false}) {
    LayerSpec layer = linear_layer("late", kWidth, kWidth);
    layer.make = [convert, make = layer.make] {
      auto module = make();
      for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(convert);
      return module;
    };
    Stage stage(1, Chunk({layer}, 1, {"hidden"}, {"hidden"}));
    if (convert) {
      stage.chunk().module(0).to(at::kDouble);
    } else {
      stage.parameters()[1].tensor.set_requires_grad(true);
    }
    try {
      stage.forward({7, 1, 0}, {input_of(0)}, {});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("after its stage was made; stage 1; do so in"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(StageTest, NamesAParameterWhoseGradientIsSparse) {
  struct Table : torch::nn::Module {
    Table() { weight = register_parameter("weight", at::ones({4, kWidth})); }
    at::Tensor forward(const at::Tensor& x) {
      return x + at::embedding(weight, at::zeros({1}, at::kLong), -1, false, /*sparse=*/true);
    }
    at::Tensor weight;
  };
  for (const How how : {How::kWhole, How::kSplit}) {
    Stage stage(1, Chunk({layer_of<Table>("table")}, 1, {"hidden"}, {"hidden"}));
    run_forward(stage, 0);
    try {
      if (how == How::kWhole) stage.backward(0, {input_of(100)});
      if (how == How::kSplit) stage.backward_input(0, {input_of(100)});
      if (how == How::kSplit) stage.backward_weight(0);
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(
          error.what(),
          "the gradient of 'table.weight' is sparse; use dense gradients (sparse = false)");
    }
  }
}

TEST(StageTest, ReturnsNoGradientForAnInputThatWantsNone) {
  Stage stage = middle_stage(UserModel::kMlp);
  const Values outputs = stage.forward({7, 1, 0}, {input_of(0)}, {});
  stage.keep(0, {outputs.get("hidden")});
  const std::vector<at::Tensor> gradients = stage.backward(0, {input_of(100)});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(num_gradients(stage), stage.parameters().size());
}

TEST(StageTest, PassesGradientsThroughAValueThatItOnlyRelays) {
  std::vector<LayerSpec> layers{linear_layer("inner", kWidth, kWidth)};
  for (const How how : {How::kWhole, How::kSplit}) {
    Stage stage(1, Chunk(layers, 1, {"skip", "hidden"}, {"skip", "hidden"}));
    at::Tensor skip = input_of(1), hidden = input_of(2);
    skip.set_requires_grad(true);
    hidden.set_requires_grad(true);
    const Values outputs = stage.forward({7, 1, 0}, {skip, hidden}, {});
    EXPECT_EQ(outputs.get("skip").data_ptr(), skip.data_ptr());
    stage.keep(0, {outputs.get("skip"), outputs.get("hidden")});
    const std::vector<at::Tensor> arrived{input_of(3), input_of(4)};
    const std::vector<at::Tensor> got =
        how == How::kWhole ? stage.backward(0, arrived) : stage.backward_input(0, arrived);
    EXPECT_TRUE(at::equal(got[0], input_of(3)));
    EXPECT_TRUE(got[1].defined());
  }
}

TEST(StageTest, NamesABackwardWithoutItsForward) {
  Stage stage = middle_stage(UserModel::kMlp);
  try {
    stage.backward(4, {input_of(0)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "backward runs without its forward; stage 1, microbatch 4");
  }
  run_forward(stage, 0);
  EXPECT_THROW(stage.backward_weight(0), Error);
  stage.backward_input(0, {input_of(100)});
  EXPECT_THROW(stage.backward_input(0, {input_of(100)}), Error);
}

}  // namespace
}  // namespace sluice::test
