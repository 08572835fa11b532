#include "support/gloo_processes.h"
#include "support/group_conformance.h"
#include "support/transport_conformance.h"

namespace sluice::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Local, TransportConformance, ::testing::Values(&make_local_transports));
INSTANTIATE_TEST_SUITE_P(Local, GroupConformance, ::testing::Values(&make_local_transports));
INSTANTIATE_TEST_SUITE_P(Gloo, TransportConformance, ::testing::Values(&single_gloo_processes));
INSTANTIATE_TEST_SUITE_P(Gloo, GroupConformance, ::testing::Values(&single_gloo_processes));
INSTANTIATE_TEST_SUITE_P(Mixed, TransportConformance, ::testing::Values(&mixed_gloo_processes));
INSTANTIATE_TEST_SUITE_P(Mixed, GroupConformance, ::testing::Values(&mixed_gloo_processes));

}  // namespace
}  // namespace sluice::test
