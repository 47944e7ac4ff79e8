// What to change, in the words of each framework.
#pragma once

#include <string>

#include "profiler/rules/rule.h"

namespace ferry::profiler::rules {

enum class Fix : std::uint8_t {
  pin_source,        // host→device copies of which the host waits for the end
  pin_async_source,  // asynchronous by its call, from or to pageable memory
  read_later,        // device→host copies
  keep_on_gpu,       // values that steer the program
  narrow_wait,       // a wait for the whole device
  keep_memory,       // memory that is returned to the device
  memset_on_stream,
  stay_on_gpu,   // a tensor that goes to the host and back
  make_on_gpu,   // small tensors that are made on the host
  launch_ahead,  // gaps between GPU work
  load_ahead,    // the loader of data
};

std::string fix_text(analysis::Framework framework, Fix fix);

}  // namespace ferry::profiler::rules
