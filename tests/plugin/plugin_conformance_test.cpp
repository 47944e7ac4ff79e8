#include "src/device/plugin.h"
#include "tests/support/driver_conformance.h"

namespace ferry {
namespace {

INSTANTIATE_TEST_SUITE_P(Plugin, DriverConformance,
                         testing::Values(DriverCase{
                             .name = "stub",
                             .make =
                                 [] {
                                   return Plugin::load(STUB_PLUGIN)->make_driver(0, {DeviceType::gpu, 0});
                                 }}),
                         name_of_case);

}  // namespace
}  // namespace ferry
