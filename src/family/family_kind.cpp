#include "family/family_kind.h"

#include "family/nested.h"

namespace sluice::detail {
namespace {

class FamilySource : public ModelSource {
 public:
  explicit FamilySource(const ModelSpec& model)
      : vocab_size_(model.vocab_size), is_part_(is_inside_vision_language(model.config_text)) {}
  const ModelKind& kind() const override { return family_kind(); }
  RowNeeds row_needs() const override {
    RowNeeds needs;
    needs.vocab_size = vocab_size_;
    return needs;
  }
  bool is_part() const override { return is_part_; }
  std::shared_ptr<const ModelSpec> part_of(const std::string& directory) const override {
    if (!is_part_ || directory.empty() || stored_names(directory).empty()) return nullptr;
    return std::make_shared<const ModelSpec>(read_model_spec(directory));
  }
  std::string read_config(const std::string& directory) const override {
    return read_model_spec(directory).config_text;
  }

 private:
  std::int64_t vocab_size_;
  bool is_part_;
};

class PlannedSource : public ModelSource {
 public:
  const ModelKind& kind() const override { return family_kind(); }
  RowNeeds row_needs() const override { return {.tokens = false}; }
};

class FamilyKind : public ModelKind {
 public:
  std::string_view key() const override { return ""; }
  std::string_view title() const override { return "a model of a Hugging Face family"; }
  ModelSpec read(const ModelRequest& request) const override {
    return request.plans_only ? read_planned_spec(request.path, request.precision)
                              : read_model_spec(request.path, request.precision);
  }
};

}  // namespace

const ModelKind& family_kind() {
  static const FamilyKind kind;
  return kind;
}

std::shared_ptr<const ModelSource> planned_source() {
  return std::make_shared<const PlannedSource>();
}

std::shared_ptr<const ModelSource> family_source(const ModelSpec& model) {
  return std::make_shared<const FamilySource>(model);
}

}  // namespace sluice::detail
