// Reads the trace of another tool. The format is found by content, never by name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "profiler/importers/byte_source.h"
#include "profiler/importers/fill_activity.h"

namespace ferry::profiler::importers {

// One format; one file each, one line in importers.cpp.
struct Importer {
  std::string_view name;  // "PyTorch profiler"
  // Whether a file that begins with input.head() is of this format.
  bool (*recognizes)(const Input& input);
  // Appends what the input holds to an empty Activity. A file that ends early keeps its whole events and says so in
  // `tolerated`. Throws: ParseError, one line with the byte (or the table) for content that is malformed.
  void (*read)(const Input& input, Activity& activity);
};

// In the order in which they are asked.
std::span<const Importer> all_importers();

// The activity of a trace of any known format, its events sorted: tracks in order, then begin, outer before inner.
// Throws: ParseError when no importer recognizes the input, and as Importer::read does.
Activity import_trace(const Input& input);

// As import_trace, of a format that the caller knows.
Activity import_with(const Importer& importer, const Input& input);

extern const Importer kFerryTraceImporter, kFerryChromeImporter, kNsightImporter, kPaddleImporter, kTensorFlowImporter,
    kKinetoImporter;

}  // namespace ferry::profiler::importers
