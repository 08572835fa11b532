#include "base/packer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "support/expect_error.h"

namespace sluice {
namespace {

using test::error_of;
using test::message_of;

Packer example() {
  Packer writer;
  writer.add(true).add(-7).add(0.1).add(std::string("a\0b\n", 4));
  writer.add(std::vector<bool>{true, false});
  writer.add(std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 0});
  writer.add(std::vector<double>{-0.0, std::numeric_limits<double>::infinity()});
  writer.add(std::vector<std::string>{"", "layers.0.weight"});
  return writer;
}

void read_example(const std::string& bytes) {
  Unpacker reader(bytes, "example");
  reader.take<bool>();
  reader.take<int>();
  reader.take<double>();
  reader.take<std::string>();
  reader.take<std::vector<bool>>();
  reader.take<std::vector<std::int64_t>>();
  reader.take<std::vector<double>>();
  reader.take<std::vector<std::string>>();
  reader.finish();
}

TEST(PackerTest, GivesBackWhatWasWritten) {
  Unpacker reader(example().bytes(), "example");
  EXPECT_TRUE(reader.take<bool>());
  EXPECT_EQ(reader.take<int>(), -7);
  EXPECT_EQ(reader.take<double>(), 0.1);
  EXPECT_EQ(reader.take<std::string>(), std::string("a\0b\n", 4));
  EXPECT_EQ(reader.take<std::vector<bool>>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(reader.take<std::vector<std::int64_t>>(),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 0}));
  const auto doubles = reader.take<std::vector<double>>();
  ASSERT_EQ(doubles.size(), 2u);
  EXPECT_TRUE(std::signbit(doubles[0]));
  EXPECT_EQ(doubles[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(reader.take<std::vector<std::string>>(),
            (std::vector<std::string>{"", "layers.0.weight"}));
  reader.finish();
}

TEST(PackerTest, WritesTheSameBytesOnEveryMachine) {
  Packer writer;
  writer.add(258).add(true).add(std::vector<std::string>{"x"});
  EXPECT_EQ(writer.bytes(), std::string("i\2\1\0\0\0\0\0\0"
                                        "b\1"
                                        "S\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0x",
                                        9 + 2 + 18));
}

TEST(PackerTest, NamesWhatWasExpectedAndWhatWasFound) {
  const std::string message = message_of(
      [] { Unpacker(Packer().add(1.5).bytes(), "losses of rank 2").take<std::string>(); });
  EXPECT_NE(message.find("expected a string, found a double before byte 1; losses of rank 2"),
            std::string::npos)
      << message;
  EXPECT_NE(message_of([] {
              Unpacker(Packer().add(std::vector<int>{1}).bytes(), "").take<int>();
            }).find("expected an integer, found a list of integers"),
            std::string::npos);
  EXPECT_NE(message_of([] { Unpacker("", "").take<bool>(); }).find("found the end"),
            std::string::npos);
  EXPECT_NE(message_of([] { Unpacker("b\2", "").take<bool>(); }).find("found a byte 2"),
            std::string::npos);
  EXPECT_EQ(error_of([] { Unpacker("", "").take<bool>(); }).kind(), ErrorKind::kPeer);
}

TEST(PackerTest, RefusesAMessageThatGoesOn) {
  const std::string message = message_of([] { Unpacker(Packer().add(true).bytes(), "").finish(); });
  EXPECT_NE(message.find("expected the end, found 2 bytes"), std::string::npos) << message;
}

TEST(PackerTest, RefusesIntegersThatDoNotFit) {
  const std::string large = Packer().add(std::int64_t{1} << 40).bytes();
  EXPECT_EQ(Unpacker(large, "").take<std::int64_t>(), std::int64_t{1} << 40);
  const std::string message = message_of([&] { Unpacker(large, "").take<int>(); });
  EXPECT_NE(message.find("expected an integer of 32 bits, found 1099511627776"), std::string::npos)
      << message;
  EXPECT_THROW(Unpacker(Packer().add(-1).bytes(), "").take<std::uint64_t>(), Error);
}

TEST(PackerTest, RefusesEveryMessageThatEndsEarly) {
  const std::string whole = example().bytes();
  read_example(whole);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(error_of([&] { read_example(whole.substr(0, length)); }).kind(), ErrorKind::kPeer)
        << length;
  }
}

TEST(PackerTest, RefusesLengthsThatTheMessageHasNoRoomForBeforeAllocating) {
  for (const char tag : {'s', 'B', 'I', 'D', 'S'}) {
    const std::string bytes = tag + std::string(7, '\xff') + '\x7f' + "rest";
    const auto read = [&] {
      Unpacker reader(bytes, "");
      switch (tag) {
        case 's':
          return void(reader.take<std::string>());
        case 'B':
          return void(reader.take<std::vector<bool>>());
        case 'I':
          return void(reader.take<std::vector<int>>());
        case 'D':
          return void(reader.take<std::vector<double>>());
        default:
          return void(reader.take<std::vector<std::string>>());
      }
    };
    EXPECT_NE(message_of(read).find("expected room for 9223372036854775807 elements"),
              std::string::npos)
        << tag << ": " << message_of(read);
  }
}

// Reads values by the tags in the bytes, so that random bytes get past the first tag.
void read_as_tagged(const std::string& bytes) {
  Unpacker reader(bytes, "");
  for (const char tag : bytes) {
    switch (tag) {
      case 'b':
        reader.take<bool>();
        break;
      case 'i':
        reader.take<int>();
        break;
      case 'd':
        reader.take<double>();
        break;
      case 's':
        reader.take<std::string>();
        break;
      case 'B':
        reader.take<std::vector<bool>>();
        break;
      case 'I':
        reader.take<std::vector<std::int64_t>>();
        break;
      case 'D':
        reader.take<std::vector<double>>();
        break;
      default:
        reader.take<std::vector<std::string>>();
    }
  }
  reader.finish();
}

TEST(PackerTest, RandomBytesAreReadOrRefusedButNeverCrash) {
  std::mt19937 random(5);
  const std::string alphabet = std::string("bidsBIDS\0\0\0\0\0\0\1\2\x7f\xff", 18);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = alphabet[random() % alphabet.size()];
    try {
      read_as_tagged(bytes);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kPeer);
    }
  }
}

TEST(PackerTest, AChangedByteIsReadOrRefusedButNeverCrashes) {
  std::mt19937 random(6);
  const std::string whole = example().bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int round = 0; round < 8; ++round) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(random());
      try {
        read_example(bytes);
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::kPeer);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
