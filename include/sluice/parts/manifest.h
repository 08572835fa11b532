// manifest.json: what a checkpoint says of itself. No torch.
//
// Owns: the values, their JSON form, its strict parser. Does not own: files (checkpoint.h), what
// fingerprints are made of (job).
// The format is a page: docs/checkpoints.md.
//
// Invariants of a parsed manifest (everything else is refused):
//  1. Files are plain names: weights directly in the checkpoint, optimizer state in "optimizer/",
//     the caller's own tensors in "extra/". A name is never absolute and never leads elsewhere.
//  2. Within a list names are unique; the tensors of one file do not overlap, and each has exactly
//     the bytes that its dtype and shape ask for.
//  3. The text is whole: it ends with a hash of all that is before.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kOptimizerFolder = "optimizer";
inline constexpr const char* kExtraFolder = "extra";
inline constexpr int kManifestVersion = 1;
inline constexpr std::size_t kMaxManifestBytes = std::size_t{256} << 20;

// One tensor, once: whole, whatever layout trained it.
struct SavedTensor {
  std::string name;                     // full name, as in the file
  std::string file;                     // "model-00001-of-00002.safetensors", "optimizer/..."
  std::uint64_t offset = 0, bytes = 0;  // of the data, from the start of the file
  std::vector<std::int64_t> shape;      // {} is a scalar
  std::string dtype;                    // as safetensors says it: "F32", "BF16"
  std::string hash;                     // of the data (content_hash), 32 hexadecimal digits
  friend bool operator==(const SavedTensor&, const SavedTensor&) = default;
};

// A file that is not of tensors: config.json, the index of the shards, a tokenizer.
struct SavedFile {
  std::string file;
  std::uint64_t bytes = 0;
  std::string hash;
  friend bool operator==(const SavedFile&, const SavedFile&) = default;
};

// What something was, by size and content.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::string hash;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct Manifest {
  std::string version;  // of sluice
  std::string run;      // the same for all checkpoints of a run, resumed or not; 16 hex digits
  std::int64_t generation = 0;  // a run that begins beside others, or goes back, has a later one
  std::int64_t step = 0;        // whose update the weights hold
  std::int64_t sequence = 0;    // position in the data: so many sequences came before
  std::uint64_t seed = 0;
  std::map<std::string, Fingerprint> fingerprints;  // "configuration", "model", "data"
  std::map<std::string, std::string> settings;  // that decide numbers: "optimizer.lr" -> "0.001"
  std::map<std::string, std::string> extra;     // the caller's own; UTF-8
  std::map<std::string, std::string> ties;      // another use of a parameter -> its first
  std::vector<SavedTensor> weights;    // parameters and buffers; tied ones under their first use
  std::vector<SavedTensor> optimizer;  // "exp_avg/model.norm.weight"
  std::vector<SavedTensor> extra_tensors;
  std::vector<SavedFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// The weights are those of an adapter (lora.h) alone, named as in adapter_model.safetensors; the
// rest of the model is the one that `fingerprints` tells of.
bool holds_adapter(const Manifest& manifest);

// Throws Error(kCheckpoint) "file: what" for a text that is no manifest: torn, of another version,
// with an invariant broken. Time and memory are bounded by the length of the text.
Manifest parse_manifest(std::string_view text, const std::string& file);
// Deterministic; with a newline at its end. Precondition: the invariants hold.
std::string to_json(const Manifest& manifest);

}  // namespace sluice
