#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "found_torch.h"
#include "launch/launch_job.h"
#include "launched_config.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr const char* kWhere = "command 'sluice launch'";
constexpr int kMaxProcesses = 4096;

struct LaunchArguments {
  std::optional<int> processes, max_restarts, nodes, node;
  std::string log_folder, rdzv, secret_file;
};

[[noreturn]] void refuse_launch(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = kWhere, .remedy = remedy});
}

// Parses an address such as "HOST:PORT" or "[::1]:29500".
StoreAddress meeting_place(const std::string& text) {
  StoreAddress place;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    place.host = text.substr(0, colon);
    if (place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']')
      place.host = place.host.substr(1, place.host.size() - 2);
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, place.port);
    if (error == std::errc() && rest == end && place.port >= 1 && place.port <= 65535 &&
        !place.host.empty()) {
      return place;
    }
  }
  refuse_launch("'" + text + "' is not a value of --rdzv",
                "give the host of node 0 and one of its free ports, such as node0:29500");
}

std::string secret_of(const LaunchArguments& arguments) {
  if (arguments.secret_file.empty()) {
    const char* const value = std::getenv("SLUICE_JOB_SECRET");
    if (value && *value) return value;
    refuse_launch("launchers on several machines need a shared secret",
                  "give --secret-file FILE or set SLUICE_JOB_SECRET to the same random text "
                  "everywhere, for example from 'openssl rand -hex 32'");
  }
  struct stat status;
  if (::stat(arguments.secret_file.c_str(), &status) == 0 &&
      (status.st_mode & (S_IRWXG | S_IRWXO))) {
    throw Error(ErrorKind::kUsage,
                {.what = "other users than the owner may read or change the secret",
                 .where = arguments.secret_file,
                 .remedy = "chmod 600 " + arguments.secret_file + ", or make a new one"});
  }
  const std::string text = read_text(arguments.secret_file, 4096, ErrorKind::kUsage);
  std::string secret(trim(text));
  if (!secret.empty()) return secret;
  throw Error(ErrorKind::kUsage,
              {.what = "the file of the secret is empty",
               .where = arguments.secret_file,
               .remedy = "put a random text in it, for example from 'openssl rand -hex 32'"});
}

void read_nodes(const LaunchArguments& arguments, LaunchOptions& options) {
  options.num_nodes = arguments.nodes.value_or(1);
  options.node = arguments.node.value_or(0);
  if (options.num_nodes == 1) {
    if (arguments.node || !arguments.rdzv.empty() || !arguments.secret_file.empty()) {
      refuse_launch("--node-rank, --rdzv and --secret-file are for several machines",
                    "give --nnodes, or leave them out");
    }
    return;
  }
  if (!arguments.node || arguments.rdzv.empty()) {
    refuse_launch("several machines need --node-rank and --rdzv",
                  "give each machine its number, and all of them the same --rdzv HOST:PORT");
  }
  if (options.node >= options.num_nodes) {
    refuse_launch(
        formatted("--node-rank {} is not below --nnodes {}", options.node, options.num_nodes),
        "number the machines from 0");
  }
  options.meeting = meeting_place(arguments.rdzv);
  options.secret = secret_of(arguments);
}

const std::vector<std::string> kLaunchable = {"train", "eval", "sample"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_executable(const std::string& file) {
  std::error_code failed;
  return std::filesystem::is_regular_file(file, failed) && ::access(file.c_str(), X_OK) == 0;
}

// Searches PATH for names without a slash, but never the working folder.
std::string program_file(const std::string& word) {
  if (word.find('/') != std::string::npos) {
    if (is_executable(word)) return word;
    std::error_code failed;
    const bool is_there = std::filesystem::exists(word, failed);
    throw Error(ErrorKind::kUsage,
                {.what = is_there ? "this is not a file that can be executed" : "no such program",
                 .where = word,
                 .remedy = is_there ? "name a program, or allow it with chmod +x"
                                    : "check the path of the program to launch"});
  }
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "", ':')) {
    if (folder.empty()) continue;  // an empty PATH entry means the working folder
    std::string file = formatted("{}/{}", folder, word);
    if (is_executable(file)) return file;
  }
  refuse_launch("'" + word + "' is neither a command nor a program on PATH",
                "give the path of a program, as ./" + word + ", or a command; " +
                    suggest_name(word, kLaunchable));
}

void require_launchable(const std::vector<std::string>& command,
                        const std::vector<std::string>& commands) {
  if (command.empty() || command.front().empty()) {
    refuse_launch("there is no command to launch",
                  "write it after --, as in -- train run.toml or -- ./my_program");
  }
  if (!contains(commands, command.front()) || contains(kLaunchable, command.front())) return;
  refuse_launch("'" + command.front() + "' cannot be launched",
                "one of: train, eval, sample, or a program by its path, as ./" + command.front());
}

// Rejects a word that is neither an option nor its value, because "--" must precede the launched
// command. `arguments` starts with "launch".
void refuse_without_dashes(const std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.starts_with('-')) {
      const bool is_help = word == "--help" || word == "-h";
      const bool has_value =
          word.starts_with("--") ? word.find('=') != std::string::npos : word.size() > 2;
      if (!is_help && !has_value) ++i;
      continue;
    }
    std::vector<std::string> options(arguments.begin(), arguments.begin() + static_cast<long>(i)),
        launched(arguments.begin() + static_cast<long>(i), arguments.end());
    refuse_launch(
        "unexpected argument '" + word + "'",
        "write -- before it: sluice " + join(options, " ") + " -- " + join(launched, " "));
  }
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

int launch(const LaunchArguments& arguments, const std::vector<std::string>& command,
           const std::vector<std::string>& commands) {
  require_launchable(command, commands);
  LaunchOptions options;
  options.processes = *arguments.processes;
  options.max_restarts = arguments.max_restarts.value_or(0);
  options.log_folder = arguments.log_folder;
  read_nodes(arguments, options);
  options.command = command;
  if (!contains(kLaunchable, command.front())) {
    options.program = program_file(command.front());
    options.must_join = true;
    return launch_job(options);
  }
  if (const auto config = launched_config(command, options.processes * options.num_nodes)) {
    options.meeting_timeout = milliseconds_of(config->comm.init_timeout_seconds);
    options.heartbeat = milliseconds_of(config->comm.heartbeat_seconds);
  }
  options.program = own_program().string();
  options.command.insert(options.command.begin(), "sluice");
  return launch_job(options);
}

}  // namespace

std::vector<std::string> take_launched(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) {
    refuse_without_dashes(arguments);
    return {};
  }
  std::vector<std::string> command(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return command;
}

Command launch_command(const std::vector<std::string>& launched,
                       const std::vector<std::string>& commands) {
  const auto a = std::make_shared<LaunchArguments>();
  return {.name = "launch",
          .help =
              "Starts N processes on this machine: train, eval, sample, or a program that calls "
              "sluice::run.",
          .options = {{"-n,--nproc-per-node", &a->processes,
                       "processes on this machine; they share the ranks evenly", 1, kMaxProcesses},
                      {"--max-restarts", &a->max_restarts,
                       "how often to restart all processes after one was lost, was ended by a "
                       "signal, ran out of memory or met a defect",
                       0},
                      {"--log-dir", &a->log_folder,
                       "folder for rank_N.log, the output of process N; the terminal still shows "
                       "process 0 and all errors"},
                      {"--nnodes", &a->nodes, "machines", 1, kMaxProcesses},
                      {"--node-rank", &a->node, "number of this machine, from 0", 0, kMaxProcesses},
                      {"--rdzv", &a->rdzv, "HOST:PORT of machine 0, where the launchers meet"},
                      {"--secret-file", &a->secret_file,
                       "file with the secret of all machines, readable only by its owner; default: "
                       "SLUICE_JOB_SECRET"}},
          .footer =
              "The program to launch and its options follow --:\n"
              "  sluice launch -n 4 -- train run.toml --training.steps 100\n"
              "  sluice launch -n 4 -- ./my_program ARGUMENTS\n"
              "train, eval and sample are sluice's commands. Any other word is a program: a path "
              "if it has a\nslash, else a name on PATH.\n"
              "Ctrl-C or SIGTERM asks all processes to stop; a second one, at least a second "
              "later, ends them.",
          .rules = {{.missing = {"-n"},
                     .what = "-n is missing",
                     .remedy = "give the number of processes on this machine, as -n 4"}},
          .run = [=] { return launch(*a, launched, commands); }};
}

}  // namespace sluice
