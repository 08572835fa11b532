#include "comm/gather_messages.h"

#include <utility>

namespace sluice {

std::vector<WireReader> gather_messages(const Group& group, const WireWriter& own,
                                        const std::string& subject) {
  std::vector<std::string> gathered = group.all_gather(own.bytes()).wait();
  std::vector<WireReader> readers;
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    readers.emplace_back(std::move(gathered[i]),
                         subject + ", from rank " + std::to_string(group.members()[i]));
  }
  return readers;
}

}  // namespace sluice
