// Compares models made by tests/oracle/models.py with the answers of transformers beside them.
//
// usage: oracle_compare DIRECTORY ...
//
// Prints one line per model: "ok NAME .." with the largest differences, "unknown NAME: .." for a
// family that sluice does not have, or "DIFFERS NAME: .." with all differences. Exits 1 if any
// model differs.
//
// For every kind of batch, compares the loss, the logits and every gradient. The whole model and
// the model in two and four chunks must have the same bits. Then compares five steps of AdamW in
// pipelines of 1, 2 and 4 stages, whose losses, norms and weights must have the same bits in every
// layout.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "family/nested.h"
#include "io/hf_shards.h"
#include "io/safetensors.h"
#include "model/support.h"
#include "sluice/parts/hf_directory.h"
#include "support/train_pipeline.h"

namespace sluice::testing {
namespace {

// Bounds of relative differences. Losses and logits above 1 are relative to themselves. Gradients
// are relative to the largest element of their parameter's gradient. Tiny gradients are relative to
// the largest of all gradients.
constexpr double kLoss = 1e-5, kLogits = 2e-5, kGradient = 1e-4, kTinyGradient = 2e-7;
// A curve may differ by five times these bounds. Sometimes last bits decide a gradient or a curve.
// It may then differ by this multiple of the spread that changed last bits cause in transformers
// itself.
constexpr double kSpread = 2;
constexpr int kSteps = 5;

double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0.0 : tensor.detach().to(at::kDouble).abs().max().item<double>();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.sizes() == y.sizes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

struct Findings {
  std::vector<std::string> wrong;
  double logits = 0, gradient = 0, curve = 0;

  void check(double& worst, double relative, double bound, const std::string& what) {
    if (!(relative <= bound)) {
      char number[32];
      std::snprintf(number, sizeof number, "%.2e", relative);
      wrong.push_back(what + " by " + number);
    }
    worst = std::max(worst, relative);
  }
};

class Reference {
 public:
  explicit Reference(const std::string& directory) : file_(directory + "/reference.safetensors") {
    for (const std::string& name : file_.names()) kinds_.insert(name.substr(0, name.find('/')));
  }
  const std::set<std::string>& kinds() const { return kinds_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor get(const std::string& name) const {
    return has(name) ? file_.read(name) : at::Tensor();
  }
  std::map<std::string, at::Tensor> gradients(const std::string& kind) const {
    const std::string prefix = kind + "/gradient/";
    std::map<std::string, at::Tensor> found;
    for (const std::string& name : file_.names()) {
      if (name.starts_with(prefix)) found[name.substr(prefix.size())] = file_.read(name);
    }
    return found;
  }

 private:
  SafetensorsReader file_;
  std::set<std::string> kinds_;
};

std::vector<int> even_cuts(std::size_t num_layers, int pieces) {
  std::vector<int> cuts;
  for (int i = 1; i < pieces; ++i) cuts.push_back(static_cast<int>(num_layers) * i / pieces);
  return cuts;
}

struct Answer {
  at::Tensor loss, logits;
  std::map<std::string, at::Tensor> gradients;
};

Answer answer(const ModelSpec& spec, const HfDirectory& weights, int pieces, const Values& batch) {
  ChunkChain chain(spec, even_cuts(spec.layers.size(), pieces));
  for (Chunk& chunk : chain.chunks()) {
    std::vector<ParameterInfo> parameters = chunk.parameters();
    load_parameters(weights, parameters, spec);
  }
  const Values outputs = chain.forward(batch);
  const LossValue loss = causal_lm_loss(outputs, batch);
  chain.backward(loss.loss / loss.count);
  return {loss.loss.detach() / loss.count, outputs.get("logits").detach(), chain.gradients()};
}

void compare_gradients(const std::map<std::string, at::Tensor>& found,
                       const std::map<std::string, at::Tensor>& expected, double spread,
                       const std::string& kind, Findings& findings) {
  double all = 0;
  for (const auto& [name, gradient] : expected) all = std::max(all, largest(gradient));
  for (const auto& [name, gradient] : expected) {
    const auto ours = found.find(name);
    if (ours == found.end()) {
      if (largest(gradient) > 0) findings.wrong.push_back(kind + ": no parameter '" + name + "'");
      continue;
    }
    if (ours->second.sizes() != gradient.sizes()) {
      findings.wrong.push_back(kind + ": another shape of '" + name + "'");
      continue;
    }
    const double scale = largest(gradient) + kTinyGradient / kGradient * all;
    findings.check(findings.gradient, largest(ours->second - gradient) / scale,
                   std::max(kGradient, kSpread * spread), kind + ": gradient of " + name);
  }
  for (const auto& [name, gradient] : found) {
    if (!expected.contains(name))
      findings.wrong.push_back(kind + ": transformers has no '" + name + "'");
  }
}

// auxiliary: the loss of transformers includes more than the token loss. Only the training steps
// compare that loss.
void compare_answers(const ModelSpec& spec, const HfDirectory& weights, const Reference& reference,
                     const std::string& kind, bool auxiliary, Findings& findings) {
  const Values batch{{"input_ids", reference.get(kind + "/input_ids")},
                     {"labels", reference.get(kind + "/labels")},
                     {"attention_mask", reference.get(kind + "/attention_mask")},
                     {"position_ids", reference.get(kind + "/position_ids")}};
  const Answer whole = answer(spec, weights, 1, batch);

  at::Tensor ours = whole.logits, theirs = reference.get(kind + "/logits");
  if (batch.get("attention_mask").defined() && !reference.has(kind + "/padded_logits")) {
    const at::Tensor seen = batch.get("attention_mask").to(at::kBool);
    ours = ours.index({seen}), theirs = theirs.index({seen});
  }
  if (ours.sizes() != theirs.sizes()) {
    findings.wrong.push_back(kind + ": another shape of the logits");
    return;
  }
  findings.check(findings.logits, largest(ours - theirs) / std::max(1.0, largest(theirs)), kLogits,
                 kind + ": logits");
  if (!auxiliary) {
    const double loss = reference.get(kind + "/loss").item<double>();
    findings.check(findings.logits,
                   std::abs(whole.loss.item<double>() - loss) / std::max(1.0, std::abs(loss)),
                   kLoss, kind + ": loss");
    compare_gradients(whole.gradients, reference.gradients(kind),
                      reference.get(kind + "/gradient_spread").item<double>(), kind, findings);
  }

  for (int pieces : {2, 4}) {
    if (static_cast<std::size_t>(pieces) > spec.layers.size()) continue;
    const Answer cut = answer(spec, weights, pieces, batch);
    const std::string what = kind + ": other bits in " + std::to_string(pieces) + " chunks: ";
    if (!same_bits(cut.logits, whole.logits)) findings.wrong.push_back(what + "logits");
    for (const auto& [name, gradient] : whole.gradients) {
      if (!same_bits(cut.gradients.at(name), gradient)) findings.wrong.push_back(what + name);
    }
  }
}

template <typename T>
std::vector<T> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).contiguous();
  const auto* first = flat.const_data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

TokenRows rows_of(const Reference& reference, const std::string& kind) {
  const at::Tensor ids = reference.get(kind + "/input_ids");
  TokenRows rows{ids.size(0), ids.size(1), numbers<std::int32_t>(ids),
                 numbers<std::int32_t>(reference.get(kind + "/labels"))};
  const at::Tensor mask = reference.get(kind + "/attention_mask");
  const at::Tensor positions = reference.get(kind + "/position_ids");
  if (mask.defined()) rows.attention_mask = numbers<std::uint8_t>(mask);
  if (positions.defined()) rows.position_ids = numbers<std::int32_t>(positions);
  return rows;
}

struct Layout {
  int num_ranks;
  std::string schedule;
  std::int64_t microbatch_size;
  std::string text() const {
    return std::to_string(num_ranks) + " ranks, " + schedule + ", microbatches of " +
           std::to_string(microbatch_size);
  }
};

test::TrainingResult train(const ModelSpec& spec, const HfDirectory& weights, const TokenRows& rows,
                           const Layout& layout) {
  test::TrainingRun run;
  run.model = [&] { return causal_lm(spec); };
  PartitionOptions split;
  split.num_ranks = layout.num_ranks;
  split.schedule = layout.schedule;
  run.partition = make_partition(spec, split);
  run.program = test::training_program(layout.schedule, layout.num_ranks,
                                       static_cast<int>(rows.num_rows / layout.microbatch_size),
                                       run.partition.tie_groups);
  for (int step = 1; step <= kSteps; ++step)
    run.steps.push_back(causal_lm_batch(rows, layout.microbatch_size, step));
  run.lr = 1e-3;
  run.weights = &weights;
  run.spec = &spec;
  return test::run_training(run);
}

void compare_curve(const test::TrainingResult& found, const Reference& reference,
                   const std::string& kind, const Layout& layout, Findings& findings) {
  // If a separate forward per row computes something else, the reference has another curve for it.
  const bool by_rows = layout.microbatch_size == 1 && reference.has(kind + "/curve_of_rows/losses");
  const std::string curve = kind + (by_rows ? "/curve_of_rows/" : "/curve/");
  const auto check = [&](int step, const char* value, double ours, double least_scale,
                         double bound) {
    const auto theirs = [&](const std::string& name) {
      return reference.get(curve + name)[step].item<double>();
    };
    const std::string values = value == std::string("loss") ? "losses" : "norms";
    const double expected = theirs(values), spread = theirs(values + "_spread");
    const double scale = std::max(least_scale, std::abs(expected));
    findings.check(
        findings.curve, std::abs(ours - expected) / scale,
        std::max(5 * bound, kSpread * spread / scale),
        kind + ": step " + std::to_string(step + 1) + ", " + layout.text() + ": " + value);
  };
  for (int step = 0; step < kSteps; ++step) {
    check(step, "loss", found.reports[step].loss, 1.0, kLoss);
    check(step, "norm", found.reports[step].grad_norm, 0.0, kGradient);
  }
}

void compare_training(const ModelSpec& spec, const HfDirectory& weights, const Reference& reference,
                      const std::string& kind, bool auxiliary, Findings& findings) {
  const TokenRows rows = rows_of(reference, kind);
  const int num_blocks = spec.num_blocks();
  for (int num_ranks : {1, 2}) {
    if (num_ranks > num_blocks) continue;
    const Layout whole_batch{num_ranks, "GPipe", rows.num_rows};
    compare_curve(train(spec, weights, rows, whole_batch), reference, kind, whole_batch, findings);
  }
  const Layout one_rank{1, "GPipe", 1};
  const test::TrainingResult alone = train(spec, weights, rows, one_rank);
  // An auxiliary loss is a mean over microbatches, not over the rows of the step.
  if (!auxiliary) compare_curve(alone, reference, kind, one_rank, findings);
  for (const Layout& layout :
       {Layout{1, "1F1B", 1}, Layout{2, "GPipe", 1}, Layout{2, "1F1B", 1}, Layout{4, "GPipe", 1},
        Layout{4, "1F1B", 1}, Layout{2, "ZBVZeroBubble", 1}}) {
    const int num_stages = layout.num_ranks * (layout.schedule == "ZBVZeroBubble" ? 2 : 1);
    if (num_stages > num_blocks) continue;
    if (!test::same_bits(alone, train(spec, weights, rows, layout)))
      findings.wrong.push_back(kind + ": other bits after " + std::to_string(kSteps) +
                               " steps on " + layout.text());
  }
}

Findings compare(const std::string& directory) {
  Findings findings;
  const ModelSpec spec = read_model_spec(directory);
  const HfDirectory weights(directory);
  for (const std::string& name : check_checkpoint(weights, spec)) {
    // other tensors are kept unchanged
    if (detail::is_inside_vision_language(spec.config_text)) break;
    findings.wrong.push_back("no place for the tensor '" + name + "'");
    if (findings.wrong.size() == 3) break;
  }
  const Reference reference(directory);
  const auto config = nlohmann::json::parse(spec.config_text);
  const bool auxiliary = config.value("output_router_logits", false);
  for (const std::string& kind : reference.kinds()) {
    try {
      compare_answers(spec, weights, reference, kind, auxiliary, findings);
      if (reference.has(kind + "/curve/losses"))
        compare_training(spec, weights, reference, kind, auxiliary, findings);
    } catch (const Error& error) {
      findings.wrong.push_back(kind + ": " + error.what());
    }
  }
  return findings;
}

bool report(const std::string& directory) {
  const std::string name = std::filesystem::path(directory).filename();
  Findings findings;
  try {
    findings = compare(directory);
  } catch (const Error& error) {
    if (error.fact().find("is not known") != std::string::npos) {
      std::printf("unknown %s: %s\n", name.c_str(), error.what());
      return true;
    }
    findings.wrong.emplace_back(error.what());
  }
  if (findings.wrong.empty()) {
    std::printf("ok %s: logits %.1e gradients %.1e curves %.1e\n", name.c_str(), findings.logits,
                findings.gradient, findings.curve);
    return true;
  }
  constexpr std::size_t kShown = 8;
  std::printf("DIFFERS %s: %zu findings", name.c_str(), findings.wrong.size());
  for (std::size_t i = 0; i < std::min(kShown, findings.wrong.size()); ++i)
    std::printf("\n    %s", findings.wrong[i].c_str());
  std::printf("\n");
  return false;
}

int run(int argc, char** argv) {
  at::set_num_threads(1);
  bool all = true;
  for (int i = 1; i < argc; ++i) {
    all = report(argv[i]) && all;
    std::fflush(stdout);
  }
  return all ? 0 : 1;
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) { return sluice::testing::run(argc, argv); }
