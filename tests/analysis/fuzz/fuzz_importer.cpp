// Any bytes, read as one format and analysed: no crash, no hang, errors are ferry's own.
//
// scripts/fuzz builds this with libFuzzer for the importer that FUZZ_IMPORTER names; without it, main takes that name
// and files to read, which replays a corpus.
#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "profiler/analysis_report/gate.h"
#include "profiler/analysis_report/perfetto.h"
#include "profiler/analysis_report/views.h"
#include "profiler/importers/importer.h"
#include "src/base/check.h"

namespace {

using namespace ferry::profiler;

const importers::Importer* importer_named(std::string_view name) {
  // By the names of the folders in corpus.
  const std::array<std::pair<std::string_view, const importers::Importer*>, 6> named = {{
      {"kineto", &importers::kKinetoImporter},
      {"paddle", &importers::kPaddleImporter},
      {"tensorflow", &importers::kTensorFlowImporter},
      {"nsight", &importers::kNsightImporter},
      {"ferry_chrome", &importers::kFerryChromeImporter},
      {"ferry_recording", &importers::kFerryTraceImporter},
  }};
  for (const auto& [its_name, importer] : named) {
    if (its_name == name) return importer;
  }
  return nullptr;
}

void analyse(const importers::Importer& importer, std::string_view bytes) {
  const importers::Input input = importers::Input::memory("fuzz", bytes);
  const analysis::TraceIndex index(importers::import_with(importer, input));
  const analysis_report::AnalysisReport report = analysis_report::make_report(index);
  std::ostringstream out;
  out << analysis_report::report_text(report, {}) << analysis_report::report_markdown(report, {})
      << analysis_report::report_html(report, analysis_report::hotspot_views(index, report, 3))
      << analysis_report::report_junit(report, {.max_sync = 0});
  analysis_report::write_perfetto(index, out);
}

// Returns on errors that are ferry's own, one line long.
void read_or_refuse(const importers::Importer& importer, std::string_view bytes) {
  try {
    analyse(importer, bytes);
  } catch (const ferry::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) __builtin_trap();
  }
}

}  // namespace

#ifdef FUZZ_IMPORTER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const importers::Importer* const importer = importer_named(FUZZ_IMPORTER);
  if (importer == nullptr) __builtin_trap();
  read_or_refuse(*importer, {reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
int main(int count, char** arguments) {
  const importers::Importer* importer = count > 2 ? importer_named(arguments[1]) : nullptr;
  if (importer == nullptr) {
    std::cerr << "usage: " << arguments[0] << " IMPORTER FILE...\n";
    return 2;
  }
  for (int i = 2; i < count; ++i) {
    std::ifstream file(arguments[i], std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    if (!file.good()) {
      std::cerr << arguments[i] << " cannot be read\n";
      return 1;
    }
    const std::string text = bytes.str();
    // Every prefix of a short file too: traces are cut anywhere.
    const std::size_t step = text.size() < 4096 ? 1 : text.size() / 64;
    for (std::size_t size = text.size() % step; size <= text.size(); size += step)
      read_or_refuse(*importer, std::string_view(text).substr(0, size));
  }
  return 0;
}
#endif
