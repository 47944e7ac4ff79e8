// How long training takes on the runtime's clock. With a simulated GPU that is what another GPU would change; wall time
// is that of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ferry/runtime.h>
#include <nlohmann/json.hpp>

namespace program {

class Throughput {
 public:
  // Refers to the runtime: it must outlive this. Counts units such as "words".
  Throughput(ferry::Runtime& runtime, std::string unit) : runtime_(runtime), unit_(std::move(unit)) {}

  // A part of training begins or ends; both wait for the devices.
  void begin();
  void end(std::int64_t steps, double units);

  // "On sim:v100-16gb, virtual time: 0.812 ms a step, 157634 images/s; peak device memory 61.50 MiB". Without virtual
  // time the peak alone.
  std::string text() const;
  // {"virtual_ms_per_step", "UNIT_per_second_virtual"}, where time is virtual.
  void add_to(nlohmann::ordered_json& figures) const;

 private:
  double seconds() const;

  ferry::Runtime& runtime_;
  std::string unit_;
  ferry::Nanoseconds began_{}, time_{};
  std::int64_t steps_ = 0;
  double units_ = 0;
};

}  // namespace program
