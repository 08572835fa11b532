// Messages in the wire format, from every member of a group to every member.
#pragma once

#include <string>
#include <vector>

#include "base/wire.h"
#include "sluice/parts/group.h"

namespace sluice {

// Collective; waits. One reader for each member, in order. subject: what it is about, for errors.
std::vector<WireReader> gather_messages(const Group& group, const WireWriter& own,
                                        const std::string& subject);

}  // namespace sluice
