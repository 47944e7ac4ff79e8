// Any bytes, read as one format and analysed: no crash, no hang, errors are ferry's own.
//
// FUZZ_IMPORTER names the importer. scripts/fuzz builds this with libFuzzer; without it, main reads the files that it
// is given, which replays a corpus.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "profiler/analysis_report/gate.h"
#include "profiler/analysis_report/perfetto.h"
#include "profiler/analysis_report/views.h"
#include "profiler/importers/importer.h"
#include "src/base/check.h"

namespace {

using namespace ferry::profiler;

void analyse(std::string_view bytes) {
  const importers::Input input = importers::Input::memory("fuzz", bytes);
  const analysis::TraceIndex index(importers::import_with(importers::FUZZ_IMPORTER, input));
  const analysis_report::AnalysisReport report = analysis_report::make_report(index);
  std::ostringstream out;
  out << analysis_report::report_text(report, {}) << analysis_report::report_markdown(report, {})
      << analysis_report::report_html(report, analysis_report::hotspot_views(index, report, 3))
      << analysis_report::report_junit(report, {.max_sync = 0});
  analysis_report::write_perfetto(index, out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    analyse({reinterpret_cast<const char*>(data), size});
  } catch (const ferry::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) __builtin_trap();
  }
  return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER
int main(int count, char** paths) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    if (!file.good()) {
      std::cerr << paths[i] << " cannot be read\n";
      return 1;
    }
    const std::string text = bytes.str();
    // Every prefix of a short file too: traces are cut anywhere.
    const std::size_t step = text.size() < 4096 ? 1 : text.size() / 64;
    for (std::size_t size = text.size() % step; size <= text.size(); size += step)
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), size);
  }
  return count > 1 ? 0 : 1;
}
#endif
