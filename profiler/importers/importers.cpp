#include <algorithm>
#include <array>
#include <tuple>

#include "profiler/importers/importer.h"
#include "src/base/check.h"

namespace ferry::profiler::importers {
namespace {

void sort_events(Activity& activity) {
  // Stable: of slices with the same interval the tool's order says which encloses which.
  std::stable_sort(activity.events.begin(), activity.events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.track, a.begin, b.end) < std::tuple(b.track, b.begin, a.end);
  });
}

}  // namespace

std::span<const Importer> all_importers() {
  // What any Chrome trace could be comes last.
  static const std::array<Importer, 6> kImporters = {kNsightImporter, kFerryTraceImporter, kFerryChromeImporter,
                                                     kPaddleImporter, kTensorFlowImporter, kKinetoImporter};
  return kImporters;
}

Activity import_with(const Importer& importer, const Input& input) {
  Activity activity;
  activity.source = input.name();
  activity.format = importer.name;
  importer.read(input, activity);
  sort_events(activity);
  return activity;
}

Activity import_trace(const Input& input) {
  FERRY_CHECK(!input.head().empty(), ParseError, "{}: byte 0: the file is empty", input.name());
  for (const Importer& importer : all_importers()) {
    if (importer.recognizes(input)) return import_with(importer, input);
  }
  std::string names;
  for (const Importer& importer : all_importers()) names += (names.empty() ? "" : ", ") + std::string(importer.name);
  throw ParseError(fmt::format("{}: byte 0: no trace of a known format ({})", input.name(), names));
}

}  // namespace ferry::profiler::importers
