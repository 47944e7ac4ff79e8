#include "tools/common/throughput.h"

#include <chrono>

#include <fmt/format.h>

namespace program {

void Throughput::begin() {
  runtime_.synchronize();
  began_ = runtime_.now();
}

void Throughput::end(std::int64_t steps, double units) {
  runtime_.synchronize();
  time_ += runtime_.now() - began_;
  steps_ += steps;
  units_ += units;
}

double Throughput::seconds() const { return std::chrono::duration<double>(time_).count(); }

std::string Throughput::text() const {
  const ferry::Device device = runtime_.default_device();
  std::string name;
  for (const ferry::DeviceDescription& description : runtime_.devices()) {
    if (description.device == device) name = description.name;
  }
  const std::string peak = ferry::to_string(runtime_.memory_stats(device).peak_allocated);
  if (!runtime_.virtual_time() || steps_ == 0) return fmt::format("On {}: peak memory {}", name, peak);
  return fmt::format("On {}, virtual time: {:.4g} ms a step, {:.0f} {}/s; peak device memory {}", name,
                     1e3 * seconds() / static_cast<double>(steps_), units_ / seconds(), unit_, peak);
}

void Throughput::add_to(nlohmann::ordered_json& figures) const {
  if (!runtime_.virtual_time() || steps_ == 0) return;
  figures["virtual_ms_per_step"] = 1e3 * seconds() / static_cast<double>(steps_);
  figures[unit_ + "_per_second_virtual"] = units_ / seconds();
}

}  // namespace program
