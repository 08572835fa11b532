// Freedom from deadlock where a send ends only with its receive, on one lane from rank to rank.
#include "plan/verify/rendezvous.h"

#include <gtest/gtest.h>

#include "plan/passes/passes.h"
#include "support/programs.h"

namespace sluice::verify_rendezvous_test {
namespace {

using testing::program_of;

Program lowered(const std::string& schedule, int num_ranks, bool defer) {
  LowerOptions options;
  options.defer_receives = defer;
  options.reduce_gradients = options.loss = options.norm = options.optimizer_step = true;
  Program program =
      lower(make_schedule(schedule, {.num_ranks = num_ranks, .num_microbatches = 3 * num_ranks}),
            options);
  EXPECT_TRUE(verify(program).ok()) << schedule;
  return program;
}

TEST(VerifyRendezvousTest, EveryScheduleHolds) {
  for (const ScheduleInfo& info : schedule_table()) {
    for (const int num_ranks : {1, 2, 3, 4, 8}) {
      for (const Violation& found : verify_rendezvous(lowered(info.name, num_ranks, false))) {
        ADD_FAILURE() << info.name << ", " << num_ranks << " ranks: rank " << found.rank << ", "
                      << found.action << ": " << found.reason;
      }
    }
  }
}

// Where both kinds of messages go from a rank to another, receives that are deferred to their users
// may cross: on two channels nothing is wrong.
TEST(VerifyRendezvousTest, DeferredReceivesThatCrossAreFound) {
  for (const int num_ranks : {2, 3, 4, 8})
    EXPECT_FALSE(verify_rendezvous(lowered("ZBVZeroBubble", num_ranks, true)).empty());
  for (const char* schedule : {"GPipe", "1F1B"})
    EXPECT_TRUE(verify_rendezvous(lowered(schedule, 4, true)).empty());
}

// Rank 0 sends an activation and then a gradient; rank 1 wants the gradient first.
TEST(VerifyRendezvousTest, AReceiverThatWantsAnotherOrderThanItsLaneIsStuck) {
  const auto program = [](const char* received) {
    const std::string first =
        "0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,"
        "0B0,0RECV_B1,0B1";
    const std::string second = std::string("1RECV_F0,1F0,2F0,2SEND_F0,") + received +
                               ",1F1,2F1,2SEND_F1,2B0,1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1";
    return program_of({first, second}, {0, 1, 1, 0});
  };
  const Program in_order = program("1RECV_F1,2RECV_B0"), crossed = program("2RECV_B0,1RECV_F1");
  ASSERT_TRUE(verify(in_order).ok());
  EXPECT_TRUE(verify_rendezvous(in_order).empty());
  ASSERT_TRUE(verify(crossed).ok());
  const std::vector<Violation> found = verify_rendezvous(crossed);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].action, "2RECV_B0");
  EXPECT_EQ(found[0].reason,
            "deadlock: waits for '1RECV_F1' of rank 1, which is stuck before it at '2RECV_B0'");
}

}  // namespace
}  // namespace sluice::verify_rendezvous_test
