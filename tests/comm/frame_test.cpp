#include "comm/frame.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/pair_proof.h"
#include "comm/process_ranks.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace {

FrameHead sample_collective() {
  return CollectiveHead{
      "world/3.1", 7, 2, {"all_reduce of float32[3]", std::string("\0x", 2)}, {-1, 0}};
}

TEST(FrameTest, AnOutlineIsReadAsItWasWritten) {
  const at::Tensor tensor = at::ones({2, 3}).t();
  const FrameOutline got = read_outline(
      write_outline(sample_collective(), {TensorLayout(tensor), TensorLayout()}), "here");
  const auto& head = std::get<CollectiveHead>(got.head);
  EXPECT_EQ(head.group, "world/3.1");
  EXPECT_EQ(head.number, 7u);
  EXPECT_EQ(head.member, 2);
  EXPECT_EQ(head.note.call, "all_reduce of float32[3]");
  EXPECT_EQ(head.note.bytes, std::string("\0x", 2));
  EXPECT_EQ(head.pieces, (std::vector<std::int64_t>{-1, 0}));
  ASSERT_EQ(got.layouts.size(), 2u);
  EXPECT_EQ(got.layouts[0].num_bytes(), 24);
  EXPECT_FALSE(got.layouts[1].defined());

  const FrameOutline message = read_outline(
      write_outline(MessageHead{3, 1, ChannelKind::kGradient, {1, 2, 1LL << 40}}, {}), "here");
  EXPECT_EQ(std::get<MessageHead>(message.head).tag, (MessageTag{1, 2, 1LL << 40}));
  const FrameOutline abort =
      read_outline(write_outline(AbortHead{{4, ErrorKind::kMemory, "no memory"}}, {}), "here");
  EXPECT_EQ(std::get<AbortHead>(abort.head).failure.message, "no memory");
}

TEST(FrameTest, EveryChangedOrMissingByteIsReadOrRefusedAndAllocatesNothingHuge) {
  const std::string whole =
      write_outline(sample_collective(), {TensorLayout(at::ones({4, 5}).slice(1, 1, 3))});
  int refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      try {
        const FrameOutline outline = read_outline(changed, "there");
        for (const TensorLayout& layout : outline.layouts) {
          EXPECT_GE(layout.num_bytes(), 0);
          EXPECT_LE(layout.num_bytes(), std::int64_t{1} << 36);
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeer);
        ++refused;
      }
    }
    EXPECT_THROW(read_outline(whole.substr(0, i), "there"), Error);
  }
  EXPECT_GT(refused, 100);
}

std::string outline_of(int dtype, std::int64_t alignment, const std::vector<std::int64_t>& sizes,
                       const std::vector<std::int64_t>& strides, bool requires_grad = false) {
  const std::string nothing = write_outline(GoodbyeHead{}, {});
  Packer writer;
  writer.add(std::size_t{3}).add(std::size_t{1}).add(true).add(dtype).add(0).add(-1);
  writer.add(requires_grad).add(alignment).add(sizes).add(strides);
  return writer.bytes();
}

TEST(FrameTest, RefusesLayoutsThatNoTensorHas) {
  constexpr int kFloat = static_cast<int>(at::kFloat), kLong = static_cast<int>(at::kLong);
  EXPECT_EQ(read_outline(outline_of(kFloat, 4, {2, 3}, {3, 1}), "x").layouts[0].num_bytes(), 24);
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  for (const std::string& bytes :
       {outline_of(999, 0, {1}, {1}), outline_of(-1, 0, {1}, {1}), outline_of(kFloat, 64, {1}, {1}),
        outline_of(kFloat, 3, {1}, {1}), outline_of(kFloat, -4, {1}, {1}),
        outline_of(kFloat, 0, {-1}, {1}), outline_of(kFloat, 0, {2}, {-1}),
        outline_of(kFloat, 0, {2, 2}, {1}), outline_of(kFloat, 0, {kHuge}, {1}),
        outline_of(kFloat, 0, {kHuge, kHuge}, {kHuge, 1}), outline_of(kFloat, 0, {2}, {kHuge}),
        outline_of(kFloat, 0, {kHuge, kHuge}, {0, 0}), outline_of(kLong, 0, {1}, {1}, true),
        outline_of(kFloat, 0, std::vector<std::int64_t>(100, 1),
                   std::vector<std::int64_t>(100, 1))}) {
    EXPECT_NE(message_of([&] {
                read_outline(bytes, "from process 1");
              }).find("a message header is invalid"),
              std::string::npos);
  }
}

TEST(FrameTest, AProcessTakesMessagesOnlyBetweenRanksOfTheSenderAndItsOwn) {
  ProcessRanksOptions options;
  options.num_ranks = 6;
  options.num_processes = 3;
  options.process = 1;
  const ProcessRanks process(options);
  const auto message = [](int source, int destination) {
    return FrameOutline{MessageHead{source, destination, ChannelKind::kActivation, {}}, {}};
  };
  process.check(0, message(1, 2));
  process.check(2, message(4, 3));
  for (const auto& [source, destination] :
       std::vector<std::pair<int, int>>{{2, 3}, {4, 2}, {-1, 2}, {6, 2}, {0, 4}, {0, -1}, {0, 6}}) {
    EXPECT_NE(message_of([&] {
                process.check(0, message(source, destination));
              }).find("from process 0 (ranks 0, 1)"),
              std::string::npos);
  }
}

TEST(FrameTest, AProcessRefusesWhatAMemberElsewhereCannotGive) {
  ProcessRanksOptions options;
  options.num_ranks = 4;
  options.num_processes = 2;
  ProcessRanks process(options);
  GroupState& world = process.world();
  world.arrive(1, {"world", 0, 2, {"barrier", ""}, {}}, {}, {});
  const auto refused = [&](const CollectiveHead& head) {
    return message_of([&] { world.arrive(1, head, {}, {}); });
  };
  EXPECT_NE(refused({"world", 0, 2, {"barrier", ""}, {}}).find("member 2 twice"),
            std::string::npos);
  EXPECT_NE(refused({"world", 1, 1, {"barrier", ""}, {}}).find("member 1"), std::string::npos);
  EXPECT_NE(refused({"world", 1, -1, {"barrier", ""}, {}}).find("member -1"), std::string::npos);
  EXPECT_NE(refused({"world", 1, 3, {"barrier", ""}, {-1}}).find("1 pieces"), std::string::npos);
}

TEST(FrameTest, AProofHoldsForOneEndOfOneConnectionOnly) {
  const PairEnd a{0, "nonce a"}, b{1, "nonce b"};
  const std::string proof = pair_proof("secret", "ranks/messages", a, b);
  EXPECT_EQ(proof, pair_proof("secret", "ranks/messages", a, b));
  EXPECT_EQ(proof.size(), static_cast<std::size_t>(kPairProofBytes));
  for (const std::string& other :
       {pair_proof("secret", "ranks/messages", b, a), pair_proof("guess", "ranks/messages", a, b),
        pair_proof("secret", "ranks/collectives", a, b),
        pair_proof("secret", "ranks/messages", {0, "nonce"}, b),
        pair_proof("secret", "ranks/messages", {2, "nonce a"}, b)}) {
    EXPECT_NE(proof, other);
  }
  EXPECT_NE(make_pair_end(0).nonce, make_pair_end(0).nonce);
}

}  // namespace
}  // namespace sluice::test
