#include "plan/verify/rendezvous.h"

#include "plan/verify/verification.h"

namespace sluice {

std::vector<Violation> verify_rendezvous(const Program& program) {
  detail::Verification verification(program);
  detail::index_instructions(verification);
  detail::check_deadlock(verification, /*rendezvous=*/true);
  return verification.take_violations();
}

}  // namespace sluice
