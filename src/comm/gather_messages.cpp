#include "comm/gather_messages.h"

#include <utility>

#include "base/format.h"

namespace sluice {

Work<std::vector<Unpacker>> post_messages(const Group& group, const Packer& own,
                                          std::string subject) {
  return group.all_gather(own.bytes())
      .then([group, subject = std::move(subject)](std::vector<std::string> gathered) {
        std::vector<Unpacker> readers;
        for (std::size_t i = 0; i < gathered.size(); ++i) {
          readers.emplace_back(std::move(gathered[i]),
                               formatted("{}, from rank {}", subject, group.members()[i]));
        }
        return readers;
      });
}

std::vector<Unpacker> gather_messages(const Group& group, const Packer& own,
                                      const std::string& subject) {
  return post_messages(group, own, subject).wait();
}

}  // namespace sluice
