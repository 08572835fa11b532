// Messages in the wire format, from every member of a group to every member.
#pragma once

#include <string>
#include <vector>

#include "base/wire.h"
#include "sluice/parts/group.h"

namespace sluice {

// Collective. One reader for each member, in order. subject: what it is about, for errors.
Work<std::vector<WireReader>> post_messages(const Group& group, const WireWriter& own,
                                            std::string subject);
// The same, and waits.
std::vector<WireReader> gather_messages(const Group& group, const WireWriter& own,
                                        const std::string& subject);

}  // namespace sluice
