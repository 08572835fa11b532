#include "plan/option_words.h"

namespace sluice::detail {

const Words<OptimizerKind>& words_of(OptimizerKind) {
  static const Words<OptimizerKind> table = {{"AdamW", OptimizerKind::kAdamW},
                                             {"SGD", OptimizerKind::kSgd},
                                             {"SGD with momentum", OptimizerKind::kSgdMomentum}};
  return table;
}

const Words<Decay>& words_of(Decay) {
  static const Words<Decay> table = {
      {"constant", Decay::kConstant}, {"linear", Decay::kLinear}, {"cosine", Decay::kCosine}};
  return table;
}

const Words<GradientScale::Kind>& words_of(GradientScale::Kind) {
  static const Words<GradientScale::Kind> table = {{"tokens", GradientScale::kTokens},
                                                   {"microbatches", GradientScale::kMicrobatches},
                                                   {"none", GradientScale::kSumOfMeans}};
  return table;
}

const Words<Rounding>& words_of(Rounding) {
  static const Words<Rounding> table = {
      {"", Rounding::kNone}, {"up", Rounding::kUp}, {"down", Rounding::kDown}};
  return table;
}

const Words<Placement>& words_of(Placement) {
  static const Words<Placement> table = {{"loop", Placement::kLoop}, {"v", Placement::kV}};
  return table;
}

const Words<Reduction>& words_of(Reduction) {
  static const Words<Reduction> table = {{"exact", Reduction::kExact}, {"fast", Reduction::kFast}};
  return table;
}

const Words<LossChunks>& words_of(LossChunks) {
  static const Words<LossChunks> table = {
      {"auto", LossChunks::kAuto}, {"on", LossChunks::kOn}, {"off", LossChunks::kOff}};
  return table;
}

const Words<Balance>& words_of(Balance) {
  static const Words<Balance> table = {
      {"even", Balance::kEven}, {"cost", Balance::kCost}, {"measured", Balance::kMeasured}};
  return table;
}

const Words<ProofTransport>& words_of(ProofTransport) {
  static const Words<ProofTransport> table = {{"sluice", ProofTransport::kSluice},
                                              {"torch", ProofTransport::kTorch},
                                              {"rendezvous", ProofTransport::kRendezvous}};
  return table;
}

const Words<LogLevel>& words_of(LogLevel) {
  static const Words<LogLevel> table = [] {
    Words<LogLevel> levels;
    for (const LogLevel level :
         {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
      levels.emplace_back(to_text(level), level);
    }
    return levels;
  }();
  return table;
}

}  // namespace sluice::detail
