// The suite of every driver on the simulated GPU, with the ordering checker on: in issue order and in legal orders that
// several seeds choose.
#include "tests/sim/sim_fixture.h"
#include "tests/support/driver_conformance.h"

namespace ferry {
namespace {

DriverCase sim_case(std::string name, ExecutionOrder order) {
  return {.name = std::move(name), .make = [order] {
            return make_sim_driver({.spec = round_spec(),
                                    .order = order,
                                    .clock = std::make_shared<VirtualClock>(),
                                    .checker = std::make_shared<OrderingChecker>()});
          }};
}

std::vector<DriverCase> sim_cases() {
  std::vector<DriverCase> cases{sim_case("issue_order", {})};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    cases.push_back(sim_case("adversarial_" + std::to_string(seed), {.adversarial = true, .seed = seed}));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Sim, DriverConformance, testing::ValuesIn(sim_cases()), name_of_case);

}  // namespace
}  // namespace ferry
