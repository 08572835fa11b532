#include "config/peer_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"
#include "config/key_table.h"

namespace sluice::detail {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

TEST(PeerKeysTest, EveryKeyOfOursThatIsNamedExists) {
  const std::vector<std::string> keys = config_keys(), sections = section_names();
  for (const PeerKey& peer : peer_keys()) {
    const std::vector<std::string> parts = split(peer.here, '`');
    ASSERT_FALSE(parts.empty()) << peer.name;
    for (std::size_t i = 1; i < parts.size(); i += 2) {
      if (parts[i].starts_with("sluice ")) continue;
      EXPECT_TRUE(contains(keys, parts[i])) << peer.name << ": " << parts[i];
    }
    if (const std::string text = peer.here; text.starts_with("the keys of [")) {
      EXPECT_TRUE(contains(sections, text.substr(13, text.size() - 14))) << text;
    }
  }
}

// Such a row would never be reached, or would hide one of our keys.
TEST(PeerKeysTest, PeerKeysAreUniqueAndNotOurs) {
  std::set<std::string> names;
  for (const Key& key : key_table()) names.insert({key.name, key.full_name()});
  for (const std::string& section : section_names()) names.insert(section + ".*");
  for (const PeerKey& peer : peer_keys()) {
    EXPECT_TRUE(names.insert(peer.name).second) << peer.name;
  }
}

TEST(PeerKeysTest, TheReferenceAnswersEachInTheListOfItsLibrary) {
  std::map<std::string, std::string> answers;  // keyed by "library name"
  std::string library;
  for (const std::string& line : split(peer_reference(), '\n')) {
    if (line.starts_with("## ")) library = line.substr(3);
    if (!line.starts_with("- ")) continue;
    const std::size_t colon = line.find(": ");
    for (const std::string& name : split(line.substr(2, colon - 2), ','))
      answers[library + " " + std::string(trim(name))] = line.substr(colon + 2);
  }
  EXPECT_EQ(answers.size(), peer_keys().size());
  for (const PeerKey& peer : peer_keys())
    EXPECT_EQ(answers[std::string(peer.library) + " `" + peer.name + "`"], peer.here) << peer.name;
}

// The page breaks long items into several lines.
TEST(PeerKeysTest, ThePageIsTheGeneratedOne) {
  std::ifstream stream(std::string(SLUICE_TEST_DATA) + "/../docs/other-libraries.md");
  const std::string page((std::istreambuf_iterator<char>(stream)), {});
  const std::string lists = peer_reference().substr(peer_reference().find("## "));
  EXPECT_NE(replace_all(page, "\n  ", " ").find(lists), std::string::npos)
      << "write the end of `sluice config reference` into docs/other-libraries.md, and run "
         "tools/wrap_pages.py on it";
}

TEST(PeerKeysTest, AHyphenIsAnUnderscore) {
  ASSERT_NE(find_peer_key("micro-batch-size"), nullptr);
  EXPECT_EQ(explain(*find_peer_key("micro-batch-size")),
            "Megatron's name, which here is training.microbatch_size");
  EXPECT_EQ(find_peer_key("micro"), nullptr);
}

}  // namespace
}  // namespace sluice::detail
