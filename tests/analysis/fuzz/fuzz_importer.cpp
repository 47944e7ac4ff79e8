// Any bytes, read as one format and analysed: no crash, no hang, errors are ferry's own.
//
// scripts/fuzz builds this with libFuzzer for the importer that FUZZ_IMPORTER names; without it, main takes that name
// and files to read, which replays a corpus: each file, what is left of it when it is cut, and a number of changes to
// it that are the same each time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
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
namespace {

constexpr std::size_t kChangedInputs = 300;  // of each file
constexpr std::size_t kLargest = 16384;      // so that they take seconds in all

std::string content_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file.good()) throw std::runtime_error(std::string(path) + " cannot be read");
  return bytes.str();
}

// `text` with one to four changes of the kinds that traces suffer or a fuzzer makes; parts of `other` may come in.
std::string changed(std::string text, std::string_view other, std::mt19937& random) {
  static constexpr std::array<std::string_view, 12> kWords = {
      "-1", "0", "1e308", "18446744073709551615", "-9223372036854775808", "0.000000001", "null", "\"\"", "{}",
      "[",  "}", "\\u"};
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(text.size() + 1), length = below(std::min<std::size_t>(text.size() - at, 64) + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, std::string(text, below(text.size() + 1), length));
        break;
      case 3:
        text.insert(at, kWords[below(kWords.size())]);
        break;
      case 4: {
        // A number becomes another.
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const std::size_t end = text.find_first_not_of("0123456789", digit);
        text.replace(digit, end == std::string::npos ? end : end - digit, kWords[below(kWords.size())]);
        break;
      }
      default: {
        const std::size_t from = below(other.size() + 1);
        text.insert(at, other.substr(from, below(512)));
      }
    }
  }
  return text;
}

void replay(const importers::Importer& importer, const char* path, std::string_view other) {
  const std::string text = content_of(path);
  // Every prefix of a short file too: traces are cut anywhere.
  const std::size_t step = text.size() < 4096 ? 1 : text.size() / 64;
  for (std::size_t size = text.size() % step; size <= text.size(); size += step)
    read_or_refuse(importer, std::string_view(text).substr(0, size));
  if (text.size() > kLargest) return;
  for (std::size_t seed = 0; seed < kChangedInputs; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const std::string input = changed(text, other, random);
    // A failure that ends the process leaves its name as the last line.
    std::cerr << path << ", change " << seed << '\n';
    read_or_refuse(importer, input);
  }
}

}  // namespace

int main(int count, char** arguments) try {
  const importers::Importer* importer = count > 2 ? importer_named(arguments[1]) : nullptr;
  if (importer == nullptr) {
    std::cerr << "usage: " << arguments[0] << " IMPORTER FILE...\n";
    return 2;
  }
  for (int i = 2; i < count; ++i) replay(*importer, arguments[i], content_of(arguments[i + 1 < count ? i + 1 : 2]));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
#endif
