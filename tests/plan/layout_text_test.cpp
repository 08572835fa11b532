#include "plan/partition/layout_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::layout_text_test {
namespace {

using detail::expand_layout;
using detail::modules_of_layout;
using Texts = std::vector<std::string>;

TEST(LayoutTextTest, ExpandsRepetitionsLikeMegatron) {
  EXPECT_EQ(expand_layout("Ett|ttL"), (Texts{"Ett", "ttL"}));
  EXPECT_EQ(expand_layout("Et*3|(tt|)*3,m|L"), (Texts{"Ettt", "tt", "tt", "tt", "m", "L"}));
  EXPECT_EQ(expand_layout("(|t)*2,tL"), (Texts{"", "t", "ttL"}));
  EXPECT_EQ(expand_layout("(t*2|)*2L"), (Texts{"tt", "tt", "L"}));
  EXPECT_EQ(expand_layout("E|*2L"), (Texts{"E", "", "L"}));
}

TEST(LayoutTextTest, ShortensWhatItExpands) {
  for (const char* text : {"E|t|(tt|)*4t*9L", "EttL", "E|(t*3|)*2m|L", "(tt|)*2tt|L", "E|L"}) {
    const Texts stages = expand_layout(text);
    EXPECT_EQ(expand_layout(detail::shorten_layout(stages)), stages) << text;
  }
  EXPECT_EQ(detail::shorten_layout({"Ett", "ttt", "ttt", "tL"}), "Ett|(t*3|)*2tL");
  EXPECT_EQ(detail::shorten_layout({"Ett", "tt", "tt"}), "Ett|tt|tt");
}

TEST(LayoutTextTest, NamesTheCharacterThatItCannotRead) {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"Etx|L", "an unknown character at character 3"},
           {"E t|L", "an unknown character at character 2"},
           {"E(t|L", "a ')' is missing at character 6"},
           {"E(t|)L", "a '*' and a number are missing at character 6"},
           {"E((t|)*2)*2L", "a '(' inside another at character 3"},
           {"Et*0|L", "a number above 0 is missing at character 5"},
           {"Et*|L", "a number above 0 is missing at character 4"},
           {"Et*1000000L", "too large a number at character 9"},
           {"E(t*99|)*99999L", "too many layers"}}) {
    const Error error = test::error_of([&] { expand_layout(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.fact().find(what), std::string::npos) << error.what();
  }
}

TEST(LayoutTextTest, RefusesLayoutsThatDoNotFitTheModel) {
  const ModelSpec model = model_spec_of_blocks(4);
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"Ett|tL", "the layout has t 3 times, but the model has 4 decoder layers"},
           {"tt|ttL", "the layout has E 0 times, but the model has 1 embedding"},
           {"Ett|tt", "the layout has L 0 times, but the model has 1 head"},
           {"Ett|ttmL", "the layout has m 1 times, but the model has 0 MTP layers"},
           {"ttE|ttL", "the layout has E after t"},
           {"Ett||ttL", "stage 1 of the layout has no layer of the model"}}) {
    const Error error = test::error_of([&] { modules_of_layout(model, text); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.fact(), what);
  }
}

TEST(LayoutTextTest, ReadsModuleListsByTheNamesOfEachTrainer) {
  const ModelSpec model = model_spec_of_blocks(2);
  const ModuleNames wanted = {{"model.embed_tokens", "model.layers.0"},
                              {"model.layers.1", "model.norm", "lm_head"}};
  for (const char* text : {R"([["tok_embeddings","layers.0"],["layers.1","norm","lm_head"]])",
                           R"([["tok_embeddings","layers.0"],["layers.1","norm","output"]])",
                           R"([["model.embed_tokens","model.layers.0","model.rotary_emb"],
                               ["model.layers.1","model.norm","lm_head","model.rotary_emb"]])"})
    EXPECT_EQ(modules_of_layout(model, text), wanted) << text;
  const ModuleNames unknown = modules_of_layout(model, R"([["layers.9"]])");
  EXPECT_EQ(unknown, (ModuleNames{{"layers.9"}}));  // make_partition() explains it
}

}  // namespace
}  // namespace sluice::layout_text_test
