#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "config/run_config.h"
#include "sluice/error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

class DataFilesTest : public testing::Test {
 protected:
  DataFilesTest() {
    for (const char* name : {"b.txt", "a.txt", "c.md", ".hidden.txt", "x[1].txt", "x1.txt",
                             "deep/d.txt", "deep/er/e.txt", "deep/.git/f.txt"}) {
      test::write_file(folder_ / name, "text");
    }
  }
  // The names are relative to the folder.
  std::vector<std::string> names(const std::vector<std::string>& patterns) {
    std::vector<std::string> found = expand_data_files(config(patterns));
    for (std::string& name : found) name = name.substr(folder_.str().size() + 1);
    return found;
  }
  RunConfig config(const std::vector<std::string>& patterns) {
    RunConfig result = load_run_config("", {}, {});
    for (const std::string& pattern : patterns) {
      result.data.files.push_back(folder_.str() + "/" + pattern);
    }
    result.origins["data.files"] = "run.toml:2:1";
    return result;
  }
  std::string refusal(const std::vector<std::string>& patterns, int code) {
    try {
      expand_data_files(config(patterns));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), code);
      std::string message = error.what();
      for (std::size_t at; (at = message.find(folder_.str())) != std::string::npos;) {
        message.replace(at, folder_.str().size(), "D");
      }
      return message;
    }
    return "accepted";
  }
  using Names = std::vector<std::string>;
  test::TempDirectory folder_;
};

TEST_F(DataFilesTest, AStarMatchesWithinAFolderAndSortsByName) {
  EXPECT_EQ(names({"*.txt"}), (Names{"a.txt", "b.txt", "x1.txt", "x[1].txt"}));
  EXPECT_EQ(names({"?.*"}), (Names{"a.txt", "b.txt", "c.md"}));
  EXPECT_EQ(names({"d*/*.txt"}), (Names{"deep/d.txt"}));
}

TEST_F(DataFilesTest, TwoStarsMatchAnyDepthButHiddenFolders) {
  EXPECT_EQ(names({"deep/**/*.txt"}), (Names{"deep/d.txt", "deep/er/e.txt"}));
  EXPECT_EQ(names({"deep/**"}), (Names{"deep/d.txt", "deep/er/e.txt"}));
  EXPECT_EQ(names({"**/**/e.txt"}), (Names{"deep/er/e.txt"}));
}

TEST_F(DataFilesTest, TwoStarsDoNotFollowLinksSoThatCirclesEnd) {
  std::filesystem::create_directory_symlink(folder_.str(), (folder_ / "deep/circle"));
  EXPECT_EQ(names({"deep/**/*.txt"}), (Names{"deep/d.txt", "deep/er/e.txt"}));
  EXPECT_EQ(names({"deep/circle/deep/*.txt"}), (Names{"deep/circle/deep/d.txt"}));
}

TEST_F(DataFilesTest, AFileThatExistsIsItselfWhateverItsName) {
  EXPECT_EQ(names({"x[1].txt"}), (Names{"x[1].txt"}));
  EXPECT_EQ(names({".hidden.txt"}), (Names{".hidden.txt"}));
}

TEST_F(DataFilesTest, KeepsTheOrderOfPatternsAndReadsAFileOnce) {
  EXPECT_EQ(names({"b.txt", "[ab].txt", "a.txt"}), (Names{"b.txt", "a.txt"}));
}

TEST_F(DataFilesTest, RefusesAPatternWithoutFiles) {
  EXPECT_EQ(refusal({"a.txt", "*.jsonl"}, 3),
            "no file matches 'D/*.jsonl'; run.toml:2:1; nothing in the folder 'D' matches: correct "
            "the name or the pattern");
  EXPECT_EQ(refusal({"none/x.txt"}, 3),
            "no file matches 'D/none/x.txt'; run.toml:2:1; there is no folder 'D/none': correct "
            "the path (relative paths in a configuration file start at its folder, others at the "
            "working folder)");
  EXPECT_EQ(refusal({"deep"}, 3), "'D/deep' is a folder; run.toml:2:1; write 'D/deep/**/*.txt'");
  EXPECT_EQ(refusal({}, 2),
            "data.files names no file; run.toml:2:1; "
            "for example data.files = [\"corpus/*.txt\"]");
}

TEST_F(DataFilesTest, SaysWhatAPatternMatchesThatIsNoFile) {
  std::filesystem::create_symlink("nowhere", folder_ / "dangling.txt2");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::string copy = "copy its content into a file, and name that file";
  EXPECT_EQ(refusal({"pipe"}, 3), "'D/pipe' is not a regular file; run.toml:2:1; " + copy);
  EXPECT_EQ(refusal({"pip*"}, 3),
            "no file matches 'D/pip*': 'D/pipe' is not a regular file; run.toml:2:1; " + copy);
  EXPECT_EQ(refusal({"dangling.txt2"}, 3),
            "'D/dangling.txt2' is a broken symbolic link; run.toml:2:1; correct the link, or name "
            "another file");
  EXPECT_EQ(
      refusal({"*.txt2"}, 3),
      "no file matches 'D/*.txt2': 'D/dangling.txt2' is a broken symbolic link; run.toml:2:1; "
      "correct the link, or name another file");
  EXPECT_EQ(refusal({"de?p"}, 3),
            "no file matches 'D/de?p': 'D/deep' is a folder; run.toml:2:1; write "
            "'D/deep/**/*.txt'");
  EXPECT_EQ(names({"*"}), (Names{"a.txt", "b.txt", "c.md", "x1.txt", "x[1].txt"}));
}

TEST_F(DataFilesTest, RefusesEndingsThatAreCertainlyNoTextUnlessTheFormatIsSaid) {
  for (const std::string ending : {"gz", "zst", "zip", "parquet", "arrow", "npy", "csv",
                                   "safetensors", "pt", "pt2", "Csv", "Gz"}) {
    const std::string name = "data.txt." + ending;
    test::write_file(folder_ / name, "x");
    const std::string says = refusal({name}, 3);
    EXPECT_EQ(says.find("'D/" + name + "' is not text, by its ending; run.toml:2:1; "), 0u) << says;
    RunConfig text = config({name});
    text.data.format = DataFormat::kText;
    EXPECT_EQ(expand_data_files(text).size(), 1u);
  }
  test::write_file(folder_ / "a.h", "x");
  test::write_file(folder_ / "rows.JSONL", "{}");
  EXPECT_EQ(names({"a.h", "rows.JSONL"}), (Names{"a.h", "rows.JSONL"}));
}

TEST_F(DataFilesTest, FilesAreLookedAtBeforeAnythingIsPlanned) {
  test::write_file(folder_ / "a.jsonl.xz", std::string("\xfd"
                                                       "7zXZ\0\0\4",
                                                       8));
  EXPECT_EQ(refusal({"a.jsonl.xz"}, 3).find("'D/a.jsonl.xz' is compressed by xz; run.toml:2:1; "),
            0u);
  test::write_file(folder_ / "rows.txt", "{\"text\": \"a\"}\n");
  EXPECT_NE(refusal({"rows.txt"}, 3).find("holds rows of JSON"), std::string::npos);
  RunConfig text = config({"rows.txt"});
  text.data.format = DataFormat::kText;
  EXPECT_EQ(expand_data_files(text).size(), 1u);
}

TEST_F(DataFilesTest, TextNeedsATokenizerThatIsReadWhereTheModelHasOne) {
  test::write_file(folder_ / "model/config.json", "{}");
  test::write_file(folder_ / "model/vocab.json", "{}");
  test::write_file(folder_ / "ids.jsonl", "{\"input_ids\": [1, 2]}\n");
  const auto says = [&](const std::string& file, const std::string& path,
                        const std::string& of_config) {
    RunConfig run = config({file});
    run.model.path = path.empty() ? "" : folder_ / path;
    run.model.config = of_config.empty() ? "" : folder_ / of_config;
    try {
      require_tokenizer(run);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 3);
      return std::string(error.what());
    }
    return std::string();
  };
  for (const auto& [path, of_config] :
       {std::pair("model", ""), std::pair("", "model/config.json"), std::pair("", "model")}) {
    EXPECT_NE(says("a.txt", path, of_config).find("'vocab.json'"), std::string::npos);
    EXPECT_EQ(says("ids.jsonl", path, of_config), "");
    EXPECT_EQ(says("none.txt", path, of_config), "") << "a plan needs no data";
  }
  std::filesystem::remove(folder_ / "model/vocab.json");
  EXPECT_EQ(says("a.txt", "model", ""), "");
}

TEST_F(DataFilesTest, APairOfMegatronIsOneFileByEitherName) {
  test::write_file(folder_ / "t.bin", "x");
  test::write_file(folder_ / "t.idx", "x");
  EXPECT_EQ(names({"t.*"}), (Names{"t.bin"}));
  EXPECT_EQ(names({"t.idx"}), (Names{"t.bin"}));
  test::write_file(folder_ / "alone.idx", "x");
  EXPECT_EQ(refusal({"alone.idx"}, 3),
            "'D/alone.idx' is the index of a .bin, which is not beside it; "
            "run.toml:2:1; put 'D/alone.bin' there");
  RunConfig text = config({"t.*"});
  text.data.format = DataFormat::kText;
  EXPECT_EQ(expand_data_files(text).size(), 2u);
}

TEST_F(DataFilesTest, KnowsWhichFilesAreOfWhichPattern) {
  RunConfig patterns = config({"a.txt", "*.txt", "c.md"});
  const std::vector<std::vector<std::string>> entries = expand_data_entries(patterns);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].size(), 1u);
  EXPECT_EQ(entries[1].size(), 3u) << "a.txt is of the first";
  EXPECT_EQ(entries[2].size(), 1u);
}

TEST(DataWordsTest, EveryWordOfAConfigurationIsAnEnumeratorAndBack) {
  const RunConfig config = load_run_config("", {{"data.format", "jsonl"}}, {});
  EXPECT_FALSE(config.data.assistant_only_loss);
  EXPECT_EQ(config.data.format, DataFormat::kJsonl);
  EXPECT_EQ(config.data.pad, Padding::kSeqLen);
  EXPECT_EQ(config.data.chat_template, ChatTemplate::kAuto);
  EXPECT_NE(show_config_changes(config).find("\"jsonl\""), std::string::npos)
      << show_config_changes(config);
}

}  // namespace
}  // namespace sluice
