// Splits in other trainers' notations: Megatron's layout text, and lists of module names.
//
//   E|t*3|(tt|)*2tL    embedding (E), decoder layers (t), MTP layers (m), norm and head (L)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/partition/convention.h"
#include "sluice/partition.h"

namespace sluice::detail {

// LayerInfo::class_name of a layer that predicts further tokens (MTP).
inline constexpr std::string_view kMtpClass = "mtp";

// Expands a layout text to one text per stage, such as {"Ett", "tL"}. Throws Error(kUsage) without
// a place.
std::vector<std::string> expand_layout(const std::string& text);
// Shortens repeated letters and stages: {"Ett", "ttt", "ttt", "tL"} becomes "Ett|(t*3|)*2tL".
std::string shorten_layout(const std::vector<std::string>& stages);

// Reads a layout text or a JSON list of module lists. Modules may have sluice's, torchtitan's or
// AutoModel's names. Returns each stage's modules by sluice's names. Throws Error(kUsage) without a
// place.
ModuleNames modules_of_layout(const ModelSpec& model, const std::string& text);

// Returns one text per stage. Throws Error(kUsage) if a stage holds only a part of what E or L
// means.
std::vector<std::string> layout_of(const ModelSpec& model, const Partition& partition);

// Parses a JSON list of stages, each a nonempty list of names. `option` names it in errors.
ModuleNames parse_module_lists(const std::string& text, const std::string& option);

}  // namespace sluice::detail
