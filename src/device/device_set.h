// Which devices the calling thread's runtime has, for checks below the runtime.
#pragma once

#include <string>

namespace ferry {

struct DeviceSet {
  int gpus = 0;
  std::string description;  // for messages: "the runtime has cpu and sim:rtx2080ti"
};

// Implemented by the runtime; makes the process's default runtime if there is none.
DeviceSet current_devices();

}  // namespace ferry
