#include "swap/log_file.h"

#include <zlib.h>

#include <memory>

#include "src/base/check.h"
#include "src/trace/trace_json.h"
#include "swap/dtr_log.h"
#include "swap/trace_iteration.h"

namespace ferry::swap {
namespace {

// zlib passes plain files through.
std::string read_text(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  FERRY_CHECK(file != nullptr, ParseError, "'{}' cannot be read", path);
  std::string text;
  std::string buffer(std::size_t{1} << 18, '\0');
  while (true) {
    const int count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    FERRY_CHECK(count >= 0, ParseError, "'{}' cannot be read: it is damaged or no file", path);
    if (count == 0) break;
    text.append(buffer, 0, static_cast<std::size_t>(count));
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  FERRY_CHECK(code == Z_OK || code == Z_STREAM_END, ParseError, "'{}' ends too early", path);
  return text;
}

}  // namespace

Iteration read_iteration(const std::string& path) {
  const std::string text = read_text(path);
  if (is_dtr_log(text)) return read_dtr_log(text, path);
  return iteration_of(trace::read_json(text, path), path);
}

}  // namespace ferry::swap
