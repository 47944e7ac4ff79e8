#include "profiler/exporters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/trace_builder.h"

namespace ferry::profiler {
namespace {

using ferry::testing::shape_slice_crop;
using ferry::testing::TraceBuilder;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json chrome(const trace::Trace& trace) {
  std::ostringstream out;
  write_chrome_trace(trace, out);
  return json::parse(out.str())["traceEvents"];
}

trace::Trace with_memory() {
  trace::Trace trace = shape_slice_crop();
  trace.memory.push_back({.device = gpu::device, .at = Nanoseconds(1'500), .allocated = Bytes{512}, .reserved = kMiB});
  trace.scopes.push_back({.name = 0, .depth = 0, .begin = Nanoseconds(0), .end = trace.end});
  return trace;
}

TEST(ChromeTrace, NamesAProcessPerDeviceAndATrackPerStreamAndEngine) {
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<int, std::string> processes;
  std::set<std::pair<int, int>> used;
  for (const json& event : chrome(with_memory())) {
    const int pid = event["pid"];
    if (event["ph"] == "X") used.insert({pid, event["tid"]});
    if (event["name"] == "process_name") processes[pid] = event["args"]["name"];
    if (event["name"] == "thread_name") tracks[{pid, event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(processes[0], "Host");
  EXPECT_EQ(processes[1], "gpu:0 (sim:rtx2080ti, virtual time)");
  std::set<std::string> names;
  for (const auto& [track, name] : tracks) {
    names.insert(name);
    EXPECT_TRUE(used.contains(track)) << name;
  }
  EXPECT_EQ(tracks.size(), used.size());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("Host thread 0", "Stream 0 compute", "Copy engine CPU->GPU",
                                                     "Copy engine GPU->CPU"));
}

TEST(ChromeTrace, FlowsLeadFromTheCallToItsWork) {
  const trace::Trace trace = with_memory();
  const json events = chrome(trace);
  const auto time = [](const json& event) { return event["ts"].get<double>(); };
  const auto enclosing = [&](const json& flow) {
    const json* innermost = nullptr;
    for (const json& event : events) {
      if (event["ph"] != "X" || event["pid"] != flow["pid"] || event["tid"] != flow["tid"]) continue;
      if (time(event) <= time(flow) && time(flow) < time(event) + event["dur"].get<double>()) innermost = &event;
    }
    return innermost == nullptr ? std::string("nothing") : (*innermost)["name"].get<std::string>();
  };
  std::map<int, json> starts;
  int flows = 0;
  for (const json& event : events) {
    if (event["ph"] == "s") starts[event["id"]] = event;
    if (event["ph"] != "f") continue;
    ++flows;
    EXPECT_EQ(event["bp"], "e");
    const json& start = starts.at(event["id"]);
    EXPECT_LE(time(start), time(event));
    EXPECT_EQ(enclosing(start), enclosing(event));
    EXPECT_EQ(start["pid"], 0);
    EXPECT_EQ(event["pid"], 1);
  }
  EXPECT_EQ(flows, static_cast<int>(trace.work.size()));
}

TEST(ChromeTrace, WritesMicrosecondsWithThreeDecimalsAndCounters) {
  std::ostringstream out;
  write_chrome_trace(with_memory(), out);
  EXPECT_THAT(out.str(), HasSubstr(R"("ts": 1.500, "args": {"allocated": 512, "reserved": 1048576})"));
  EXPECT_THAT(out.str(), HasSubstr(R"("dur": 10.001)"));
}

TEST(ChromeTrace, AnEmptyTraceIsValid) { EXPECT_TRUE(chrome({}).empty()); }

TEST(Html, HoldsTheReportAndLoadsNothing) {
  trace::Trace trace = with_memory();
  trace.strings[0] = "</script><img src=x>";
  std::ostringstream out;
  write_html(trace, {}, out);
  const std::string page = out.str();
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  const std::size_t begin = page.find("id=\"data\">") + 10, end = page.find("</script>", begin);
  const json data = json::parse(page.substr(begin, end - begin));
  EXPECT_EQ(data["report"], report_json(trace, {}));
  EXPECT_EQ(data["timeline"]["spans"].size(),
            trace.ops.size() + trace.copies.size() + trace.work.size() + trace.scopes.size());
  EXPECT_EQ(data["left_out"], 0);
}

TEST(Html, KeepsTheLongestSpansOfALongRun) {
  TraceBuilder builder;
  const int a = builder.tensor("a", Bytes{400});
  for (int i = 0; i < 60'000; ++i) {
    builder.op({.name = "add", .device = cpu::device, .inputs = {a}, .outputs = {a}, .time = Nanoseconds(i + 1)});
  }
  std::ostringstream out;
  write_html(builder.build(), {}, out);
  const std::string page = out.str();
  EXPECT_THAT(page, HasSubstr(R"("left_out":10000)"));
}

}  // namespace
}  // namespace ferry::profiler
