// The proof for the transports of --for: messages that share a FIFO, and SENDs that block.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/passes/passes.h"
#include "sluice/error.h"
#include "sluice/schedule.h"
#include "sluice/verify.h"
#include "support/programs.h"
#include "support/reference_cases.h"

namespace sluice::verify_transports_test {
namespace {

using testing::program_of;
using testing::rows_of;

// tests/reference/deferred/make_deferred.py wrote these files with torch 2.13.
Program torch_program(const std::string& name) {
  const bool is_v = name.starts_with("ZBV") || name.starts_with("DualPipeV");
  return to_program(
      parse_schedule_csv(testing::read_test_file("reference/deferred/" + name + ".csv"), name,
                         is_v ? std::vector<int>{0, 1, 1, 0} : std::vector<int>{0, 1, 0, 1}));
}

const Verdict& verdict_of(const VerifyReport& report, const std::string& name) {
  const auto found = std::find_if(report.verdicts.begin(), report.verdicts.end(),
                                  [&](const Verdict& verdict) { return verdict.name == name; });
  EXPECT_NE(found, report.verdicts.end()) << name;
  return *found;
}

std::string text_of(const VerifyReport& report) {
  std::string text;
  for (const Violation& violation : report.violations) {
    text +=
        std::to_string(violation.rank) + " " + violation.action + ": " + violation.reason + "\n";
  }
  return text;
}

// torch computes wrong gradients from these two programs without an error.
TEST(VerifyTransportsTest, FindsTheMessagesThatTorchsDeferredReceivesExchange) {
  for (const char* name : {"ZBVZeroBubble_deferred", "InterleavedZeroBubble_deferred"}) {
    const Program program = torch_program(name);
    EXPECT_TRUE(verify(program).ok()) << name << ": sluice has a FIFO for each kind";
    const VerifyReport report = verify(program, ProofTransport::kTorch);
    EXPECT_FALSE(verdict_of(report, "gloo").ok()) << name;
    EXPECT_FALSE(verdict_of(report, "nccl").ok()) << name;
    for (const Violation& violation : report.violations) {
      EXPECT_TRUE(violation.reason.starts_with("torch would receive '")) << violation.reason;
      EXPECT_NE(violation.reason.find("' as '" + violation.action + "'"), std::string::npos)
          << violation.reason;
    }
    EXPECT_FALSE(verify(program, ProofTransport::kRendezvous).ok()) << name;
  }
}

TEST(VerifyTransportsTest, NamesTheFirstMessageThatTorchExchangesInItsDeferredZbv) {
  const VerifyReport report =
      verify(torch_program("ZBVZeroBubble_deferred"), ProofTransport::kTorch);
  ASSERT_FALSE(report.ok());
  const Violation& first = report.violations.front();
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.action, "2RECV_B0");
  EXPECT_EQ(first.reason,
            "torch would receive '0SEND_F2' as '2RECV_B0': all messages from rank 0 to rank 1 "
            "share one FIFO");
}

// These deferred programs are correct over Gloo. Over NCCL they deadlock, because both ranks send
// first.
TEST(VerifyTransportsTest, TorchsOtherDeferredReceivesAreRightOverGlooAndStuckOverNccl) {
  for (const char* name : {"Interleaved1F1B_deferred", "DualPipeV_deferred"}) {
    const VerifyReport report = verify(torch_program(name), ProofTransport::kTorch);
    EXPECT_TRUE(verdict_of(report, "gloo").ok()) << name << "\n" << text_of(report);
    EXPECT_FALSE(verdict_of(report, "nccl").ok()) << name;
    ASSERT_FALSE(report.ok()) << name;
    EXPECT_TRUE(report.violations.front().reason.starts_with("deadlock over NCCL: waits for '"))
        << report.violations.front().reason;
  }
}

TEST(VerifyTransportsTest, TorchsOwnLoweringIsRightForEveryTransport) {
  for (const char* name : {"ZBVZeroBubble_plain", "InterleavedZeroBubble_plain",
                           "Interleaved1F1B_plain", "DualPipeV_plain"}) {
    for (const ProofTransport transport :
         {ProofTransport::kSluice, ProofTransport::kRendezvous, ProofTransport::kTorch}) {
      const VerifyReport report = verify(torch_program(name), transport);
      EXPECT_TRUE(report.ok()) << name << "\n" << text_of(report);
      for (const Verdict& verdict : report.verdicts) EXPECT_TRUE(verdict.ok()) << verdict.name;
    }
  }
}

std::vector<LowerOptions> all_options() {
  std::vector<LowerOptions> all;
  for (int bits = 0; bits < 32; ++bits) {
    LowerOptions options;
    options.shard_parameters = (bits & 1) != 0;
    options.reduce_gradients = (bits & 2) != 0;
    options.defer_receives = (bits & 4) != 0;
    options.merge_backward = (bits & 8) != 0;
    options.forward_only = (bits & 16) != 0;
    options.max_active_stages = 1 + bits % 3;
    all.push_back(options);
  }
  return all;
}

// Writes the program like `sluice schedule --lower --out` and reads the text again.
TEST(VerifyTransportsTest, EveryProgramThatIsWrittenWithTransfersIsRightForTorch) {
  int num_checked = 0;
  for (const ScheduleInfo& info : schedule_table()) {
    for (const int num_ranks : {1, 2, 3, 4, 8}) {
      for (const int stages_per_rank : {1, 2, 3}) {
        for (const int num_microbatches : {1, num_ranks, 2 * num_ranks, 3 * num_ranks + 1}) {
          Schedule schedule;
          try {
            schedule = make_schedule(info.name, {.num_ranks = num_ranks,
                                                 .stages_per_rank = stages_per_rank,
                                                 .num_microbatches = num_microbatches});
          } catch (const Error&) {
            continue;
          }
          for (const LowerOptions& options : all_options()) {
            if (options.merge_backward && num_ranks > 4) continue;
            Program program = lower(schedule, options);
            const Schedule written =
                parse_schedule_csv(to_csv(program.ranks), info.name, schedule.stage_map.ranks());
            Program read = to_program(written);
            ASSERT_EQ(rows_of(read), rows_of(program));
            read.forward_only = options.forward_only;
            for (const ProofTransport transport :
                 {ProofTransport::kTorch, ProofTransport::kRendezvous}) {
              const VerifyReport report = verify(read, transport);
              ASSERT_TRUE(report.ok())
                  << info.name << " " << num_ranks << " x " << stages_per_rank << " x "
                  << num_microbatches << (options.defer_receives ? " deferred\n" : "\n")
                  << text_of(report);
            }
            ++num_checked;
          }
        }
      }
    }
  }
  EXPECT_GT(num_checked, 2000);
}

TEST(VerifyTransportsTest, RandomOrdersStayRightForEveryTransportWhenTheyAreDeferred) {
  std::mt19937 random(15);
  for (int sample = 0; sample < 500; ++sample) {
    const Program plain = add_transfers(testing::RandomOrder(random, 5, 3, 6).make());
    const Program deferred = defer_receives(plain);
    for (const ProofTransport transport :
         {ProofTransport::kSluice, ProofTransport::kRendezvous, ProofTransport::kTorch}) {
      const VerifyReport report = verify(deferred, transport);
      ASSERT_TRUE(report.ok()) << text_of(report);
      EXPECT_EQ(report.required_capacity, verify(plain, transport).required_capacity);
    }
  }
}

// Rank 0 sends an activation and then a gradient. `received` holds the two receives of rank 1.
Program program_that_receives(const char* received) {
  const std::string first =
      "0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,0RECV_B0,"
      "0B0,0RECV_B1,0B1";
  const std::string second = std::string("1RECV_F0,1F0,2F0,2SEND_F0,") + received +
                             ",1F1,2F1,2SEND_F1,2B0,1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1";
  return program_of({first, second}, {0, 1, 1, 0});
}

TEST(VerifyTransportsTest,
     AReceiverThatTakesItsMessagesInAnotherOrderIsRefusedWhereTheyShareAFifo) {
  const Program in_order = program_that_receives("1RECV_F1,2RECV_B0");
  EXPECT_TRUE(verify(in_order).ok());
  // Over Gloo the messages arrive in order. Over NCCL both ranks send first and deadlock.
  const VerifyReport torch = verify(in_order, ProofTransport::kTorch);
  ASSERT_EQ(torch.verdicts.size(), 2u);
  EXPECT_TRUE(torch.verdicts[0].ok()) << torch.verdicts[0].name;
  EXPECT_FALSE(torch.verdicts[1].ok()) << torch.verdicts[1].name;
  const Program crossed = program_that_receives("2RECV_B0,1RECV_F1");
  EXPECT_TRUE(verify(crossed).ok());
  const VerifyReport rendezvous = verify(crossed, ProofTransport::kRendezvous);
  EXPECT_EQ(text_of(rendezvous),
            "1 2RECV_B0: out of order on the channel from rank 0, where it is '3SEND_B0'\n");
  EXPECT_FALSE(verify(crossed, ProofTransport::kTorch).ok());
}

// Each rank sends before it receives. This deadlocks only if a SEND blocks until it is received.
TEST(VerifyTransportsTest, RanksThatSendToEachOtherFirstAreStuckByRendezvous) {
  const Program program = program_of({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"});
  EXPECT_TRUE(verify(program).ok());
  const VerifyReport rendezvous = verify(program, ProofTransport::kRendezvous);
  EXPECT_EQ(text_of(rendezvous),
            "0 0RECV_B0: deadlock: waits for '1RECV_F1' of rank 1\n"
            "1 1RECV_F1: deadlock: waits for '0RECV_B0' of rank 0\n");
  const VerifyReport torch = verify(program, ProofTransport::kTorch);
  EXPECT_TRUE(verdict_of(torch, "gloo").ok());
  EXPECT_EQ(torch.violations.size(), verdict_of(torch, "nccl").violations.size());
}

// Rank 0 sends '0SEND_F1' to rank 1, then '2SEND_F0' to rank 2. Rank 1 receives the first only
// after a message that rank 2 computes from the second.
TEST(VerifyTransportsTest, ACircleOverThreeRanksIsStuckOverNcclWhereARankHasOneStream) {
  Program program =
      program_of({"0F0,0SEND_F0,2RECV_F0,2F0,0F1,0SEND_F1,2SEND_F0,2RECV_F1,2F1,2SEND_F1",
                  "1RECV_F0,1F0,1SEND_F0,4RECV_F0,4F0,1RECV_F1,1F1,1SEND_F1,4RECV_F1,4F1",
                  "3RECV_F0,3F0,3SEND_F0,3RECV_F1,3F1,3SEND_F1"},
                 {0, 1, 0, 2, 1});
  program.forward_only = true;
  EXPECT_TRUE(verify(program, ProofTransport::kRendezvous).ok());
  const VerifyReport report = verify(program, ProofTransport::kTorch);
  EXPECT_TRUE(verdict_of(report, "gloo").ok());
  ASSERT_FALSE(verdict_of(report, "nccl").ok());
  EXPECT_NE(report.violations.front().reason.find("with init_process_group(device_id=..)"),
            std::string::npos)
      << report.violations.front().reason;
}

}  // namespace
}  // namespace sluice::verify_transports_test
