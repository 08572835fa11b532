#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "archive/exported_graph.h"
#include "archive/graph_json.h"
#include "archive/small_graph.h"
#include "support/fuzz_corpus.h"
#include "support/mutate.h"

extern "C" int fuzz_graph_json(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_zip_file(const std::uint8_t* data, std::size_t size);

namespace sluice::detail {
namespace {

int run(int (*target)(const std::uint8_t*, std::size_t), const std::string& bytes) {
  return target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

TEST(ArchiveFuzzCorpusTest, ReplaysTheZipFilesFoundSoFar) {
  testing::replay("zip_file", fuzz_zip_file);
}

TEST(ArchiveFuzzCorpusTest, ReplaysTheGraphsFoundSoFar) {
  testing::replay("graph_json", fuzz_graph_json);
}

TEST(ArchiveFuzzCorpusTest, ReadsOrRefusesChangesOfASmallArchive) {
  std::mt19937 random(1);
  const std::vector<std::string> archives = {test::SmallArchive().bytes()};
  const std::vector<std::string> programs = {test::small_program().dump(), "\"as_tensors\"",
                                             "{\"as_none\": true}", "Mul(Integer(2), s0)"};
  for (int i = 0; i < 3000; ++i) {
    EXPECT_EQ(run(fuzz_zip_file, test::mutate(archives[0], archives, random)), 0);
    EXPECT_EQ(run(fuzz_graph_json, test::mutate(programs[0], programs, random)), 0);
  }
}

}  // namespace
}  // namespace sluice::detail
