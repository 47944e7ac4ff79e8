#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "profiler/analysis_report/compare.h"
#include "profiler/analysis_report/gate.h"
#include "profiler/analysis_report/perfetto.h"
#include "profiler/analysis_report/views.h"
#include "profiler/exporters.h"
#include "src/base/check.h"
#include "src/trace/trace_json.h"
#include "tests/analysis/trace_text.h"

namespace ferry::profiler::analysis_report {
namespace {

using nlohmann::json;
using test::KinetoText;
using test::report_of;
using testing::HasSubstr;
using testing::Not;

// Two synchronous copies of 30 us each at `first_frame` and one of 10 us at net.py, within 200 us.
KinetoText sample(const std::string& first_frame = "train.py(3): step") {
  KinetoText trace;
  trace.slice("python_function", first_frame, "0", "100").slice("python_function", "net.py(8): forward", "110", "90");
  for (int i = 0; i < 3; ++i) {
    const int begin = i < 2 ? 10 + 40 * i : 120;
    trace.slice("cpu_op", "aten::to", std::to_string(begin - 1), i < 2 ? "32" : "12");
    trace.call("cudaMemcpy", std::to_string(begin), i < 2 ? "30" : "10", i + 1);
    trace.gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", std::to_string(begin + 4), "5", i + 1, 7,
              "\"bytes\": 9000");
  }
  return trace;
}

AnalysisReport sample_report() { return report_of(sample().text()); }

TEST(Reports, JsonHasWhatProgramsRead) {
  const json out = report_json(sample_report());
  EXPECT_EQ(out["sync_copies"], json({{"h2d", 3}, {"d2h", 0}}));
  EXPECT_EQ(out["blocked_ns"], json({{"h2d", 70'000}, {"d2h", 0}}));
  ASSERT_EQ(out["hotspots"].size(), 2u);
  const json& first = out["hotspots"][0];
  EXPECT_EQ(first["op"], "aten::to");
  EXPECT_EQ(first["frame"], "train.py(3): step");
  EXPECT_EQ(first["rule"], "sync_copy");
  EXPECT_EQ(first["calls"], 2);
  EXPECT_EQ(first["bytes"], 18'000);
  EXPECT_EQ(first["blocked_ns"], 60'000);
  EXPECT_EQ(first["drain_ns"], 8'000);
  EXPECT_EQ(first["copy_ns"], 52'000);
  EXPECT_NE(first["fix"], "");
  EXPECT_TRUE(out["findings"].is_array());
  EXPECT_TRUE(out["warnings"].is_array());
}

TEST(Reports, TextRanksByBlockedTimeAndCutsAtTop) {
  const std::string text = report_text(sample_report(), {.top = 1});
  EXPECT_THAT(text, HasSubstr("1. aten::to at train.py(3): step"));
  EXPECT_THAT(text, HasSubstr("Host blocked for 0.06 ms (30.00% of the span): draining 0.008 ms, copying 0.052 ms"));
  EXPECT_THAT(text, HasSubstr("1 more (--top)"));
  EXPECT_THAT(text, Not(HasSubstr("net.py")));
}

TEST(Reports, SortsByOtherFigures) {
  AnalysisReport report = sample_report();
  report.hotspots[1].calls = 9;
  sort_hotspots(report, parse_hotspot_sort("calls"));
  EXPECT_EQ(report.hotspots[0].frame, "net.py(8): forward");
  EXPECT_THROW(parse_hotspot_sort("name"), InvalidArgument);
}

TEST(Reports, OneStepCountsAlone) {
  KinetoText trace = sample();
  trace.slice("user_annotation", "ProfilerStep#1", "0", "105").slice("user_annotation", "ProfilerStep#2", "105", "95");
  const AnalysisReport report = make_report(analysis::TraceIndex(test::imported(trace.text()), 2));
  EXPECT_EQ(report.sync_h2d.calls, 1);
  EXPECT_EQ(report.span, Nanoseconds(95'000));
  EXPECT_THROW(analysis::TraceIndex(test::imported(trace.text()), 3), InvalidArgument);
}

TEST(Reports, SeveralFilesAddUp) {
  const AnalysisReport all = merge_reports({sample_report(), sample_report()});
  EXPECT_EQ(all.sync_h2d.calls, 6);
  ASSERT_EQ(all.hotspots.size(), 2u);
  EXPECT_EQ(all.hotspots[0].calls, 4);
  EXPECT_EQ(all.parts.size(), 2u);
  EXPECT_DOUBLE_EQ(all.share(all.blocked()), sample_report().share(sample_report().blocked()));
  EXPECT_EQ(report_json(all)["files"].size(), 2u);
}

TEST(Reports, MarkdownEscapesItsCells) {
  AnalysisReport report = sample_report();
  report.hotspots[0].op = "a|b\n*c*";
  EXPECT_THAT(report_markdown(report, {}), HasSubstr("| a\\|b \\*c\\* |"));
}

TEST(Reports, ThePageHoldsTheReportAndLoadsNothing) {
  KinetoText trace = sample("</script><img src=x>.py(1): f");
  const analysis::TraceIndex index(test::imported(trace.text()));
  const AnalysisReport report = make_report(index);
  const std::string page = report_html(report, hotspot_views(index, report, 10));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  const std::size_t begin = page.find("id=\"data\">") + 10, end = page.find("</script>", begin);
  const json data = json::parse(page.substr(begin, end - begin));
  const json& view = data["report"]["hotspots"][0]["view"];
  ASSERT_EQ(view["tracks"].size(), 2u);
  int hot = 0;
  for (const json& track : view["tracks"]) {
    for (const json& slice : track["slices"]) hot += slice["h"].get<bool>();
  }
  EXPECT_EQ(hot, 2);  // the call and its work
}

TEST(Perfetto, HoldsAllSlicesAndTheFindings) {
  const analysis::TraceIndex index(test::imported(sample().text()));
  std::ostringstream out;
  write_perfetto(index, out);
  std::size_t slices = 0, findings = 0;
  const json trace = json::parse(out.str());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    (event["cat"] == "finding" ? findings : slices) += 1;
  }
  EXPECT_EQ(slices, index.activity().events.size());
  EXPECT_EQ(findings, 3u);
}

TEST(Gate, CountsWhatNobodyAllowed) {
  AnalysisReport report = sample_report();
  EXPECT_TRUE(judge(report, {.max_sync = 3, .max_blocked = 0.36}).passed());
  EXPECT_EQ(judge(report, {.max_sync = 2}).violations.size(), 1u);
  EXPECT_EQ(judge(report, {.max_sync = 2, .max_blocked = 0.34}).violations.size(), 2u);
  auto allowances = parse_allowances("# known\n\nnet.py*  # the labels\naten::nothing # gone\n", "allow.txt");
  allow(report, allowances);
  EXPECT_EQ(report.hotspots[1].allowed, "the labels");
  EXPECT_EQ(judge(report, {.max_sync = 2}).violations.size(), 0u);
  EXPECT_THAT(report.warnings,
              testing::Contains(HasSubstr("line 4 of the allowed copies ('aten::nothing') matches none")));
  EXPECT_THAT(verdict_text(report, judge(report, {.max_sync = 0})), HasSubstr("aten::to at train.py(3): step"));
  EXPECT_THAT(verdict_text(report, judge(report, {.max_sync = 0})), Not(HasSubstr("net.py")));
}

TEST(Gate, AnAllowanceNeedsAReason) {
  EXPECT_THROW(parse_allowances("aten::to\n", "allow.txt"), ParseError);
  EXPECT_THROW(parse_allowances("aten::to  #  \n", "allow.txt"), ParseError);
  EXPECT_EQ(parse_allowances("enumerate(DataLoader)#x  # r", "a")[0].pattern, "enumerate(DataLoader)#x");
}

TEST(Gate, PatternsMatchEndsOfPaths) {
  EXPECT_TRUE(matches("train.py*", "src/app/train.py(3): step"));
  EXPECT_TRUE(matches("*: step", "src/app/train.py(3): step"));
  EXPECT_TRUE(matches("app/*(3)*", "src/app/train.py(3): step"));
  EXPECT_FALSE(matches("rain.py*", "src/app/train.py(3): step"));
  EXPECT_FALSE(matches("train.py", "src/app/train.py(3): step"));
  EXPECT_FALSE(matches("*", ""));
}

TEST(Gate, SharesAreReadAsPercentOrFraction) {
  EXPECT_DOUBLE_EQ(parse_share("5%"), 0.05);
  EXPECT_DOUBLE_EQ(parse_share("0.05"), 0.05);
  for (const char* text : {"", "%", "5 %", "-1%", "x"}) EXPECT_THROW(parse_share(text), InvalidArgument) << text;
}

TEST(Gate, JunitFailsWithTheLimit) {
  const std::string passed = report_junit(sample_report(), {.max_sync = 3});
  EXPECT_THAT(passed, HasSubstr("tests=\"3\" failures=\"0\""));
  const std::string failed = report_junit(sample_report(), {.max_sync = 1});
  EXPECT_THAT(failed, HasSubstr("tests=\"3\" failures=\"3\""));
  EXPECT_THAT(failed, HasSubstr("more than --max-sync 1"));
}

TEST(Compare, TellsMovedFromWentAndAppeared) {
  const AnalysisReport before = sample_report();
  AnalysisReport after = report_of(sample("train.py(5): step").text());
  after.hotspots[1].frame = "other.py(1): g";
  const auto differences = compare_hotspots(before, after);
  ASSERT_EQ(differences.size(), 3u);
  int moved = 0, went = 0, appeared = 0;
  for (const Difference& each : differences) {
    moved += each.change == Change::moved;
    went += each.change == Change::went;
    appeared += each.change == Change::appeared;
  }
  EXPECT_EQ(moved, 1);
  EXPECT_EQ(went, 1);
  EXPECT_EQ(appeared, 1);
  EXPECT_THAT(comparison_text(before, after, {}), HasSubstr("was train.py(3): step"));
  EXPECT_EQ(comparison_json(before, after)["hotspots"].size(), 3u);
  for (const Difference& each : compare_hotspots(before, before)) EXPECT_EQ(each.change, Change::same);
}

// ferry's own recordings: what they say of a copy wins.
trace::Trace ferry_trace() {
  trace::Trace trace;
  trace.strings = {"crop", "fetch"};
  trace.sites = {{"main.cpp", 39, "int main()"}};
  trace.devices = {{.device = cpu::device, .name = "host"},
                   {.device = gpu::device, .name = "sim:rtx2080ti", .virtual_time = true}};
  trace.ops.push_back({.name = 0, .site = 0, .device = cpu::device, .begin = Nanoseconds(0), .end = Nanoseconds(90)});
  const auto copy = [&](bool synchronous, trace::CopyCause cause, std::int64_t op, std::int64_t begin) {
    trace.copies.push_back({.op = op,
                            .op_name = op < 0 ? 1 : 0,
                            .site = 0,
                            .size = Bytes{32},
                            .from = gpu::device,
                            .to = cpu::device,
                            .to_memory = trace::Memory::pinned,
                            .synchronous = synchronous,
                            .cause = cause,
                            .correlation = static_cast<std::uint64_t>(begin + 1),
                            .begin = Nanoseconds(begin),
                            .end = Nanoseconds(begin + 20),
                            .drain = Nanoseconds(5),
                            .transfer = Nanoseconds(7)});
    trace.work.push_back({.correlation = static_cast<std::uint64_t>(begin + 1),
                          .kind = trace::WorkKind::copy,
                          .engine = trace::Engine::device_to_host,
                          .device = gpu::device,
                          .begin = Nanoseconds(begin + 5),
                          .end = Nanoseconds(begin + 12)});
  };
  copy(true, trace::CopyCause::implicit, 0, 10);
  copy(false, trace::CopyCause::implicit, 0, 40);
  copy(false, trace::CopyCause::fetch, -1, 100);
  trace.end = Nanoseconds(200);
  return trace;
}

void expect_ferrys_own_classes(const AnalysisReport& report) {
  EXPECT_THAT(report.format, testing::StartsWith("ferry"));
  EXPECT_TRUE(report.virtual_time);
  EXPECT_EQ(report.sync_d2h.calls, 1);
  EXPECT_EQ(report.sync_d2h.blocked, Nanoseconds(12));
  EXPECT_EQ(report.explicit_copies.calls, 1);
  ASSERT_EQ(report.hotspots.size(), 1u);
  EXPECT_EQ(report.hotspots[0].op, "crop");
  EXPECT_THAT(report.hotspots[0].frame, HasSubstr("main.cpp:39"));
  EXPECT_EQ(report.hotspots[0].drain, Nanoseconds(5));
  ASSERT_EQ(report.explicit_reads.size(), 1u);
  EXPECT_EQ(report.explicit_reads[0].op, "fetch");
}

TEST(Ferry, RecordingsKeepTheirClasses) {
  std::ostringstream out;
  trace::write_json(ferry_trace(), out);
  expect_ferrys_own_classes(report_of(out.str()));
}

TEST(Ferry, ChromeTracesKeepTheirClasses) {
  std::ostringstream out;
  write_chrome_trace(ferry_trace(), out);
  expect_ferrys_own_classes(report_of(out.str()));
}

}  // namespace
}  // namespace ferry::profiler::analysis_report
