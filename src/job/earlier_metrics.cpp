#include "job/earlier_metrics.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
// Parameter norms of a large model take a few hundred kilobytes.
constexpr std::size_t kLongestLine = std::size_t{64} << 20;

// Of a line of metrics, and nothing for any other text. A disk that lost power may have left a
// block of zeros.
std::optional<std::int64_t> step_of_line(std::string_view line, const std::string& file) {
  try {
    const Json object = parse_strict_json(line, file);
    const Json& step = object.at("step");
    if (!object.contains("loss") || !step.is_number_integer()) return std::nullopt;
    const std::int64_t value = step.integer();
    return value >= 1 ? std::optional(value) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Takes the lines of a file in pieces as they are read.
class Sieve {
 public:
  Sieve(std::string from, const std::string& to, std::int64_t last_step)
      : from_(std::move(from)),
        last_step_(last_step),
        target_(File::create(to, ErrorKind::kUsage)) {}

  void add(std::string_view piece) {
    for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos;) {
      add_to_line(piece.substr(0, end));
      end_line();
      piece.remove_prefix(end + 1);
    }
    add_to_line(piece);
  }

  EarlierLines finish() {
    if (!line_.empty() || is_too_long_) ++lines_.foreign;  // no newline: torn
    flush();
    target_.sync();
    target_.close();
    return lines_;
  }

 private:
  void add_to_line(std::string_view part) {
    is_too_long_ = is_too_long_ || line_.size() + part.size() > kLongestLine;
    if (is_too_long_) line_.clear();
    if (!is_too_long_) line_ += part;
  }

  void end_line() {
    const std::optional<std::int64_t> step =
        is_too_long_ ? std::nullopt : step_of_line(line_, from_);
    if (!step || *step <= newest_) {
      ++lines_.foreign;
    } else if (*step > last_step_) {
      ++lines_.later;
    } else {
      ++lines_.kept;
      newest_ = *step;
      kept_ += line_;
      kept_ += '\n';
      if (kept_.size() >= kChunk) flush();
    }
    line_.clear();
    is_too_long_ = false;
  }

  void flush() {
    target_.write(kept_.data(), kept_.size(), written_);
    written_ += kept_.size();
    kept_.clear();
  }

  std::string from_;
  std::int64_t last_step_;
  File target_;
  EarlierLines lines_;
  std::string line_, kept_;
  bool is_too_long_ = false;
  std::int64_t newest_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace

EarlierLines copy_earlier_lines(const std::string& from, const std::string& to,
                                std::int64_t last_step) {
  Sieve sieve(from, to, last_step);
  std::error_code unknown;
  if (std::filesystem::exists(from, unknown)) {
    const File source = File::open(from, ErrorKind::kUsage);
    std::vector<char> buffer(kChunk);
    std::uint64_t done = 0;
    while (const std::size_t count = source.read_some(buffer.data(), buffer.size(), done)) {
      sieve.add({buffer.data(), count});
      done += count;
    }
  }
  return sieve.finish();
}

std::string dropped_text(const EarlierLines& lines, std::int64_t last_step) {
  std::vector<std::string> parts;
  if (lines.later > 0)
    parts.push_back(counted(lines.later, "line") + " after step " + std::to_string(last_step));
  if (lines.foreign > 0)
    parts.push_back(counted(lines.foreign, "line") + " that no run wrote as " +
                    (lines.foreign == 1 ? "it is" : "they are"));
  return join(parts, " and ");
}

}  // namespace sluice
