// A Trace as JSON text, so that a run can be looked at later and by other programs.
//
// {"ferry_trace": 1, "strings": […], "sites": […], …}: one array a table, records as objects, times in nanoseconds,
// sizes in bytes, devices as "cpu" and "gpu:0", enumerators by name, indices into the tables as in Trace.
#pragma once

#include <iosfwd>
#include <string_view>

#include "src/trace/trace.h"

namespace ferry::trace {

constexpr int kTraceVersion = 1;

void write_json(const Trace& trace, std::ostream& out);

// `name` (a file's) stands in errors.
// Throws: ParseError for text that is no JSON (with the byte), another version, or a field that is missing, of the
// wrong type, out of range or an index into nothing (with its path, "copies[3].tensor").
Trace read_json(std::string_view text, std::string_view name);

}  // namespace ferry::trace
