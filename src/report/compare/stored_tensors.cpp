#include "report/compare/stored_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/format.h"
#include "base/safetensors_header_json.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTensorEnding = ".safetensors";
constexpr std::array<std::string_view, 4> kStepWords = {"step", "iter", "checkpoint", "epoch"};
constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod.", "_fsdp_wrapped_module.",
                                                       "_checkpoint_wrapped_module."};

bool is_digit_character(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit_character(text[count])) ++count;
  return text.substr(0, count);
}

std::int64_t number_of_digits(std::string_view digits) {
  std::int64_t number = -1;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failed == std::errc() && end == digits.data() + digits.size() ? number : -1;
}

// Removes what wrappers of PyTorch modules add to a name.
std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper : kWrappers) name = replace_all(std::move(name), wrapper, "");
  return name.starts_with("module.") ? name.substr(7) : name;
}

void add_file(const std::string& path, TensorTable& table) {
  const io::ReadHeader read = io::read_header(File::open(path));
  for (const SafetensorsEntry& entry : read.header.entries) {
    StoredTensor tensor = {entry.dtype, entry.shape, path, read.data_start + entry.begin,
                           read.data_start + entry.end};
    const auto [place, is_new] = table.emplace(without_wrappers(entry.name), std::move(tensor));
    if (is_new) continue;
    throw Error(ErrorKind::kInput,
                {.what = formatted("the tensor is in two files of one step, also in {}",
                                   place->second.file),
                 .where = formatted("{}, tensor '{}'", path, entry.name),
                 .remedy = "keep one of the files, or name the step in each file's name"});
  }
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  if (error) {
    throw Error(ErrorKind::kInput, {.what = "cannot read the folder: " + error.message(),
                                    .where = folder,
                                    .remedy = "check its permissions"});
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void add_files_of(const std::string& folder, std::int64_t step, TensorSteps& steps) {
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    std::error_code unknown;
    if (!name.ends_with(kTensorEnding) || !fs::is_regular_file(path, unknown)) continue;
    const std::int64_t own = step_of_name(name);
    add_file(path.string(), steps[own >= 0 ? own : step]);
  }
}

}  // namespace

std::string StoredTensor::form() const { return formatted("{} {}", dtype, shape_text(shape)); }

bool NaturalOrder::operator()(std::string_view a, std::string_view b) const {
  while (!a.empty() && !b.empty()) {
    const std::string_view x = take_digits(a), y = take_digits(b);
    if (!x.empty() && !y.empty()) {
      const std::int64_t p = number_of_digits(x), q = number_of_digits(y);
      if (p != q) return p < q;
      if (x != y) return x < y;
      a.remove_prefix(x.size());
      b.remove_prefix(y.size());
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

std::int64_t step_of_name(std::string_view name) {
  if (name.ends_with(kTensorEnding)) name.remove_suffix(kTensorEnding.size());
  for (const std::string_view word : kStepWords) {
    const std::size_t at = name.rfind(word);
    if (at == std::string_view::npos) continue;
    std::string_view rest = name.substr(at + word.size());
    if (!rest.empty() && (rest.front() == '-' || rest.front() == '_')) rest.remove_prefix(1);
    if (const std::string_view digits = take_digits(rest); !digits.empty())
      return number_of_digits(digits);
  }
  return number_of_digits(name);
}

TensorSteps find_tensors(const std::string& path) {
  TensorSteps steps;
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) {
    if (path.ends_with(kTensorEnding))
      add_file(path, steps[std::max<std::int64_t>(step_of_name(base_name(path)), 0)]);
    return steps;
  }
  add_files_of(path, std::max<std::int64_t>(step_of_name(base_name(path)), 0), steps);
  if (!steps.empty()) return steps;
  for (const fs::path& folder : entries_of(path)) {
    const std::string name = folder.filename().string();
    if (name.starts_with('.') || !fs::is_directory(folder, unknown)) continue;
    if (const std::int64_t step = step_of_name(name); step >= 0)
      add_files_of(folder.string(), step, steps);
  }
  return steps;
}

void TensorFiles::read(const StoredTensor& tensor, std::uint64_t offset, std::size_t count,
                       char* bytes) {
  auto file = files_.find(tensor.file);
  if (file == files_.end()) file = files_.emplace(tensor.file, File::open(tensor.file)).first;
  file->second.read(bytes, count, tensor.begin + offset);
}

}  // namespace sluice
