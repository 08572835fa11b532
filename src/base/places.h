#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

std::string numbers_text(const std::vector<int>& numbers);         // "0, 1, 2"
std::string ranks_text(const std::vector<int>& ranks);             // "rank 2", "ranks 0, 2"
std::string stages_text(const std::vector<int>& stages);           // "stage 2", "stages 1, 2"
std::string place_text(int rank, const std::vector<int>& stages);  // "rank 1 (stages 1, 2)"
// "rank 2, instruction 17 '1RECV_B3'".
std::string instruction_place(int rank, int index, std::string_view action);

}  // namespace sluice
