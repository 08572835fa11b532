// Every source of weights with every kind of model. Tensors get the source's bits; if the source
// leaves out a parameter, a step is rejected with its name.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "archive/written_graph.h"
#include "model/graph_modules.h"
#include "sluice/causal_lm.h"
#include "sluice/model.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/whole_module.h"
#include "sluice/pipeline.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::test::weight_sources_test {
namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::uint64_t kSeed = 11;

// Values are unique to the source and name.
void set_numbers(at::Tensor tensor, const std::string& source, const std::string& name) {
  const at::NoGradGuard no_grad;
  at::Tensor value = at::empty(tensor.sizes(), at::kFloat);
  keyed_normal_(value, 1, source + " " + name, 0.0, 0.1);
  if (!at::isFloatingType(tensor.scalar_type())) value = value.mul(100).abs().clamp_max(100);
  tensor.detach().copy_(value);
}

at::Tensor numbers_of(const at::Tensor& like, const std::string& source, const std::string& name) {
  at::Tensor value = at::empty_like(like);
  set_numbers(value, source, name);
  return value;
}

template <typename Module>
void set_factory_numbers(Module& module, const std::string& prefix) {
  for (const auto& item : module.named_parameters())
    set_numbers(item.value(), "factory", prefix + item.key());
  for (const auto& item : module.named_buffers())
    set_numbers(item.value(), "factory", prefix + item.key());
}

// No initialization draws `scale`, `codes` and `shift`.
struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  BlockImpl() { reset(); }
  void reset() override {
    linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
    scale = register_parameter("scale", at::ones({kWidth}));
    codes = register_parameter("codes", at::ones({2, kWidth}, at::kChar), /*requires_grad=*/false);
    shift = register_buffer("shift", at::zeros({kWidth}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return x + at::tanh(linear(x)) * scale + shift + 0.001 * codes.sum(0);
  }
  torch::nn::Linear linear{nullptr};
  at::Tensor scale, codes, shift;
};
TORCH_MODULE(Block);

Block made_block(const std::string& prefix) {
  Block block;
  set_factory_numbers(*block, prefix);
  return block;
}

void add_loss(Model& model) {
  model.inputs = {"x", "y"};
  model.loss = mean_loss([](const Values& out, const Values& in) {
    return torch::nn::functional::mse_loss(out[out.begin()->first], in["y"]);
  });
}

// ---- kinds of models ----

LayerSpec layer_named(const std::string& name, std::function<Block()> make) {
  LayerSpec layer;
  layer.name = name;
  layer.make = [make] { return make().ptr(); };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{module.as<BlockImpl>()->forward(inputs[0])};
  };
  return layer;
}

// The last block is tied to the first. The second is frozen.
Model layers_model() {
  Model model;
  for (const char* name : {"first", "second", "third", "last"}) {
    model.layers.push_back(layer_named(name, [name] {
      Block block = made_block(std::string(name) + ".");
      if (std::string(name) == "second")
        for (at::Tensor& parameter : block->parameters()) parameter.set_requires_grad(false);
      return block;
    }));
  }
  model.layers.front().reads = {"x"};
  model.layers.back().ties = {{"linear.weight", "first.linear.weight"}};
  model.outputs = {"hidden"};
  add_loss(model);
  return model;
}

Model sequential_model() {
  torch::nn::Sequential net;
  for (int i = 0; i < 3; ++i) net->push_back(made_block(std::to_string(i) + "."));
  net->push_back(net->ptr<BlockImpl>(0));  // tied
  for (at::Tensor& parameter : net->ptr(1)->parameters()) parameter.set_requires_grad(false);
  Model model = from_sequential(net);
  add_loss(model);
  return model;
}

Model children_model() {
  torch::nn::ModuleList list;
  for (int i = 0; i < 3; ++i) list->push_back(made_block(std::to_string(i) + "."));
  list->push_back(list->ptr<BlockImpl>(0));  // tied
  for (at::Tensor& parameter : list->ptr(1)->parameters()) parameter.set_requires_grad(false);
  Model model = from_children<BlockImpl>(
      *list, [](BlockImpl& block, const at::Tensor& x) { return block.forward(x); });
  add_loss(model);
  return model;
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", Block());
    register_module("blocks", blocks);
    for (int i = 0; i < 2; ++i) blocks->push_back(Block());
    last = register_module("last", Block());
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = first ? first(input) : input;
    for (const auto& module : *blocks)
      if (auto* block = module->as<BlockImpl>()) x = block->forward(x);
    return last ? last(x) : x;
  }
  Block first{nullptr}, last{nullptr};
  torch::nn::ModuleList blocks;
};
TORCH_MODULE(Net);

// The factory has set all values before this drops parts.
Net kept_net(const Kept& kept) {
  Net net;
  set_factory_numbers(*net, "");
  for (at::Tensor& parameter : net->blocks->ptr(0)->parameters())
    parameter.set_requires_grad(false);
  drop_unkept(*net, kept, net->first, net->blocks, net->last);
  return net;
}

at::Tensor run_net(NetImpl& net, const at::Tensor& x) { return net.forward(x); }

Model whole_model() {
  Model model = from_module(kept_net, run_net,
                            {.parts = {{"first", {"x"}}, {.name = "blocks", .length = 2}, {"last"}},
                             .ties = {{"last.linear.weight", "first.linear.weight"}}});
  add_loss(model);
  return model;
}

Model family_model() {
  return causal_lm(read_model_spec(SLUICE_TEST_DATA "/reference/models/llama_tied"));
}

Model graph_model() { return detail::graph_model(SmallDecoder(2).described(), {}); }

// No initialization draws the extra parameter.
Model graph_with(const std::string& name, const std::vector<std::int64_t>& sizes,
                 const std::string& dtype) {
  SmallDecoder graph(2);
  graph.parameter(name, sizes);
  graph.graph.tensors.back().dtype = graph.module.values.back().dtype = dtype;
  graph.graph.tensors.back().trainable = dtype == "float32";
  graph.add(in_block(0), "aten.add.Tensor", {{"self", Value{"x0"}}, {"other", Value{name}}},
            "shifted");
  graph.move_last(7);
  graph.feed("h0", "shifted");
  return detail::graph_model(graph.described(), {});
}

// Exported graphs with weights in their archives. The second has running statistics.
const std::string kDecoder = SLUICE_TEST_DATA "/command/data/decoder.pt2";
const std::string kModes = SLUICE_TEST_DATA "/command/data/modes.pt2";

at::Tensor in_archive(const std::string& path, const std::string& name) {
  const detail::ExportedGraph graph = detail::read_exported_graph(path);
  return detail::read_graph_tensor(graph, *graph.tensor(name));
}

// ---- sources of weights ----

enum class Source {
  kDrawn,
  kFactory,
  kDirectory,
  kArchive,
  kCheckpoint,
  kStateDict,
  kNone,
  kAllButOne,  // load_weights() leaves one parameter out
};
constexpr Source kSources[] = {Source::kDrawn,   Source::kFactory,    Source::kDirectory,
                               Source::kArchive, Source::kCheckpoint, Source::kStateDict,
                               Source::kNone,    Source::kAllButOne};
const char* name_of(Source source) {
  constexpr const char* kNames[] = {"drawn",      "factory",    "directory", "archive",
                                    "checkpoint", "state dict", "none",      "all but one"};
  return kNames[static_cast<int>(source)];
}

struct Kind {
  std::string name;
  std::function<Model()> make;
  Inputs batch;
  std::string left_out;
  bool holds_numbers = false;       // its modules are complete and are not drawn
  bool has_factory_numbers = true;  // its factories set values
  std::string archive = {};
  double std = 0.02;  // of drawn weights
};

Inputs rows() {
  const at::Tensor x = at::sin(at::arange(8 * kWidth, at::kFloat)).view({8, kWidth});
  return {{"x", x}, {"y", at::cos(x)}};
}
Inputs tokens(std::int64_t vocabulary) {
  const at::Tensor ids = at::arange(8 * 6).view({8, 6}).remainder(vocabulary);
  return {{"input_ids", ids}, {"labels", ids}};
}

std::vector<Kind> kinds() {
  return {
      {.name = "layers", .make = layers_model, .batch = rows(), .left_out = "third.linear.weight"},
      {.name = "sequential",
       .make = sequential_model,
       .batch = rows(),
       .left_out = "2.linear.weight",
       .holds_numbers = true},
      {.name = "children",
       .make = children_model,
       .batch = rows(),
       .left_out = "2.linear.weight",
       .holds_numbers = true},
      {.name = "whole module",
       .make = whole_model,
       .batch = rows(),
       .left_out = "blocks.1.linear.weight"},
      {.name = "families",
       .make = family_model,
       .batch = tokens(320),
       .left_out = "model.norm.weight",
       .has_factory_numbers = false,
       .std = 0.06},
      {.name = "graph",
       .make = graph_model,
       .batch = tokens(16),
       .left_out = "blocks.1.weight",
       .has_factory_numbers = false},
      {.name = "graph with weights",
       .make = [] { return load_graph(kDecoder, {.length = 6}); },
       .batch = tokens(256),
       .left_out = "norm.weight",
       .has_factory_numbers = false,
       .archive = kDecoder},
      {.name = "graph with buffers",
       .make = [] { return load_graph(kModes); },
       .batch = {{"features", at::sin(at::arange(8 * 16, at::kFloat)).view({8, 8, 2})},
                 {"target", at::cos(at::arange(8, at::kFloat))}},
       .left_out = "norm.bias",
       .has_factory_numbers = false,
       .archive = kModes},
  };
}

PipelineOptions layout(int ranks) {
  return {.num_ranks = ranks, .schedule = "1F1B", .num_microbatches = 4, .seq_len = 6};
}

// Tied parameters are named after their first use.
std::string first_use(const ParameterInfo& parameter) {
  return parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
}

void fill(Stage& stage, const std::string& source, const std::string& left_out = "") {
  for (const ParameterInfo& parameter : stage.parameters())
    if (parameter.name != left_out) set_numbers(parameter.tensor, source, first_use(parameter));
  for (auto& [name, buffer] : stage.chunk().buffers()) set_numbers(buffer, source, name);
}

void run_with(const Kind& kind, Source source, int ranks, const std::string& folder,
              const std::function<void(Pipeline&)>& then) {
  Model model = kind.make();
  RunOptions options{.seed = kSeed, .weights = InitialWeights::kNone};
  std::function<void(Pipeline&)> load = [](Pipeline&) {};
  switch (source) {
    case Source::kDrawn:
      model.initialization = {};
      options.weights = InitialWeights::kDrawn;
      break;
    case Source::kFactory:
      options.weights = InitialWeights::kFactory;
      break;
    case Source::kDirectory:
      model.initialization.tensor = stored_values(folder);
      options.weights = InitialWeights::kDrawn;
      break;
    case Source::kArchive:
      options.weights = InitialWeights::kDrawn;
      break;
    case Source::kCheckpoint:
      load = [&](Pipeline& pipeline) { pipeline.load(folder); };
      break;
    case Source::kStateDict:
      load = [](Pipeline& pipeline) {
        std::vector<std::pair<std::string, at::Tensor>> state;
        for (const auto& [name, tensor] : pipeline.local_state_dict())
          state.emplace_back(name, numbers_of(tensor, "saved", name));
        pipeline.load_state_dict(state);
      };
      break;
    case Source::kNone:
      break;
    case Source::kAllButOne:
      load = [&](Pipeline& pipeline) {
        pipeline.load_weights([&](Stage& stage) { fill(stage, "saved", kind.left_out); });
      };
      break;
  }
  run(
      model, layout(ranks),
      [&](Pipeline& pipeline) {
        load(pipeline);
        then(pipeline);
      },
      options);
}

// ---- what is expected ----

bool is_drawn(const std::string& name, const at::Tensor& like) {
  return at::isFloatingType(like.scalar_type()) &&
         (like.dim() >= 2 || name.ends_with("weight") || name.ends_with("bias"));
}

at::Tensor drawn(const Kind& kind, const std::string& name, const at::Tensor& like) {
  at::Tensor value = at::empty_like(like);
  if (like.dim() >= 2) keyed_normal_(value, kSeed, name, 0.0, kind.std);
  if (like.dim() < 2) value.fill_(name.ends_with("weight") ? 1 : 0);
  // The embedding of the family's padding token.
  if (name == "model.embed_tokens.weight") value[0].zero_();
  return value;
}

at::Tensor expected(const Kind& kind, Source source, const std::string& name,
                    const at::Tensor& like, bool is_parameter) {
  const bool is_of_factory = source == Source::kFactory ||
                             (source == Source::kDrawn &&
                              (kind.holds_numbers || !is_parameter || !is_drawn(name, like))) ||
                             (source == Source::kAllButOne && name == kind.left_out);
  if (source == Source::kArchive || (is_of_factory && !kind.archive.empty()))
    return in_archive(kind.archive, name);
  // The layer of a tied child is a clone with its own buffers.
  if (is_of_factory && kind.holds_numbers && name.starts_with("3."))
    return numbers_of(like, "factory", "0." + name.substr(2));
  if (is_of_factory) return numbers_of(like, "factory", name);
  if (source == Source::kDrawn) return drawn(kind, name, like);
  return numbers_of(like, "saved", name);
}

// Part of the expected error message. "" if the step succeeds.
std::string refusal(const Kind& kind, Source source) {
  if (source == Source::kNone) return "not set yet (InitialWeights::kNone), beginning with '";
  if (source == Source::kFactory && !kind.has_factory_numbers) return "nothing draws or loads '";
  // The layers' factories have set all values already.
  const bool is_filled = kind.holds_numbers || kind.name == "layers";
  if (source == Source::kAllButOne && !is_filled)
    return "nothing draws or loads '" + kind.left_out + "'";
  return {};
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(),
                     a.nbytes()) == 0;
}

std::set<std::string> names_of_parameters(const Model& model) {
  std::set<std::string> names;
  run(model, layout(1),
      [&](Pipeline& pipeline) {
        for (const ParameterInfo& info : pipeline.named_parameters()) names.insert(info.name);
      },
      {.weights = InitialWeights::kNone});
  return names;
}

class WeightSourcesTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    Model model = GetParam().make();
    run(model, layout(1),
        [&](Pipeline& pipeline) {
          pipeline.load_weights([](Stage& stage) { fill(stage, "saved"); });
          pipeline.save(saved());
        },
        {.weights = InitialWeights::kNone});
  }
  std::string saved() const { return folder_ / "saved"; }

 private:
  const TempDirectory folder_;
};

TEST_P(WeightSourcesTest, FillsEveryTensorWithItsBitsOrIsRefusedByName) {
  const Kind& kind = GetParam();
  const std::set<std::string> names = names_of_parameters(kind.make());
  ASSERT_TRUE(names.contains(kind.left_out));
  for (const Source source : kSources) {
    // An archive has the weights of its own graph only.
    if (source == Source::kArchive && kind.archive.empty()) continue;
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(std::string(name_of(source)) + ", ranks: " + std::to_string(ranks));
      const std::string refused = refusal(kind, source);
      if (!refused.empty()) {
        const Error error = error_of([&] {
          run_with(kind, source, ranks, saved(),
                   [&](Pipeline& pipeline) { pipeline.train_step(kind.batch); });
        });
        EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
        const std::string message = error.what();
        const std::size_t at = message.find(refused);
        ASSERT_NE(at, std::string::npos) << message;
        const std::size_t begin = message.find('\'', at) + 1;
        EXPECT_TRUE(names.contains(message.substr(begin, message.find('\'', begin) - begin)))
            << message;
        continue;
      }
      run_with(kind, source, ranks, saved(), [&](Pipeline& pipeline) {
        std::set<std::string> compared;
        for (Stage* stage : pipeline.stages()) {
          for (const ParameterInfo& info : stage->parameters()) {
            EXPECT_TRUE(same_bits(info.tensor.detach(),
                                  expected(kind, source, first_use(info), info.tensor.detach(),
                                           /*is_parameter=*/true)))
                << info.name;
            compared.insert(info.name);
          }
          for (const auto& [name, buffer] : stage->chunk().buffers())
            EXPECT_TRUE(same_bits(buffer, expected(kind, source, name, buffer, false))) << name;
        }
        EXPECT_FALSE(compared.empty());
        EXPECT_TRUE(std::isfinite(pipeline.train_step(kind.batch).loss));
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WeightSourcesTest, ::testing::ValuesIn(kinds()),
                         [](const ::testing::TestParamInfo<Kind>& kind) {
                           std::string name = kind.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// ---- parameters without a drawn initialization ----

struct Undrawn {
  std::vector<std::int64_t> sizes;
  std::string dtype;
};
const Undrawn kUndrawn[] = {
    {{4}, "float32"},  {{1, 4}, "int64"}, {{1, 4}, "int32"}, {{1, 4}, "int16"}, {{1, 4}, "int8"},
    {{1, 4}, "uint8"}, {{1, 4}, "bool"},  {{4}, "int32"},    {{4}, "int8"},     {{4}, "bool"}};

TEST(UndrawnParametersTest, OfAGraphAreRefusedByNameAndType) {
  for (const auto& [sizes, dtype] : kUndrawn) {
    for (const char* name : {"codes", "codes.bias"}) {
      if (dtype.starts_with("float") && name != std::string("codes")) continue;  // drawn at random
      const Model model = graph_with(name, sizes, dtype);
      const Error error = error_of([&] {
        run(model, layout(2), [](Pipeline& pipeline) { pipeline.train_step(tokens(16)); });
      });
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      const std::string shape = sizes.size() == 1 ? "[4]" : "[1, 4]";
      EXPECT_NE(std::string(error.what())
                    .find("nothing draws or loads '" + std::string(name) + "', " + dtype + shape),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(UndrawnParametersTest, OfAGraphTakeTheNumbersOfAnInitialization) {
  for (const auto& [sizes, dtype] : kUndrawn) {
    Model model = graph_with("codes", sizes, dtype);
    model.initialization.tensor = [](const std::string& name, at::Tensor& value) {
      set_numbers(value, "initialization", name);
    };
    run(model, layout(1), [&](Pipeline& pipeline) {
      for (const ParameterInfo& info : pipeline.named_parameters())
        EXPECT_TRUE(same_bits(info.tensor.detach(),
                              numbers_of(info.tensor.detach(), "initialization", info.name)))
            << info.name << " " << dtype;
      EXPECT_TRUE(std::isfinite(pipeline.train_step(tokens(16)).loss)) << dtype;
    });
  }
}

}  // namespace
}  // namespace sluice::test::weight_sources_test
