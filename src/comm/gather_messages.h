#pragma once

#include <string>
#include <vector>

#include "base/packer.h"
#include "sluice/parts/group.h"

namespace sluice {

// The rank that prints, and that decides for all ranks.
inline constexpr int kRankZero = 0;

// Collective over the group. Returns one Unpacker per member, in member order.
Work<std::vector<Unpacker>> post_messages(const Group& group, const Packer& own,
                                          std::string subject);
std::vector<Unpacker> gather_messages(const Group& group, const Packer& own,
                                      const std::string& subject);

}  // namespace sluice
