#include "sluice/parts/observers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sluice/schedule.h"
#include "support/user_batches.h"

namespace sluice::test {
namespace {

class Diary final : public ExecutorObserver {
 public:
  std::vector<std::string> lines;

  void begin_step(std::int64_t step) override { write("begin_step " + std::to_string(step)); }
  void end_step() override { write("end_step"); }
  void begin(int index, const Action& action) override {
    write("begin " + std::to_string(index) + " " + to_text(action));
  }
  void end(int index, const Action& action) override {
    write("end " + std::to_string(index) + " " + to_text(action));
  }
  void failed(int index, const Action& action) noexcept override {
    write("failed " + std::to_string(index) + " " + to_text(action));
  }
  void waiting(const Action& action) override { write("waiting " + to_text(action)); }
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override {
    write("arrived " + to_text(action) + sizes(tensors));
  }
  void sending(const Action& action, const std::vector<at::Tensor>& tensors) override {
    write("sending " + to_text(action) + sizes(tensors));
  }
  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override {
    std::string line = "produced " + to_text(action);
    for (const auto& [name, tensor] : outputs) line += " " + name;
    write(line + sizes(handed_on));
  }

 private:
  static std::string sizes(const std::vector<at::Tensor>& tensors) {
    std::string text;
    for (const at::Tensor& tensor : tensors) text.append(" ").append(to_text(meta_of(tensor)));
    return text;
  }
  void write(std::string line) { lines.push_back(std::move(line)); }
};

using Diaries = std::vector<Diary>;
using Lines = std::vector<std::string>;

TrainedModel run_two_ranks(Diaries& diaries, HarnessOptions options, const std::string& schedule,
                           int num_microbatches) {
  diaries.resize(2);
  options.observers_of = [&](int rank) { return std::vector<ExecutorObserver*>{&diaries[rank]}; };
  return train_in_pipeline(user_model(UserModel::kMlp, 2),
                           lowered(make_schedule(schedule, {2, 0, num_microbatches})),
                           user_batches(1, num_microbatches, {2}), options);
}

TEST(ObserverTest, IsToldOfEveryInstructionAndWhatItsTensorsAre) {
  Diaries diaries;
  const TrainedModel got = run_two_ranks(diaries, {}, "1F1B", 1);
  for (const std::string& error : got.errors) ASSERT_EQ(error, "");
  EXPECT_EQ(diaries[0].lines, (Lines{"begin_step 1",
                                     "begin 0 0F0",
                                     "produced 0F0 hidden float32[2, 16]",
                                     "end 0 0F0",
                                     "begin 1 0SEND_F0",
                                     "sending 0SEND_F0 float32[2, 16]",
                                     "end 1 0SEND_F0",
                                     "begin 2 0RECV_B0",
                                     "end 2 0RECV_B0",
                                     "begin 3 0B0",
                                     "waiting 0B0",
                                     "arrived 0B0 float32[2, 16]",
                                     "produced 0B0",
                                     "end 3 0B0",
                                     "begin 4 REDUCE_NORM",
                                     "end 4 REDUCE_NORM",
                                     "begin 5 OPTIMIZER_STEP",
                                     "waiting OPTIMIZER_STEP",
                                     "arrived OPTIMIZER_STEP",
                                     "end 5 OPTIMIZER_STEP",
                                     "end_step"}));
  EXPECT_EQ(diaries[1].lines, (Lines{"begin_step 1",
                                     "begin 0 1RECV_F0",
                                     "end 0 1RECV_F0",
                                     "begin 1 1F0",
                                     "waiting 1F0",
                                     "arrived 1F0 float32[2, 16]",
                                     "produced 1F0 prediction float32[]",
                                     "end 1 1F0",
                                     "begin 2 1B0",
                                     "produced 1B0 float32[2, 16]",
                                     "end 2 1B0",
                                     "begin 3 1SEND_B0",
                                     "sending 1SEND_B0 float32[2, 16]",
                                     "end 3 1SEND_B0",
                                     "begin 4 REDUCE_NORM",
                                     "end 4 REDUCE_NORM",
                                     "begin 5 OPTIMIZER_STEP",
                                     "waiting OPTIMIZER_STEP",
                                     "arrived OPTIMIZER_STEP",
                                     "end 5 OPTIMIZER_STEP",
                                     "end_step"}));
}

TEST(ObserverTest, IsToldOfTheHalvesOfAPairOneByOne) {
  Diaries diaries;
  run_two_ranks(diaries, {}, "DualPipeV", 6);
  const Lines& lines = diaries[0].lines;
  const auto pair = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("begin ") && line.ends_with("OVERLAP_F_B");
  });
  ASSERT_NE(pair, lines.end());
  Lines inside;
  for (auto line = pair + 1; !line->starts_with("end "); ++line)
    inside.push_back(line->substr(0, line->find(' ', line->find(' ') + 1)));
  const Action action = parse_action(pair->substr(pair->find(' ', 6) + 1));
  const std::string forward = to_text(action.overlap_forward()),
                    backward = to_text(action.overlap_backward());
  // Whether a half waits depends on where its input comes from, so leave the waits out.
  inside.erase(
      std::remove_if(inside.begin(), inside.end(),
                     [](const std::string& line) { return !line.starts_with("produced"); }),
      inside.end());
  EXPECT_EQ(inside, (Lines{"produced " + forward, "produced " + backward}));
}

TEST(ObserverTest, ReceivesNothingAfterFailed) {
  for (const bool at_begin : {true, false}) {
    Diaries diaries;
    HarnessOptions options;
    options.per_rank = [&](int rank, CallbackObserver& observer) {
      if (rank != 1) return;
      (at_begin ? observer.on_begin : observer.on_end) = [](int, const Action& action) {
        if (action == Action::backward(1, 0)) throw std::runtime_error("injected fault");
      };
    };
    const TrainedModel got = run_two_ranks(diaries, options, "1F1B", 1);
    EXPECT_NE(got.errors[1].find("injected fault"), std::string::npos) << got.errors[1];
    EXPECT_EQ(diaries[1].lines.back(), "failed 2 1B0");
    // This observer comes after the one that threw, so it did not receive the call of `begin`.
    EXPECT_EQ(std::count(diaries[1].lines.begin(), diaries[1].lines.end(), "begin 2 1B0"),
              at_begin ? 0 : 1);
    // the other rank's failure ended its wait
    EXPECT_EQ(diaries[0].lines.back().substr(0, 7), "failed ");
  }
}

TEST(ObserverTest, SeesWhatTheOneBeforeItPutInPlace) {
  CallbackObserver first, second;
  double seen = 0;
  first.on_produced = [](const Action& action, std::vector<at::Tensor>& handed_on) {
    if (action == Action::forward(0, 0)) handed_on[0] = at::full({2, 16}, 3.0);
  };
  second.on_produced = [&](const Action& action, std::vector<at::Tensor>& handed_on) {
    if (action == Action::forward(0, 0)) seen = handed_on[0].mean().item<double>();
  };
  HarnessOptions options;
  options.observers_of = [&](int rank) {
    return rank == 0 ? std::vector<ExecutorObserver*>{&first, &second}
                     : std::vector<ExecutorObserver*>();
  };
  train_in_pipeline(user_model(UserModel::kMlp, 2), lowered(make_schedule("GPipe", {2, 0, 1})),
                    user_batches(1, 1, {2}), options);
  EXPECT_EQ(seen, 3.0);
}

}  // namespace
}  // namespace sluice::test
