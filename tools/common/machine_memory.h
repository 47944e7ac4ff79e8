// How much memory the program may use on this machine.
#pragma once

#include <ferry/units.h>

namespace program {

// What the system says is available, or less where a container's limit (cgroup v1 or v2) is tighter.
ferry::Bytes available_memory();

}  // namespace program
