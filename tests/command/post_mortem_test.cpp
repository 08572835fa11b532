#include "command/forensics.h"

#include <gtest/gtest.h>

#include "engine/rank_threads.h"
#include "support/callback_observer.h"
#include "support/train_pipeline.h"
#include "support/user_models.h"
#include "train/pipeline_control.h"

namespace sluice::test {
namespace {

LocalRanks ranks_here(std::vector<int> here) {
  LocalRanks ranks;
  ranks.num_ranks = ranks.on_machine = 4;
  ranks.here = std::move(here);
  return ranks;
}

Program two_ranks() { return training_program("1F1B", 2, 2); }

TEST(PostMortemTest, DrawsAnArrowAtTheInstructionThatFailedAndTheLastOnesOfEveryRank) {
  const Program program = two_ranks();
  PostMortem post_mortem(ranks_here({0, 1}));
  post_mortem.add(0, 4, "what rank 0 did\n");
  post_mortem.add(1, 2, "what rank 1 did\n");
  const std::string text = post_mortem.text(program, {1, ErrorKind::kInternal, "broken"}, {});
  EXPECT_NE(text.find("failed here"), std::string::npos) << text;
  EXPECT_NE(text.find('^'), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0, last instructions:\nwhat rank 0 did\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1, last instructions:\nwhat rank 1 did\n"), std::string::npos) << text;
}

TEST(PostMortemTest, AFailureOutsideTheProgramNeedsNoDrawing) {
  PostMortem post_mortem(ranks_here({0, 1}));
  EXPECT_EQ(post_mortem.text(two_ranks(), {0, ErrorKind::kInput, "bad row"}, {}), "");
  post_mortem.add(0, -1, "did something\n");
  EXPECT_EQ(post_mortem.text(two_ranks(), {0, ErrorKind::kInput, "bad row"}, {}), "");
}

TEST(PostMortemTest, AProcessWithoutRank0DrawsTheFailureOfItsOwnRank) {
  const Program program = training_program("1F1B", 4, 4);
  PostMortem post_mortem(ranks_here({2, 3}));
  post_mortem.add(2, 4, "what rank 2 did\n");
  post_mortem.add(3, 2, "what rank 3 did\n");
  const std::string text = post_mortem.text(program, {3, ErrorKind::kInternal, "broken"}, {});
  EXPECT_NE(text.find("failed here"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2, last instructions:\nwhat rank 2 did\n"), std::string::npos) << text;
}

TEST(PostMortemTest, AFailureInAnotherProcessLeavesWhatTheRanksHereDidLast) {
  PostMortem post_mortem(ranks_here({2, 3}));
  EXPECT_EQ(post_mortem.text(two_ranks(), {0, ErrorKind::kInternal, "broken"}, {}), "");
  post_mortem.add(2, 4, "what rank 2 did\n");
  EXPECT_EQ(post_mortem.text(two_ranks(), {0, ErrorKind::kInternal, "broken"}, {}),
            "\nrank 2, last instructions:\nwhat rank 2 did\n");
}

TEST(PostMortemTest, ATrainerKnowsTheInstructionThatFailed) {
  Model model;
  model.layers = make_user_layers(UserModel::kMlp, 2, 4, 0.0);
  model.inputs = {"x", "y"};
  model.outputs = {"prediction"};
  model.loss = squared_error;
  const Program program = two_ranks();
  const Plan plan = plan_of(model, even_partition(model, program.stage_map), program);
  StepBatch batch;
  batch.step = 1;
  for (int m = 0; m < 2; ++m) {
    batch.microbatches.push_back({{"x", at::ones({2, 4})}, {"y", at::zeros({2, 4})}});
    batch.counts.push_back(8);
  }

  const auto transports = make_local_transports(2);
  PostMortem post_mortem(ranks_here({0, 1}));
  EXPECT_THROW(run_ranks(transports, 1, nullptr,
                         [&](Transport& transport) {
                           CallbackObserver observer;
                           observer.on_begin = [](int, const Action& action) {
                             if (action == Action::backward(1, 1))
                               throw std::runtime_error("injected");
                           };
                           RankOptions options;
                           options.observers = {&observer};
                           RankTrainer trainer(model, plan, transport, options);
                           try {
                             trainer.step(batch, 0.1);
                           } catch (...) {
                             post_mortem.add(
                                 transport.rank(),
                                 PipelineControl(trainer.pipeline()).current_instruction(),
                                 PipelineControl(trainer.pipeline()).flight_record());
                             throw;
                           }
                         }),
               Error);
  const auto failure = transports[0]->failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_NE(failure->message.find("'1B1'"), std::string::npos) << failure->message;
  const std::string text = post_mortem.text(program, *failure, {});
  EXPECT_NE(text.find("failed here"), std::string::npos) << text;
  EXPECT_NE(text.find("1B1"), std::string::npos) << text;
  EXPECT_NE(text.find("FAILED"), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice::test
