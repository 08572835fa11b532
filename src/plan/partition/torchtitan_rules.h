#pragma once

#include <string>
#include <vector>

#include "plan/partition/shares.h"

namespace sluice::detail {

// Throws unless layers_per_stage divides each rank's layers, weights included.
int rigid_num_stages(StagesNeed need, int pp_degree, int num_layers, int layers_per_stage,
                     int input_weight, int output_weight);

std::vector<int> shares_2024(int num_layers, int num_stages);

// `starts` holds the first decoder layer of every stage.
std::vector<std::string> titan_split_points(const std::vector<int>& starts);
ModuleNames titan_modules(const std::vector<int>& starts, int num_layers, const std::string& head);

}  // namespace sluice::detail
