// Reads logs of the simulator of "Dynamic Tensor Rematerialization" (Kirisame et al., ICLR 2021): one JSON object a
// line, an instruction each.
//
// ANNOTATE START     everything before it is skipped
// CONSTANT, MEMORY   an input or parameter and its bytes: pinned
// CALL               an op; a MEMORY and an ALIAS line follow for each result
// MUTATE             an op in place: read as one that makes fresh outputs for the arguments it changes
// COPY, COPY_FROM, RELEASE   names given and taken
#pragma once

#include <string_view>

#include "swap/iteration.h"

namespace ferry::swap {

// `name` (a file's) stands in errors.
// Throws: ParseError with the line for text that is no such log: no JSON, an unknown instruction, a field that is
// missing or out of range, a name that is unknown, defined twice or used after its release. A RELEASE of an unknown
// name is no error: logs release what was made before START.
Iteration read_dtr_log(std::string_view text, std::string_view name);

// Whether the first line looks like such a log.
bool is_dtr_log(std::string_view text);

}  // namespace ferry::swap
