// Reads a recorded iteration from a file: a log of the DTR simulator (swap/dtr_log.h) or a ferry trace, gzip or plain.
#pragma once

#include <string>

#include "swap/iteration.h"

namespace ferry::swap {

// Throws: ParseError for a file that cannot be read, is damaged or neither of both.
Iteration read_iteration(const std::string& path);

}  // namespace ferry::swap
