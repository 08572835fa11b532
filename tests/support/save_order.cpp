#include "support/save_order.h"

#include <fcntl.h>

#include <algorithm>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

namespace sluice::test {
namespace {

constexpr const char* kMarker = "/manifest.json";
constexpr const char* kNote = ".sluice-incomplete";  // ignored beside a marker

Tree content_of(const Tree& tree, const std::string& step) {
  Tree content = below(tree, step);
  content.erase(kNote);
  return content;
}

// "checkpoint/step-00000002/optimizer/x" -> "checkpoint/step-00000002". "" for paths outside a
// checkpoint.
std::string step_of(const std::string& path, const Saving& saving) {
  const std::string prefix = saving.folder == "." ? "step-" : saving.folder + "/step-";
  if (!path.starts_with(prefix)) return {};
  const std::size_t end =
      std::min(path.find_first_not_of("0123456789", prefix.size()), path.size());
  if (end < prefix.size() + 8 || (end < path.size() && path[end] != '/')) return {};
  return path.substr(0, end);
}

// "" if the call commits no checkpoint.
std::string committed_by(const FileCall& call, const Saving& saving) {
  if (call.result < 0) return {};
  if (!saving.marker) {
    if (call.name != "rename") return {};
    const std::string step = step_of(call.other, saving);
    return step == call.other ? step : "";
  }
  const std::string& path = call.name == "rename" ? call.other : call.path;
  const bool makes = call.name == "rename" || (call.name == "open" && (call.flags & O_CREAT));
  const std::string step = makes ? step_of(path, saving) : "";
  return !step.empty() && path == step + kMarker ? step : "";
}

bool removes(const FileCall& call) {
  return call.result >= 0 &&
         (call.name == "unlink" || call.name == "rmdir" || call.name == "rename");
}

class OrderCheck {
 public:
  OrderCheck(const Tree& before, const Saving& saving) : saving_(saving), model_(before) {}

  void next(const FileCall& call) {
    const std::string step = committed_by(call, saving_);
    if (!step.empty()) commit(call, step);
    if (removes(call)) remove(call, step);
    model_.play(call);
  }

  OrderReport end() {
    for (const std::string& step : report_.commits) {
      // removed since
      if (model_.durable_path(step).empty() && !step_is_there(step)) continue;
      require_durable(step);
    }
    return std::move(report_);
  }

 private:
  void broken(const FileCall& call, const std::string& rule) {
    report_.broken.push_back(call.text() + ": " + rule);
  }

  bool step_is_there(const std::string& step) const {
    const Tree now = model_.now();
    return now.contains(saving_.marker ? step + kMarker : step);
  }

  void commit(const FileCall& call, const std::string& step) {
    std::string missing;
    if (!saving_.marker) {
      missing = model_.not_synced(call.path);
    } else {
      missing = model_.not_synced(step, call.path.substr(call.path.rfind('/') + 1));
      if (missing.empty() && call.name == "rename") missing = model_.not_synced(call.path);
    }
    if (!missing.empty()) broken(call, "commits what is not synced: " + missing);
    report_.commits.push_back(step);
  }

  bool is_committed_durably(const std::string& step) const {
    return model_.is_durable(saving_.marker ? step + kMarker : step);
  }

  bool has_later(const std::string& step) const {
    for (const auto& [path, node] : model_.durable()) {
      const std::string other = step_of(path, saving_);
      // A step number with more digits is later.
      if (!other.empty() && std::pair(other.size(), other) > std::pair(step.size(), step) &&
          is_committed_durably(other))
        return true;
    }
    return false;
  }

  void remove(const FileCall& call, const std::string& committed) {
    const std::string durable = model_.durable_path(call.path);
    const std::string step = durable.ends_with(kNote) ? "" : step_of(durable, saving_);
    if (!step.empty() && is_committed_durably(step)) {
      const bool is_name = durable == step || (saving_.marker && durable == step + kMarker);
      if (!is_name) {
        broken(call, "takes apart what a power loss may bring back as '" + step + "'");
      } else if (call.name == "rename" && (call.flags & RENAME_EXCHANGE)) {
        broken(call, "gives away the name of '" + step + "'");
      } else if (!has_later(step)) {
        broken(call, "'" + step + "' goes before a later one is durable");
      }
    }
    // Replaces a file of a committed checkpoint. Rule 1 covers the new file.
    if (call.name == "rename" && committed.empty() && !step_of(call.other, saving_).empty() &&
        is_committed_durably(step_of(call.other, saving_)))
      broken(call, "changes what is committed");
  }

  void require_durable(const std::string& step) {
    std::string missing = model_.name_not_synced(step);
    if (missing.empty()) missing = model_.not_synced(step, kNote);
    if (!missing.empty())
      report_.broken.push_back("at the end '" + step + "' is not durable: " + missing);
  }

  Saving saving_;
  FileSystemModel model_;
  OrderReport report_;
};

long step_number(const std::string& step) { return std::stol(step.substr(step.rfind('-') + 1)); }

}  // namespace

OrderReport check_save_order(const Tree& before, const std::vector<FileCall>& calls,
                             const Saving& saving) {
  OrderCheck check(before, saving);
  for (const FileCall& call : calls) check.next(call);
  return check.end();
}

Known committed_contents(const Tree& before, const std::vector<FileCall>& calls,
                         const Saving& saving, std::shared_ptr<Contents> contents) {
  Known known;
  const auto learn = [&known](const Tree& tree, const std::string& step) {
    known[step].push_back(content_of(tree, step));
  };
  FileSystemModel model(before, std::move(contents));
  for (const auto& [path, node] : before) {
    const std::string step = step_of(path, saving);
    if (step == path && !step.empty()) learn(model.now(), step);
  }
  for (const FileCall& call : calls) {
    model.play(call);
    // A marker that is written in place is complete once it is closed.
    const std::string step = step_of(call.path, saving);
    const bool closes = call.name == "close" && saving.marker && call.path == step + kMarker;
    const std::string made = call.name == "rename" ? committed_by(call, saving) : "";
    if (closes || !made.empty()) learn(model.now(), closes ? step : made);
  }
  return known;
}

Judgement judge(const Tree& state, const Known& known, const Saving& saving) {
  Judgement judgement;
  for (const auto& [path, node] : state) {
    const std::string step = step_of(path, saving);
    if (step != path || step.empty()) continue;
    const auto marker = state.find(step + kMarker);
    if (saving.marker && marker == state.end()) continue;
    std::string why = "it was never committed";
    bool whole = false, marked = !saving.marker;
    if (const auto contents = known.find(step); contents != known.end()) {
      for (const Tree& content : contents->second) {
        const auto own = content.find(kMarker + 1);
        if (saving.marker && (own == content.end() || !(own->second == marker->second))) continue;
        marked = true;
        why = difference(content, content_of(state, step));
        whole = whole || why.empty();
      }
    }
    if (whole) {
      judgement.whole.push_back(step);
    } else if (marked && judgement.torn.empty()) {
      judgement.torn = step + ": " + why;
    }  // an incomplete marker commits nothing
  }
  return judgement;
}

LossReport check_power_losses(const Tree& before, const std::vector<FileCall>& calls,
                              const Saving& saving, int num_random, std::uint64_t seed,
                              const std::function<std::string(const Tree&)>& also) {
  const auto contents = std::make_shared<Contents>();
  const Known known = committed_contents(before, calls, saving, contents);
  std::mt19937_64 random(seed);
  FileSystemModel model(before, contents);
  LossReport report;
  const auto newest = [](const Judgement& judgement) {
    long step = -1;
    for (const std::string& path : judgement.whole) step = std::max(step, step_number(path));
    return step;
  };
  for (const FileCall& call : calls) {
    model.play(call);
    const long durable = newest(judge(model.durable(), known, saving));
    model.for_each_power_loss(random, num_random, [&](const Tree& state, const std::string& loss) {
      ++report.num_states;
      const Judgement judgement = judge(state, known, saving);
      std::string wrong;
      if (!judgement.torn.empty()) {
        wrong = "torn: " + judgement.torn;
      } else if (newest(judgement) < durable) {
        wrong = "step " + std::to_string(durable) + " was durable and is gone";
      } else if (also) {
        wrong = also(state);
      }
      if (!wrong.empty())
        report.broken.push_back("after " + call.text() + ", " + loss + ": " + wrong);
    });
  }
  return report;
}

}  // namespace sluice::test
