#include "sluice/parts/whole_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <map>

#include "sluice/parts/chunk.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace {

using Names = std::vector<std::string>;

struct BlockImpl : torch::nn::Module {
  BlockImpl() : linear(3, 3) { register_module("linear", linear); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Block);

struct TowerImpl : torch::nn::Module {
  explicit TowerImpl(int depth) {
    register_module("layers", layers);
    for (int i = 0; i < depth; ++i) layers->push_back(Block());
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Tower);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    start = register_parameter("start", at::zeros({3}));
    stem = register_module("stem", torch::nn::Linear(3, 3));
    tower = register_module("tower", Tower(2));
    register_module("heads", heads);
    heads->update(
        {{"small", torch::nn::Linear(3, 1).ptr()}, {"large", torch::nn::Linear(3, 5).ptr()}});
    register_module("tail", tail);
    tail->push_back(torch::nn::Linear(3, 3));
    tail->push_back(torch::nn::Tanh());
  }
  at::Tensor start;
  torch::nn::Linear stem{nullptr};
  Tower tower{nullptr};
  torch::nn::ModuleDict heads;
  torch::nn::Sequential tail;
};
TORCH_MODULE(Net);

std::shared_ptr<NetImpl> make(const Kept& /*kept*/) { return Net().ptr(); }
at::Tensor nothing(NetImpl& /*net*/, const at::Tensor& x) { return x; }

Names names_of(const Model& model) {
  Names names;
  for (const LayerSpec& layer : model.layers) names.push_back(layer.name);
  return names;
}
std::vector<LayerRole> roles_of(const Model& model) {
  std::vector<LayerRole> roles;
  for (const LayerSpec& layer : model.layers) roles.push_back(layer.role);
  return roles;
}

TEST(FromModuleTest, FindsThePartsOfAModuleInTheOrderOfRegistration) {
  const Model model = from_module(make, nothing);
  EXPECT_EQ(names_of(model),
            (Names{"start", "stem", "tower", "heads.small", "heads.large", "tail.0", "tail.1"}));
  EXPECT_EQ(roles_of(model), (std::vector{LayerRole::kEmbedding, LayerRole::kOther,
                                          LayerRole::kOther, LayerRole::kBlock, LayerRole::kBlock,
                                          LayerRole::kBlock, LayerRole::kBlock}));
  EXPECT_EQ(model.layers[0].reads, Names{"x"});
  EXPECT_EQ(model.layers[1].reads, Names{"hidden"});
  EXPECT_EQ(model.inputs, Names{"x"});
  EXPECT_EQ(model.outputs, Names{"hidden"});
}

TEST(FromModuleTest, FindsTheLayersOfAClassWhereverTheyAre) {
  for (const std::string& name :
       {std::string("Block"), std::string("BlockImpl"), class_name<BlockImpl>()}) {
    const Model model = from_module(make, nothing, {.block_class = name});
    EXPECT_EQ(names_of(model),
              (Names{"start", "stem", "tower.layers.0", "tower.layers.1", "heads", "tail"}));
    EXPECT_EQ(roles_of(model),
              (std::vector{LayerRole::kEmbedding, LayerRole::kOther, LayerRole::kBlock,
                           LayerRole::kBlock, LayerRole::kNorm, LayerRole::kHead}));
  }
}

TEST(FromModuleTest, TakesPartsAsTheyAreGivenWithTheirValues) {
  const Model model = from_module(make, nothing,
                                  {.parts = {{"start", {"image"}, {"a"}},
                                             {"stem", {"a"}, {"b"}},
                                             {"tower.layers", {"b"}, {"b"}, 2},
                                             {"heads", {"b", "a", "mask"}, {"large", "small"}},
                                             {"tail", {"large"}, {"large"}}},
                                   .blocks = {"tower"}});
  EXPECT_EQ(names_of(model),
            (Names{"start", "stem", "tower.layers.0", "tower.layers.1", "heads", "tail"}));
  EXPECT_EQ(model.layers[3].reads, Names{"b"});
  EXPECT_EQ(model.layers[3].role, LayerRole::kBlock);
  EXPECT_EQ(model.inputs, (Names{"image", "mask"}));
  EXPECT_EQ(model.outputs, Names{"large"});
  const LayerSpec fused = model.fuse(
      {model.layers[1], model.layers[2], model.layers[3], model.layers[4]}, {"a", "small", "b"});
  EXPECT_EQ(fused.reads, (Names{"a", "mask"}));
  EXPECT_EQ(fused.writes, (Names{"small", "b"}));
}

TEST(FromModuleTest, RefusesPartsThatAreNotTheModules) {
  struct Case {
    ModuleTree tree;
    std::string what, remedy;
  };
  const std::vector<Case> cases = {
      {{.block_class = "Blok"}, "has no 'Blok'", "did you mean 'Block'"},
      {{.parts = {{"stm"}}, .block_class = "Block"}, "no part 'stm'", "did you mean 'stem'"},
      {{.parts = {{"start"}, {"stem"}, {"tower"}, {"heads"}}, .block_class = "Block"},
       "'tail' of the module is in none of the parts",
       "where forward runs it"},
      {{.parts = {{"stem"}, {"stem"}}}, "part 'stem' is named twice", "ModuleTree::ties"},
      {{.parts = {{"tower"}, {"tower.layers.0"}}}, "within part 'tower'", "once"},
      {{.blocks = {"layer"}}, "no part is, or is in, 'layer'", "one of"},
      {{.blocks = {"tower"}, .block_class = "Block"}, "both given", "one of the two"},
      {{.parts = {{"stem", {}}}}, "reads no value", "name what it reads"},
      {{.ties = {{"steam.weight", "tail.0.weight"}}}, "'steam.weight' of the ties", ""},
  };
  for (const Case& c : cases) {
    const Error error = error_of([&] { from_module(make, nothing, c.tree); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.fact().find(c.what), std::string::npos) << error.what();
    EXPECT_NE(error.remedy().find(c.remedy), std::string::npos) << error.what();
  }
}

TEST(FromModuleTest, RefusesAFactoryThatMakesTooLittleOrTooMuch) {
  const std::vector<Part> parts = {{"stem", {"x"}}, {"tail"}};
  struct Pair : torch::nn::Module {
    torch::nn::Linear stem{nullptr}, tail{nullptr};
  };
  const auto refusal = [&](const std::function<void(Pair&)>& build, std::size_t first,
                           std::size_t count) {
    const Model model = from_module(
        [&](const Kept&) {
          auto pair = std::make_shared<Pair>();
          build(*pair);
          return pair;
        },
        [](Pair&, const at::Tensor& x) { return x; }, {.parts = parts});
    const auto begin = model.layers.begin() + static_cast<std::ptrdiff_t>(first);
    const LayerSpec fused =
        model.fuse({begin, begin + static_cast<std::ptrdiff_t>(count)}, {"hidden"});
    return message_of([&] { fused.make(); });
  };
  const auto both = [](Pair& pair) {
    pair.stem = pair.register_module("stem", torch::nn::Linear(2, 2));
    pair.tail = pair.register_module("tail", torch::nn::Linear(2, 2));
  };
  const std::string left = refusal(both, 0, 1);
  EXPECT_NE(left.find("parameter 'tail.weight' is left over in the stage of part 'stem'"),
            std::string::npos)
      << left;
  EXPECT_NE(left.find("drop_unkept"), std::string::npos) << left;
  const std::string missing = refusal([](Pair&) {}, 1, 1);
  EXPECT_NE(missing.find("has no 'tail'"), std::string::npos) << missing;
  EXPECT_NE(missing.find("kept(\"tail\")"), std::string::npos) << missing;
  const std::string stray = refusal(
      [&](Pair& pair) {
        both(pair);
        pair.register_parameter("extra", at::zeros({1}));
      },
      0, 2);
  EXPECT_NE(stray.find("parameter 'extra' is in no part"), std::string::npos) << stray;
  const auto own = [](const std::function<void(torch::nn::Module&)>& build) {
    const Model model = from_module(
        [build](const Kept&) {
          auto module = std::make_shared<torch::nn::Module>();
          build(*module);
          return module;
        },
        [](torch::nn::Module&, const at::Tensor& x) { return x; },
        {.parts = {{"stem", {"x"}}, {"scale"}}});
    return message_of([&] { model.fuse({model.layers[0]}, {"hidden"}).make(); });
  };
  const std::string scale = own([](torch::nn::Module& module) {
    module.register_module("stem", torch::nn::Linear(2, 2));
    module.register_parameter("scale", at::ones({1}));
  });
  EXPECT_NE(scale.find("make 'scale' only where kept(\"scale\") is true: an own parameter"),
            std::string::npos)
      << scale;
  EXPECT_EQ(scale.find("drop_unkept"), std::string::npos) << scale;
  const std::string shared = refusal(
      [&](Pair& pair) {
        pair.stem = pair.register_module("stem", torch::nn::Linear(2, 2));
        pair.tail = pair.register_module("tail", pair.stem);
      },
      0, 2);
  EXPECT_NE(shared.find("is the same tensor as 'stem."), std::string::npos) << shared;
  EXPECT_NE(shared.find("ModuleTree::ties"), std::string::npos) << shared;
}

TEST(FromModuleTest, NamesParametersAsTheWholeModuleDoes) {
  const Model model = from_module(
      make, nothing, {.parts = {{"tail", {"x"}}, {"heads"}, {"tower"}, {"stem"}, {"start"}}});
  const Chunk chunk({model.fuse(model.layers, {"hidden"})}, 0, {}, {"hidden"});
  Names names;
  for (const ParameterInfo& info : chunk.parameters()) names.push_back(info.name);
  EXPECT_EQ(names, Net()->named_parameters().keys());
}

TEST(KeptTest, AnswersForPartsWhatHoldsThemAndWhatIsInside) {
  const Kept kept({"layers.2", "layers.3", "norm"},
                  {"embed", "layers.1", "layers.2", "layers.3", "norm"});
  EXPECT_TRUE(kept("layers"));
  EXPECT_TRUE(kept("layers.2"));
  EXPECT_TRUE(kept("layers.2.linear"));
  EXPECT_FALSE(kept("layers.1"));
  EXPECT_FALSE(kept("embed"));
  EXPECT_TRUE(kept.under("layers")("3"));
  EXPECT_FALSE(kept.all());
  EXPECT_TRUE(Kept()("anything"));
  const Error error = error_of([&] { kept("nrom"); });
  EXPECT_NE(error.fact().find("the factory calls Kept with 'nrom'"), std::string::npos)
      << error.what();
  EXPECT_NE(error.remedy().find("did you mean 'norm'"), std::string::npos) << error.what();
  EXPECT_NE(error.remedy().find("ModuleTree::parts"), std::string::npos) << error.what();
}

TEST(KeptTest, NamesAChildThatIsInNoPartAsTheModuleDoes) {
  Net net;
  const Kept kept({"stam"}, {"stam", "tower.layers.0", "tower.layers.1"});
  const Error error = error_of([&] { drop_unkept(*net, kept, net->stem); });
  EXPECT_EQ(error.fact(), "the module has 'stem', which is in no part");
  EXPECT_EQ(error.remedy(), "name it in ModuleTree::parts, as the module does");
}

TEST(KeptTest, LeavesAnEmptyListInThePlaceOfOneThatIsDropped) {
  Tower tower(3);
  const std::weak_ptr<torch::nn::Module> first = tower->layers->ptr(0);
  drop_unkept(*tower, Kept({"head"}, {"layers", "head"}), tower->layers);
  for (const auto& module : *tower->layers) ADD_FAILURE() << "left: " << module->name();
  EXPECT_EQ(tower->named_children()["layers"], tower->layers.ptr());
  EXPECT_TRUE(tower->parameters().empty());
  EXPECT_TRUE(first.expired());
}

TEST(KeptTest, DropsChildrenAndEmptiesTheirHoldersButKeepsIndicesAndKeys) {
  Net net;
  const std::weak_ptr<torch::nn::Module> stem = net->stem.ptr(), small = net->heads["small"],
                                         first = net->tower->layers->ptr(0);
  const Kept kept({"tower.layers.1", "heads.large", "tail.1"},
                  {"stem", "tower.layers.0", "tower.layers.1", "heads.small", "heads.large",
                   "tail.0", "tail.1"});
  drop_unkept(*net, kept, net->stem, net->heads, net->tail);
  drop_unkept(*net->tower, kept.under("tower"), net->tower->layers);
  EXPECT_TRUE(net->stem.is_empty());
  EXPECT_FALSE(net->named_children().contains("stem"));
  EXPECT_TRUE(stem.expired());
  EXPECT_TRUE(first.expired());
  EXPECT_TRUE(small.expired());
  ASSERT_EQ(net->tower->layers->size(), 2u);
  EXPECT_EQ(net->tower->layers[0]->as<BlockImpl>(), nullptr);
  EXPECT_NE(net->tower->layers[1]->as<BlockImpl>(), nullptr);
  EXPECT_EQ(net->heads->keys(), (Names{"small", "large"}));
  EXPECT_EQ(net->heads["small"]->as<torch::nn::LinearImpl>(), nullptr);
  const at::Tensor x = at::ones({1, 3});
  EXPECT_TRUE(at::equal(net->tail->forward(x), at::tanh(x)));
  EXPECT_EQ(net->named_parameters().keys(),
            (Names{"start", "tower.layers.1.linear.weight", "tower.layers.1.linear.bias",
                   "heads.large.weight", "heads.large.bias"}));
  Block stranger;
  EXPECT_NE(message_of([&] { drop_unkept(*net, kept, stranger); }).find("is not a child"),
            std::string::npos);
}

// The result type of a user's model. It uses none of sluice's names.
struct Reply {
  at::Tensor logits;
  std::vector<at::Tensor> later;
  std::optional<at::Tensor> state;
};
auto tensors_of(const Reply& reply) { return std::tie(reply.logits, reply.later, reply.state); }

TEST(OutputsTest, TakesTensorsOutOfAnyTypeThatHoldsThem) {
  const at::Tensor a = at::ones({1}), b = at::ones({2}), c = at::ones({3});
  const auto sizes = [](const Outputs& outputs) {
    std::vector<std::int64_t> found;
    for (const at::Tensor& tensor : outputs.tensors())
      found.push_back(tensor.defined() ? tensor.numel() : -1);
    return found;
  };
  EXPECT_EQ(sizes(a), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(sizes(std::tuple(a, std::pair(b, std::array{c, a}))),
            (std::vector<std::int64_t>{1, 2, 3, 1}));
  EXPECT_EQ(sizes(Reply{a, {b, c}, {}}), (std::vector<std::int64_t>{1, 2, 3, -1}));
  EXPECT_EQ(sizes(std::tuple(Reply{a, {b}, c}, b)), (std::vector<std::int64_t>{1, 2, 3, 2}));
  const Outputs named = std::map<std::string, at::Tensor>{{"a", a}, {"b", b}, {"c", c}};
  EXPECT_TRUE(named.named({"c", "a"}, "m")[0].is_same(c));
  EXPECT_TRUE(Outputs(Values{{"b", b}}).named({"b"}, "m")[0].is_same(b));
}

TEST(OutputsTest, NamesWhatIsMissing) {
  const at::Tensor a = at::ones({1});
  const auto text = [](const Outputs& outputs) {
    return message_of([&] { outputs.named({"logits", "state"}, "Net, part 'tail'"); });
  };
  EXPECT_EQ(
      text(a),
      "forward returned 1 tensor, but 2 leave the stage: 'logits', 'state'; Net, part 'tail'; "
      "return these, or Values with their names");
  EXPECT_NE(text(Values{{"logits", a}, {"stat", a}}).find("did you mean 'stat'"),
            std::string::npos);
  EXPECT_NE(text(std::tuple(a, std::pair("logits", a))).find("with and without names"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::test
