#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/run_program.h"
#include "support/small_tokenizer.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using testing::ProgramResult;
using testing::quoted_for_shell;
using testing::run_shell;
using testing::run_sluice;

const std::string kTokenizers = std::string(SLUICE_TEST_DATA) + "/reference/tokenizers/";

Json read_json(const std::string& name) { return Json::parse(std::ifstream(kTokenizers + name)); }

std::string lines_of(const Json& values) {
  std::string text;
  for (const Json& value : values) text += value.dump() + "\n";
  return text;
}

Json values_of(const std::string& text) {
  Json values = Json::array();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) values.push_back(Json::parse(line));
  return values;
}

class DataCommandTest : public ::testing::Test {
 protected:
  ProgramResult tokenize(const std::string& input, std::vector<std::string> options = {},
                         const std::string& name = "llama3") {
    test::write_file(folder_ / "input", input);
    options.insert(options.begin(),
                   {"data", "tokenize", "--tokenizer", kTokenizers + name + ".json"});
    options.push_back(folder_ / "input");
    return run_sluice(options);
  }
  void expect_refused(const std::string& input, const std::string& out, const std::string& what,
                      const std::string& where, const std::vector<std::string>& options = {}) {
    const ProgramResult result = tokenize(input, options);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_EQ(result.out, out);
    EXPECT_NE(result.err.find(what), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("; " + (folder_ / "input") + where), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
    EXPECT_EQ(testing::parts_of(result.err), 3) << result.err;
  }

  const test::TempDirectory folder_;
};

TEST_F(DataCommandTest, InspectCountsRowsOfNumbersAlone) {
  const std::string path = folder_ / "images.jsonl";
  test::write_file(path, R"({"pixels": [[0.5, -1], [2, 3]], "label": 3, "name": "a"})"
                         "\n"
                         R"({"pixels": [[0, 1], [2, 4.5], [1, 1]], "label": 7})"
                         "\n");
  const ProgramResult result = run_sluice({"data", "inspect", "--json", path});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json file = Json::parse(result.out).at("files").at(0);
  EXPECT_EQ(file.at("rows"), 2);
  EXPECT_EQ(file.at("fields"), Json({{"pixels", 2}, {"label", 2}, {"name", 1}}));
  EXPECT_EQ(file.at("numbers").at("label"), Json({{"rows", 2},
                                                  {"integers", true},
                                                  {"sizes", Json::array()},
                                                  {"least", 3.0},
                                                  {"greatest", 7.0}}));
  const Json& pixels = file.at("numbers").at("pixels");
  EXPECT_EQ(pixels.at("sizes"), Json::parse("[[2, 3], [2, 2]]"));
  EXPECT_EQ(pixels.at("integers"), false);
  EXPECT_EQ(pixels.at("least"), -1.0);
  const std::string text = run_sluice({"data", "inspect", path}).out;
  EXPECT_NE(text.find("numbers[2 to 3, 2], -1 to 4.5, in 2 rows"), std::string::npos) << text;
  test::write_file(path, R"({"pixels": [[0.5, -1], [2]]})");
  const ProgramResult ragged = run_sluice({"data", "inspect", path});
  EXPECT_EQ(ragged.exit_code, 3);
  EXPECT_NE(ragged.err.find("images.jsonl:1"), std::string::npos) << ragged.err;
}

TEST_F(DataCommandTest, InspectNamesTheShapeAndMarksWhatCounts) {
  const std::string path = folder_ / "rows.json";
  test::write_file(path, R"([{"q": "a", "a": "b"},
                             {"q": "c", "a": "d"}])");
  const auto inspect = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"data", "inspect", path, "--tokenizer", "bytes"});
    return run_sluice(options);
  };
  const std::string names = "prompt=q,completion=a";
  const ProgramResult read = inspect({"--fields", names, "--json"});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  const Json file = Json::parse(read.out).at("files").at(0);
  EXPECT_EQ(file.at("shape"), "prompt and completion");
  EXPECT_EQ(file.at("rows"), 2);
  EXPECT_EQ(file.at("first").at(1).at("marked"), "c[d]");
  const std::string text = inspect({"--fields", names, "--train-on", "all"}).out;
  EXPECT_NE(text.find("rows of         prompt and completion"), std::string::npos) << text;
  EXPECT_NE(text.find("counted tokens  2"), std::string::npos) << text;
  EXPECT_EQ(inspect({"--fields", "prompt"}).exit_code, 2);
  EXPECT_EQ(inspect({"--fields", "prompt=q,prompt=a"}).exit_code, 2);
  EXPECT_EQ(inspect({"--train-on", "user"}).exit_code, 2);
  EXPECT_EQ(inspect({"--fields", names, "--train-on", "All"}).exit_code, 0);
  EXPECT_EQ(inspect({}).exit_code, 3);
}

TEST_F(DataCommandTest, TurnsEveryLineIntoIdsAndBack) {
  for (const char* name : {"llama3", "mistral"}) {
    const Json strings = read_json("strings.json"),
               expected = read_json(std::string(name) + ".expected.json");
    Json with_special = Json::array();
    for (Json ids : expected.at("ids")) {
      ids.insert(ids.begin(), expected.at("before").begin(), expected.at("before").end());
      with_special.push_back(ids);
    }
    const ProgramResult ids = tokenize(lines_of(strings), {}, name);
    EXPECT_EQ(ids.exit_code, 0) << ids.err;
    EXPECT_EQ(ids.err, "");
    EXPECT_EQ(values_of(ids.out), with_special) << name;
    const ProgramResult plain = tokenize(lines_of(strings), {"--no-special"}, name);
    EXPECT_EQ(values_of(plain.out), expected.at("ids")) << name;
    const ProgramResult text = tokenize(plain.out, {"--decode"}, name);
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_EQ(values_of(text.out), expected.at("text")) << name;
  }
}

TEST_F(DataCommandTest, ReadsStdinAndAFolder) {
  test::write_file(folder_ / "model/tokenizer.json", test::read_file(kTokenizers + "gpt2.json"));
  const std::string command = quoted_for_shell(SLUICE_PROGRAM) + " data tokenize --tokenizer " +
                              quoted_for_shell(folder_ / "model") + " -";
  const ProgramResult piped = run_shell("printf '\"Hello\"\\n\"\"\\n\"Hello\"' | " + command);
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  const Json lines = values_of(piped.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_FALSE(lines[0].empty());
  EXPECT_EQ(lines[1], Json::array());
  EXPECT_EQ(lines[2], lines[0]);
  const ProgramResult nothing = run_shell(command + " </dev/null");
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_EQ(nothing.out, "");
}

TEST_F(DataCommandTest, NamesTheLineThatItCannotRead) {
  const std::string first = tokenize("\"a\"\n").out;
  expect_refused("\"a\"\nb\n", first, "not valid JSON", ":2; ");
  expect_refused("\"a\"\n\n", first, "not valid JSON", ":2; ");
  expect_refused("{\"text\": \"a\"}\n", "", "expected a JSON string, found object", ":1; ");
  expect_refused("\"a\xff\"\n", "", "not valid JSON", ":1; ");
  expect_refused("[1, 2, \"a\"]\n", "", "found string", ":1; ", {"--decode"});
  expect_refused("\"a\"\n", "", "expected a JSON array of ids, found string", ":1; ", {"--decode"});
  expect_refused("[99999]\n", "", "no token has the id 99999", ":1, ", {"--decode"});
  expect_refused("[-1]\n", "", "whole numbers from 0", ":1; ", {"--decode"});
}

TEST_F(DataCommandTest, RefusesWhatItCannotUse) {
  const auto refused = [](const std::vector<std::string>& arguments, int exit_code,
                          const std::string& what) {
    const ProgramResult result = run_sluice(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(what), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
  };
  test::write_file(folder_ / "input", "\"a\"\n");
  const std::string input = folder_ / "input", tokenizer = kTokenizers + "gpt2.json";
  refused({"data", "tokenize", input}, 2, "--tokenizer is required");
  refused({"data", "tokenize", "--tokenizer", tokenizer}, 2, "FILE is required");
  refused({"data", "tokenize", "--tokenizer", tokenizer, "--decode", "--no-special", input}, 2,
          "--no-special has no effect with --decode");
  refused({"data", "tokenize", "--tokenizer", folder_ / "no.json", input}, 3, "no.json");
  refused({"data", "tokenize", "--tokenizer", tokenizer, folder_ / "none"}, 3, "none");
  refused({"data"}, 2, "command");
  refused({"data", "tokenise"}, 2, "did you mean 'tokenize'?");
  test::write_file(folder_ / "bad.json", "{\"model\": {\"type\": \"WordPiece\"}}");
  refused({"data", "tokenize", "--tokenizer", folder_ / "bad.json", input}, 3,
          "the model 'WordPiece' is not supported; " + (folder_ / "bad.json") +
              ": field 'model.type'; ");
}

TEST_F(DataCommandTest, ReadsADirectoryAsTrainingDoes) {
  test::SmallTokenizer tokenizer;
  tokenizer.special = {"<|im_start|>", "<|im_end|>"};
  test::write_file(folder_ / "model/tokenizer.json", tokenizer.json());
  test::write_file(folder_ / "model/tokenizer_config.json",
                   R"({"pad_token": "<new>", "chat_template": "{{ messages }}"})");
  test::write_file(folder_ / "input", "\"<new>a\"\n");
  const ProgramResult ids =
      run_sluice({"data", "tokenize", "--tokenizer", folder_ / "model", folder_ / "input"});
  EXPECT_EQ(ids.out, "[258,97]\n") << ids.err;
  EXPECT_EQ(ids.err, "");
  test::write_file(folder_ / "chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})"
                                           "\n");
  const ProgramResult seen =
      run_sluice({"data", "inspect", "--tokenizer", folder_ / "model", folder_ / "chat.jsonl"});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_NE(seen.err.find("model/tokenizer_config.json has its own chat template"),
            std::string::npos)
      << seen.err;
}

// Expects no control characters that affect a terminal, except newlines.
void expect_harmless(const std::string& text) {
  for (const char* part : {"\x1b", "\x07", "\xe2\x80\xae", "\xe2\x81\xa6", "\xc2\x9b"})
    EXPECT_EQ(text.find(part), std::string::npos) << text;
}

TEST_F(DataCommandTest, NamesAndTextsOfFilesDoNotSteerTheTerminal) {
  const std::string evil =
      "\x1b]0;owned\x07\x1b[2J\xe2\x80\xae\xe2\x81\xa6\xc2\x9b"
      "31m";
  const std::string data = folder_ / ("data" + evil + ".txt");
  test::write_file(data, "text " + evil + "\n");
  const std::string rows = folder_ / ("rows" + evil + ".jsonl");
  test::write_file(rows, Json({{"text", evil}, {"x" + evil, 1}}).dump() + "\n");
  const std::string config = folder_ / ("run" + evil + ".toml");
  test::write_file(config, "[model]\npath = \"" SLUICE_TEST_DATA
                           "/reference/models/llama_untied\"\n[data]\nfiles = [" +
                               Json(data).dump() +
                               "]\n[parallelism]\npipeline_parallel_degree = 2\n");
  const std::string modules = "[[\"layers.0" + evil + "\"],[\"layers.1\"]]";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"data", "inspect", data},
           {"data", "inspect", rows},
           {"config", "check", config},
           {"config", "show", config},
           {"plan", config},
           {"split", "--layers", "2", "--pp", "2", "--modules", modules},
           {"checkpoint", "list", folder_ / evil}}) {
    const ProgramResult result = run_sluice(words);
    expect_harmless(result.out + result.err);
    EXPECT_NE(result.out + result.err, "");
  }
}

TEST_F(DataCommandTest, ConfigCheckRefusesASplitThatLeavesNoRow) {
  test::write_file(folder_ / "rows.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const std::string config = folder_ / "run.toml";
  test::write_file(config, "[model]\npath = \"" SLUICE_TEST_DATA
                           "/reference/models/llama_untied\"\n[data]\nfiles = [\"rows.jsonl\"]\n"
                           "tokenizer = \"bytes\"\n[parallelism]\npipeline_parallel_degree = 2\n"
                           "[validation]\ninterval = 1\n");
  const auto check = [&](const std::string& split) {
    return run_sluice({"config", "check", config, "--validation.split", split});
  };
  const ProgramResult all = check("2");
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_NE(all.err.find("--validation.split"), std::string::npos) << all.err;
  EXPECT_EQ(check("1").exit_code, 0) << check("1").err;
}

TEST_F(DataCommandTest, InspectRefusesWhatTrainingRefusesWithAndWithoutATokenizer) {
  const std::string path = folder_ / "rows.jsonl";
  for (const std::string row :
       {R"({"messages": [{"role": "u"}, {"role": "assistant", "content": "yes"}]})",
        R"({"messages": [{"role": "user", "content": [{"type": "text", "value": "a"}]}]})",
        R"({"messages": [{"role": "model", "content": "a"}]})",
        R"({"messages": [{"role": "user", "content": "a", "tool_calls": [{"id": "1"}]}]})",
        R"({"messages": []})", R"({"prompt": "a", "completion": [{"role": "user"}]})",
        R"({"input_ids": [5, 6, 7], "loss_mask": [0, 0, 1]})",
        R"({"input_ids": [5, 6, 7], "labels": [-100, -100, -100]})",
        R"({"id": 3, "conversations": [{"from": "human", "text": "a"}]})",
        R"({"text": "a", "label": 1})"}) {
    test::write_file(path, row + "\n");
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{}, {"--tokenizer", "bytes", "--chat-template", "chatml"}}) {
      std::vector<std::string> arguments = {"data", "inspect", path};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const ProgramResult result = run_sluice(arguments);
      EXPECT_EQ(result.exit_code, 3) << row << result.err;
      EXPECT_EQ(result.out, "") << row;
      EXPECT_NE(result.err.find("rows.jsonl"), std::string::npos) << result.err;
    }
  }
}

TEST_F(DataCommandTest, InspectChecksTheOrderOfRolesWithoutATokenizerToo) {
  const std::string path = folder_ / "rows.jsonl";
  test::write_file(path, R"({"messages": [{"role": "assistant", "content": "a"}]})"
                         "\n");
  EXPECT_EQ(run_sluice({"data", "inspect", path}).exit_code, 0);
  for (const std::string format : {"mistral", "gemma"}) {
    const ProgramResult result = run_sluice({"data", "inspect", path, "--chat-template", format});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_NE(result.err.find("where 'user' is expected"), std::string::npos) << result.err;
  }
}

TEST_F(DataCommandTest, InspectMarksTheTokensThatCount) {
  const std::string path = folder_ / "rows.jsonl";
  test::write_file(path, R"({"messages": [{"role": "user", "content": "ab"}, )"
                         R"({"role": "assistant", "content": "cd", "weight": 0}, )"
                         R"({"role": "assistant", "content": "ef"}]})"
                         "\n");
  const std::string completion = folder_ / "completion.jsonl";
  test::write_file(completion, R"({"prompt": "gh", "completion": "ij"})"
                               "\n");
  std::vector<std::string> arguments = {"data",
                                        "inspect",
                                        path,
                                        completion,
                                        "--tokenizer",
                                        "bytes",
                                        "--chat-template",
                                        "chatml",
                                        "--assistant-only-loss"};
  const std::string text = run_sluice(arguments).out;
  EXPECT_NE(text.find("assistant cd<|im_end|> <|im_start|>assistant [ef<|im_end|>]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("gh[ij]"), std::string::npos) << text;
  arguments.emplace_back("--json");
  const Json files = Json::parse(run_sluice(arguments).out).at("files");
  EXPECT_EQ(files.at(0).at("counted_tokens"), 12);
  EXPECT_EQ(files.at(1).at("counted_tokens"), 2);
  const Json& row = files.at(1).at("first").at(0);
  EXPECT_EQ(row.at("ids"), Json({'g', 'h', 'i', 'j'}));
  EXPECT_EQ(row.at("counted"), Json({false, false, true, true}));
  EXPECT_EQ(row.at("decoded"), "ghij");
  EXPECT_EQ(row.at("marked"), "gh[ij]");
}

TEST_F(DataCommandTest, InspectReadsTheModelsFamilyAsTrainingDoes) {
  const std::string path = folder_ / "rows.jsonl";
  test::write_file(path, R"({"messages": [{"role": "user", "content": "a"}]})"
                         "\n");
  test::write_file(folder_ / "model/config.json", R"({"model_type": "qwen3"})");
  test::write_file(folder_ / "model/tokenizer.json", test::SmallTokenizer().json());
  const ProgramResult lacking =
      run_sluice({"data", "inspect", "--tokenizer", folder_ / "model", path});
  EXPECT_EQ(lacking.exit_code, 3);
  EXPECT_NE(lacking.err.find("needs the special token '<|im_start|>'"), std::string::npos)
      << lacking.err;
}

TEST_F(DataCommandTest, TheEndOfTextsCanBeAppendedAndIsMissed) {
  test::SmallTokenizer tokenizer;
  tokenizer.special = {"</s>"};
  test::write_file(folder_ / "model/tokenizer.json", tokenizer.json());
  test::write_file(folder_ / "model/tokenizer_config.json", R"({"eos_token": "</s>"})");
  test::write_file(folder_ / "rows.jsonl", "{\"text\": \"ab\"}\n");
  std::vector<std::string> arguments = {"data",        "inspect",         "--json",
                                        "--tokenizer", folder_ / "model", folder_ / "rows.jsonl"};
  const ProgramResult without = run_sluice(arguments);
  EXPECT_NE(without.err.find("texts end without the end token '</s>'"), std::string::npos);
  EXPECT_EQ(Json::parse(without.out).at("files").at(0).at("tokens"), 2);
  arguments.emplace_back("--append-eos");
  const ProgramResult with = run_sluice(arguments);
  EXPECT_EQ(with.err, "");
  EXPECT_EQ(Json::parse(with.out).at("files").at(0).at("tokens"), 3);
}

TEST_F(DataCommandTest, ATokenizerOfAnotherFormIsNamed) {
  test::write_file(folder_ / "input", "\"a\"\n");
  const auto says = [&](const std::string& path) {
    const ProgramResult result =
        run_sluice({"data", "tokenize", "--tokenizer", path, folder_ / "input"});
    EXPECT_EQ(result.exit_code, 3);
    return result.err;
  };
  test::write_file(folder_ / "model/tokenizer.model", "x");
  EXPECT_NE(says(folder_ / "model").find("only 'tokenizer.model', which"), std::string::npos);
  test::write_file(folder_ / "pointer/tokenizer.json",
                   "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 17\n");
  EXPECT_NE(says(folder_ / "pointer").find("a Git LFS pointer: run git lfs pull"),
            std::string::npos);
  EXPECT_NE(says("Qwen/Qwen2.5-0.5B")
                .find("hf download Qwen/Qwen2.5-0.5B --local-dir models/Qwen2.5-0.5B"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
