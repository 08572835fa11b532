// Packed messages, from every member of a group to every member.
#pragma once

#include <string>
#include <vector>

#include "base/packer.h"
#include "sluice/parts/group.h"

namespace sluice {

// The rank that decides for all, prints, and writes what one rank writes.
inline constexpr int kRankZero = 0;

// Collective. One Unpacker for each member, in order. subject: what it is about, for errors.
Work<std::vector<Unpacker>> post_messages(const Group& group, const Packer& own,
                                          std::string subject);
// The same, and waits.
std::vector<Unpacker> gather_messages(const Group& group, const Packer& own,
                                      const std::string& subject);

}  // namespace sluice
