#include "config/config_words.h"

namespace sluice::detail {

const Words<ParameterType>& words_of(ParameterType) {
  static const Words<ParameterType> table = {{"float32", ParameterType::kFloat32},
                                             {"bfloat16", ParameterType::kBfloat16},
                                             {"float16", ParameterType::kFloat16}};
  return table;
}

const Words<MixedPrecision>& words_of(MixedPrecision) {
  static const Words<MixedPrecision> table = {{"none", MixedPrecision::kNone},
                                              {"bfloat16", MixedPrecision::kBfloat16}};
  return table;
}

const Words<FusedOperators>& words_of(FusedOperators) {
  static const Words<FusedOperators> table = {{"auto", FusedOperators::kAuto},
                                              {"off", FusedOperators::kOff}};
  return table;
}

const Words<DeviceKind>& words_of(DeviceKind) {
  static const Words<DeviceKind> table = {
      {"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}};
  return table;
}

const Words<TransportKind>& words_of(TransportKind) {
  static const Words<TransportKind> table = {{"auto", TransportKind::kAuto},
                                             {"threads", TransportKind::kThreads},
                                             {"gloo", TransportKind::kGloo},
                                             {"nccl", TransportKind::kNccl}};
  return table;
}

const Words<Commit>& words_of(Commit) {
  static const Words<Commit> table = {{"rename", Commit::kRename}, {"marker", Commit::kMarker}};
  return table;
}

const Words<OnSaveError>& words_of(OnSaveError) {
  static const Words<OnSaveError> table = {{"stop", OnSaveError::kStop},
                                           {"continue", OnSaveError::kContinue}};
  return table;
}

}  // namespace sluice::detail
