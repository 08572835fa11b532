// `sluice train` in several processes, whoever starts them: the bits of one process, one error for
// all, nothing left behind.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

// A run of 4 microbatches a step, whatever the layout.
class ProcessesTest : public TrainCommandTest {
 protected:
  ProcessesTest() {
    test::write_file(config(), "[model]\npath = \"" + kModel + R"("
[data]
files = ["text.txt"]
[training]
steps = 3
global_batch_size = 8
microbatch_size = 2
seq_len = 16
[optimizer]
lr = 1e-3
[parallelism]
data_parallel_shards = 4
[comm]
heartbeat_seconds = 2
[checkpoint]
folder = "out/checkpoint"
[metrics]
folder = "out"
)");
  }

  std::vector<std::string> layout(int pp, int dp) const {
    return {"--parallelism.pipeline_parallel_degree=" + std::to_string(pp),
            "--parallelism.data_parallel_degree=" + std::to_string(dp)};
  }
  std::string train_line(const std::vector<std::string>& options) const {
    std::string line = "train " + quoted_for_shell(config());
    for (const std::string& option : options) line += " " + quoted_for_shell(option);
    return line;
  }
  static std::string program() { return quoted_for_shell(SLUICE_PROGRAM); }

  // What each launcher's line is, for n processes; "" where it is not installed.
  std::string started_by(const std::string& launcher, int n,
                         const std::vector<std::string>& options) const {
    const std::string processes = std::to_string(n), line = train_line(options);
    if (launcher == "sluice launch") return program() + " launch -n " + processes + " -- " + line;
    if (launcher == "torchrun") {
      return std::string(SLUICE_TORCH_PYTHON) +
             " -m torch.distributed.run --no-python --nproc-per-node " + processes +
             " --master-port " + std::to_string(free_port()) + " " + program() + " " + line;
    }
    if (launcher == "mpirun") {
      return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
             "--bind-to none -n " +
             processes + " " + program() + " " + line;
    }
    // By hand.
    const std::string port = std::to_string(free_port());
    std::string all;
    for (int rank = 0; rank < n; ++rank) {
      all += "RANK=" + std::to_string(rank) + " WORLD_SIZE=" + processes +
             " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " + program() + " " + line + " & p" +
             std::to_string(rank) + "=$!; ";
    }
    for (int rank = 0; rank < n; ++rank) all += "wait $p" + std::to_string(rank) + " || code=$?; ";
    return "code=0; " + all + "exit $code";
  }

  static int free_port() {
    const ProgramResult port = run_shell(
        "python3 -c \"import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); "
        "print(s.getsockname()[1])\"");
    return std::stoi(port.out);
  }

  // Losses and norms, and the hashes of the last weights and of their optimizer state.
  std::string numbers() const {
    std::string text;
    for (const nlohmann::json& line : metrics()) {
      text += line.at("loss").dump() + " " + line.at("grad_norm").dump() + " " +
              line.at("tokens").dump() + "\n";
    }
    const nlohmann::json manifest =
        nlohmann::json::parse(test::read_file(out() + "/checkpoint/step-00000003/manifest.json"));
    std::set<std::string> hashes;
    for (const char* list : {"weights", "optimizer"}) {
      for (const nlohmann::json& tensor : manifest.at(list))
        hashes.insert(tensor.at("name").get<std::string>() + " " +
                      tensor.at("hash").get<std::string>());
    }
    for (const std::string& hash : hashes) text += hash + "\n";
    return text;
  }
};

bool is_installed(const std::string& launcher) {
  if (launcher == "torchrun") {
    return std::string(SLUICE_TORCH_PYTHON) != "" &&
           run_shell(std::string(SLUICE_TORCH_PYTHON) + " -c 'import torch.distributed.run'")
                   .exit_code == 0;
  }
  return launcher != "mpirun" || run_shell("command -v mpirun").exit_code == 0;
}

TEST_F(ProcessesTest, HaveTheBitsOfOneProcessInEveryLayout) {
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  using Layout = std::tuple<int, int, int>;  // pp, dp, processes
  for (const auto& [pp, dp, n] : {Layout{2, 1, 1},
                                  {2, 2, 1},
                                  {1, 4, 1},
                                  {2, 1, 2},
                                  {4, 1, 4},
                                  {2, 2, 4},
                                  {2, 2, 2},
                                  {1, 4, 4},
                                  {1, 4, 2},
                                  {1, 2, 2}}) {
    fs::remove_all(out());
    const ProgramResult result =
        n == 1 ? train(layout(pp, dp)) : run_shell(started_by("sluice launch", n, layout(pp, dp)));
    const std::string text =
        std::to_string(pp) + " x " + std::to_string(dp) + " in " + std::to_string(n);
    ASSERT_EQ(result.exit_code, 0) << text << result.err;
    EXPECT_EQ(result.err, "") << text;
    EXPECT_EQ(numbers(), expected) << text;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n') > 3, true) << result.out;
  }
}

TEST_F(ProcessesTest, HaveTheSameBitsUnderEveryLauncher) {
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  for (const char* launcher : {"by hand", "torchrun", "mpirun"}) {
    if (!is_installed(launcher)) {
      std::cerr << launcher << " is not installed: skipped\n";
      continue;
    }
    fs::remove_all(out());
    const ProgramResult result = run_shell(started_by(launcher, 2, layout(2, 2)));
    ASSERT_EQ(result.exit_code, 0) << launcher << ": " << result.err;
    EXPECT_EQ(numbers(), expected) << launcher;
  }
}

}  // namespace
}  // namespace sluice::testing
