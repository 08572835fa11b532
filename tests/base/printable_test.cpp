#include "base/printable.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

const std::string kReplaced = "\xef\xbf\xbd";  // U+FFFD

TEST(PrintableTest, NothingThatSteersATerminalIsLeft) {
  EXPECT_EQ(printable("a\x1b[2Jb\x07"), "a?[2Jb?");
  EXPECT_EQ(printable("line\nbreak\ttab\rback"), "line break tab back");
  EXPECT_EQ(printable("c1 \xc2\x9b"
                      "2J"),
            "c1 ?2J");
  // U+202E, U+2066, U+200F and U+061C change the text direction. U+2028 starts a line.
  EXPECT_EQ(printable("gpj\xe2\x80\xae"
                      "exe"),
            "gpj?exe");
  EXPECT_EQ(printable("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8"), "????");
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            kReplaced + "2J");  // C1 control of an 8-bit terminal
}

TEST(PrintableTest, PrintableTextComesBackUnchanged) {
  const std::string text =
      "Gr\xc3\xb6\xc3\x9f"
      "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 'x'";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable_lines(text + "\n\tx\r\n"), text + "\n\tx\r\n");
  EXPECT_EQ(printable_lines("over\rwritten"), "over written");
}

TEST(PrintableTest, LinesKeepTheirColoursOnRequestAlone) {
  const std::string text = "\x1b[1;32mok\x1b[0m\n\x1b]0;title\x07\x1b[2J\x1b[31";
  EXPECT_EQ(printable_lines(text), "?[1;32mok?[0m\n?]0;title??[2J?[31");
  EXPECT_EQ(printable_lines(text, Colors::kKeep), "\x1b[1;32mok\x1b[0m\n?]0;title??[2J?[31");
}

TEST(PrintableTest, BytesThatAreNotUtf8AreReplacedAsUnicodeSays) {
  const std::string valid = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  EXPECT_EQ(valid_utf8(valid), valid);
  EXPECT_EQ(valid_utf8("\x80"
                       "a\xff"),
            kReplaced + "a" + kReplaced);
  EXPECT_EQ(valid_utf8("a\xe2\x82"), "a" + kReplaced);  // truncated: one maximal subpart
  EXPECT_EQ(valid_utf8("\xe2\x82"
                       "b"),
            kReplaced + "b");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), kReplaced + kReplaced);                  // overlong
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), kReplaced + kReplaced + kReplaced);  // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), kReplaced + kReplaced + kReplaced + kReplaced);
}

}  // namespace
}  // namespace sluice
