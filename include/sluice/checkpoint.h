// Reads checkpoints: folders with weights that transformers can load, optimizer state and a
// manifest.
//
//     sluice::Checkpoint checkpoint("runs/a/step-00000100");
//     at::Tensor norm = checkpoint.read(sluice::SavedKind::kWeights, "model.norm.weight");
//
// Tensors are stored unsharded, so a run with any parallel layout can read them. Symbolic links are
// refused. Const members are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace sluice {

struct IndexRange;

struct SavedTensor {
  std::string name;
  std::string file;
  std::uint64_t offset = 0, bytes = 0;
  std::vector<std::int64_t> shape;
  std::string dtype;  // as in safetensors: "BF16"
  std::string hash;
  friend bool operator==(const SavedTensor&, const SavedTensor&) = default;
};

// A file without tensors, such as config.json.
struct SavedFile {
  std::string file;
  std::uint64_t bytes = 0;
  std::string hash;
  friend bool operator==(const SavedFile&, const SavedFile&) = default;
};

// Identifies a file or model that a run started from.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::string hash;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct Manifest {
  std::string version;
  std::string run;              // 16 hexadecimal digits, kept on resuming
  std::int64_t generation = 0;  // incremented if a run ignores newer checkpoints in its folder
  std::int64_t step = 0;        // the last step that updated the weights
  std::int64_t sequence = 0;
  std::uint64_t seed = 0;
  std::map<std::string, Fingerprint> fingerprints;  // "configuration", "model", "data"
  std::map<std::string, std::string> settings;      // settings that affect results: "optimizer.lr"
  std::map<std::string, std::string> extra;         // the caller's entries, UTF-8
  std::map<std::string, std::string> ties;          // tied parameter -> name of its first use
  std::vector<SavedTensor> weights;                 // each tied weight once
  std::vector<SavedTensor> optimizer;               // "exp_avg/model.norm.weight"
  std::vector<SavedTensor> extra_tensors;
  std::vector<SavedFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

enum class SavedKind : std::uint8_t { kWeights, kOptimizer, kExtra };

class Checkpoint {
 public:
  // Throws Error(kCheckpoint) if the checkpoint is missing or uncommitted, or file headers
  // contradict the manifest.
  explicit Checkpoint(std::string path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  const std::string& path() const;
  const Manifest& manifest() const;
  // Compares every file with its hash. Throws Error(kCheckpoint) with a file and tensor that
  // differ.
  void verify(int num_threads = 1) const;

  const SavedTensor* find(SavedKind kind, std::string_view name) const;
  // Copies a slice of a stored tensor (an empty slice: all of it), converting between
  // floating-point dtypes. Throws Error(kCheckpoint) for an unknown tensor, another shape or dtype,
  // or a truncated file.
  void read_into(SavedKind kind, std::string_view name, const std::vector<IndexRange>& slice,
                 at::Tensor& destination) const;
  // Verifies a tensor's hash. Returns a CPU copy in the stored dtype.
  at::Tensor read(SavedKind kind, std::string_view name) const;
  // Closes the files. path() and manifest() still work.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ListedCheckpoint {
  std::int64_t step = 0;
  std::string path;
  bool committed = false;  // has a complete manifest
  bool ok = false;         // is committed and passes verify()
  std::string reason;
};

// Verifies all checkpoints directly in `folder` and sorts them by step.
std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder, int num_threads = 1);

}  // namespace sluice
