// The suite of every driver on the host, in real and in virtual time.
#include "src/backends/cpu/cpu_driver.h"
#include "tests/support/driver_conformance.h"

namespace ferry {
namespace {

std::vector<DriverCase> cpu_cases() {
  DriverCase real{.name = "real_time", .make = [] {
                    CpuOptions options;
                    options.checker = std::make_shared<OrderingChecker>();
                    return make_cpu_driver(std::move(options));
                  }};
  DriverCase modelled{.name = "virtual_time", .make = [] {
                        CpuOptions options;
                        options.clock = std::make_shared<VirtualClock>();
                        options.model = load_device_spec("host");
                        return make_cpu_driver(std::move(options));
                      }};
  real.own_memory = modelled.own_memory = false;
  return {std::move(real), std::move(modelled)};
}

INSTANTIATE_TEST_SUITE_P(Cpu, DriverConformance, testing::ValuesIn(cpu_cases()), name_of_case);

}  // namespace
}  // namespace ferry
