#include "checkpoint/manifest_rules.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>

#include "base/format.h"
#include "base/safetensors_header.h"
#include "base/text.h"
#include "checkpoint/manifest.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::numeric_limits<std::int64_t>::max();
// A safetensors file starts with the length of its header, 8 bytes.
constexpr std::uint64_t kMinOffset = 8;
constexpr std::size_t kMaxNameBytes = 255;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == '\x7f';
         });
}

bool is_tensor_file(std::string_view file, std::string_view folder) {
  if (!folder.empty()) {
    if (!file.starts_with(folder) || file.substr(folder.size(), 1) != "/") return false;
    file.remove_prefix(folder.size() + 1);
  }
  return is_plain_name(file) && file.ends_with(".safetensors");
}

std::optional<std::uint64_t> bytes_of(const SavedTensor& tensor) {
  auto bits = static_cast<std::uint64_t>(safetensors_dtype_bits(tensor.dtype));
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits))
      return std::nullopt;
  }
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

std::string place(const std::string& list, const std::string& name) {
  return formatted("{} '{}'", list, name);
}

std::string wrong_with(const SavedTensor& tensor, std::string_view folder) {
  if (!is_tensor_file(tensor.file, folder)) {
    return formatted("file '{}' is not a plain name{} that ends in .safetensors", tensor.file,
                     folder.empty() ? std::string() : " in '" + std::string(folder) + "/'");
  }
  if (safetensors_dtype_bits(tensor.dtype) == 0) return "unknown dtype '" + tensor.dtype + "'";
  const std::optional<std::uint64_t> bytes = bytes_of(tensor);
  if (!bytes) return "the bytes of " + tensor.dtype + " " + shape_text(tensor.shape) + " overflow";
  if (*bytes != tensor.bytes) {
    return formatted("'bytes' is {}, but {} {} has {} bytes", tensor.bytes, tensor.dtype,
                     shape_text(tensor.shape), *bytes);
  }
  if (tensor.offset < kMinOffset || tensor.bytes > kMaxFileBytes ||
      tensor.offset > kMaxFileBytes - tensor.bytes) {
    return formatted("'offset' {} is outside of every file", tensor.offset);
  }
  if (!is_hex(tensor.hash, 32)) return "'hash' is not 32 hexadecimal digits";
  return {};
}

std::optional<ErrorText> broken_rule(const std::vector<SavedTensor>& tensors,
                                     const std::string& list, std::string_view folder) {
  std::unordered_set<std::string_view> names;
  std::vector<const SavedTensor*> by_place;
  by_place.reserve(tensors.size());
  for (const SavedTensor& tensor : tensors) {
    if (std::string wrong = wrong_with(tensor, folder); !wrong.empty())
      return ErrorText{.what = std::move(wrong), .where = place(list, tensor.name)};
    if (!names.insert(tensor.name).second)
      return ErrorText{.what = "the tensor occurs twice", .where = place(list, tensor.name)};
    by_place.push_back(&tensor);
  }
  std::sort(by_place.begin(), by_place.end(), [](const SavedTensor* a, const SavedTensor* b) {
    return std::tie(a->file, a->offset, a->bytes) < std::tie(b->file, b->offset, b->bytes);
  });
  const auto overlap = std::adjacent_find(
      by_place.begin(), by_place.end(), [](const SavedTensor* a, const SavedTensor* b) {
        return a->file == b->file && a->offset + a->bytes > b->offset;
      });
  if (overlap == by_place.end()) return std::nullopt;
  return ErrorText{.what = "it overlaps '" + (*overlap)->name + "' in '" + (*overlap)->file + "'",
                   .where = place(list, (*(overlap + 1))->name)};
}

std::optional<ErrorText> broken_rule_of_files(const Manifest& manifest) {
  std::set<std::string_view> taken = {kManifestFile};
  for (const SavedTensor& tensor : manifest.weights) taken.insert(tensor.file);
  for (const SavedFile& file : manifest.files) {
    const auto broken = [&](std::string what) {
      return ErrorText{.what = std::move(what), .where = place("files", file.file)};
    };
    if (!is_plain_name(file.file)) return broken("'file' is not a plain name");
    if (!taken.insert(file.file).second) return broken("the file occurs twice");
    if (file.bytes > kMaxFileBytes) return broken("'bytes' is above 2^63-1");
    if (!is_hex(file.hash, 32)) return broken("'hash' is not 32 hexadecimal digits");
  }
  return std::nullopt;
}

std::optional<ErrorText> broken_rule_of_ties(const Manifest& manifest) {
  if (manifest.ties.empty()) return std::nullopt;
  std::unordered_set<std::string_view> weights;
  for (const SavedTensor& tensor : manifest.weights) weights.insert(tensor.name);
  for (const auto& [use, first] : manifest.ties) {
    if (weights.contains(use))
      return ErrorText{.what = "it is both tied and among the weights",
                       .where = place("ties", use)};
    if (!weights.contains(first)) {
      return ErrorText{.what = "its first use '" + first + "' is not among the weights",
                       .where = place("ties", use)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ErrorText> broken_rule(const Manifest& manifest) {
  if (!is_hex(manifest.run, 16))
    return ErrorText{.what = "'run' is not 16 hexadecimal digits", .where = "run"};
  if (manifest.step < 0) return ErrorText{.what = "'step' is negative", .where = "step"};
  if (manifest.generation < 0) return ErrorText{.what = "'generation' is negative"};
  if (manifest.sequence < 0) return ErrorText{.what = "'sequence' is negative", .where = "data"};
  for (const auto& [name, fingerprint] : manifest.fingerprints) {
    if (!is_hex(fingerprint.hash, 32)) {
      return ErrorText{.what = "'hash' is not 32 hexadecimal digits",
                       .where = place("fingerprints", name)};
    }
  }
  auto broken = broken_rule(manifest.weights, "weights", {});
  if (!broken) broken = broken_rule(manifest.optimizer, "optimizer", kOptimizerFolder);
  if (!broken) broken = broken_rule(manifest.extra_tensors, "extra_tensors", kExtraFolder);
  if (!broken) broken = broken_rule_of_files(manifest);
  if (!broken) broken = broken_rule_of_ties(manifest);
  return broken;
}

}  // namespace sluice
