#include "profiler/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <ferry/error.h>
#include "profiler/format.h"
#include "tests/support/trace_builder.h"

namespace ferry::profiler {
namespace {

using ferry::testing::host;
using ferry::testing::shape_slice_crop;
using ferry::testing::TraceBuilder;
using nlohmann::json;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

json event(const json& report, const std::string& name) {
  for (const json& row : report["events"]) {
    if (row["name"] == name) return row;
  }
  ADD_FAILURE() << "no event " << name;
  return {};
}

// A training step on two threads with scopes, a chain on the CPU, every kind of copy, and names of many lengths.
trace::Trace busy_trace() {
  TraceBuilder builder("staged");
  const int ids = builder.tensor("ids", Bytes{4'096});
  const int table = builder.tensor("embedding.weight", Bytes{6'000'000});
  const int weight = builder.tensor("fc.weight", Bytes{90'000}, gpu::device);
  for (int i = 0; i < 3; ++i) {
    const int rows = builder.tensor("embedding_" + std::to_string(i), Bytes{600'000});
    const int out = builder.tensor("linear_" + std::to_string(i), Bytes{800'000});
    const int loss = builder.tensor("mean_" + std::to_string(i), Bytes{4});
    builder.begin_scope("step");
    builder.begin_scope("forward");
    builder.op({.name = "embedding",
                .line = 12,
                .device = cpu::device,
                .inputs = {table, ids},
                .outputs = {rows},
                .time = 70us,
                .bytes = 1.2e6,
                .scope = "embedding",
                .cause = trace::PlacementCause::guard});
    builder.op({.name = "linear",
                .line = 13,
                .inputs = {rows, weight},
                .outputs = {out},
                .time = 400us,
                .flops = 1e9,
                .scope = "a_module_with_a_long_name.0.fc"});
    builder.end_scope();
    builder.op({.name = "softmax_cross_entropy_with_a_name_wider_than_the_others",
                .line = 14,
                .device = cpu::device,
                .inputs = {out},
                .outputs = {loss},
                .has_gpu_kernel = false,
                .cause = trace::PlacementCause::fallback});
    builder.op({.name = "sgd",
                .line = 15,
                .inputs = {weight, loss},
                .outputs = {weight},
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::optimizer,
                .thread = 1});
    builder.end_scope();
    builder.fetch(weight, 16);
    builder.idle(11us);
  }
  return builder.build();
}

TEST(Report, CountsCopiesOfTheShapeSliceCropProgram) {
  const json report = report_json(shape_slice_crop(), {});
  EXPECT_EQ(report["memcpy"]["calls"], 30);
  EXPECT_EQ(report["memcpy"]["async"]["calls"], 10);
  EXPECT_EQ(report["memcpy"]["sync"]["calls"], 20);
  EXPECT_EQ(event(report, "slice")["copies"][0]["name"], "GpuMemcpySync:CPU->GPU");
  EXPECT_EQ(event(report, "slice")["copies"][0]["calls"], 10);
  EXPECT_EQ(event(report, "crop")["copies"][0]["name"], "GpuMemcpySync:GPU->CPU");
  EXPECT_EQ(event(report, "fetch")["copies"][0]["name"], "GpuMemcpyAsync:GPU->CPU");
  EXPECT_EQ(event(report, "fetch")["calls"], 10);

  const json staged = report_json(shape_slice_crop("staged"), {});
  EXPECT_EQ(staged["memcpy"]["async"]["calls"], 20);
  EXPECT_EQ(staged["memcpy"]["sync"]["calls"], 10);
  const json guarded = report_json(shape_slice_crop("synchronous", cpu::device), {});
  EXPECT_EQ(guarded["memcpy"]["calls"], 10);
  EXPECT_EQ(guarded["memcpy"]["sync"]["calls"], 0);
  EXPECT_LT(guarded["total_ns"], report["total_ns"]);
}

TEST(Report, LeavesOutTheRowOfCopiesThatDidNotHappen) {
  const std::string guarded = report_text(shape_slice_crop("synchronous", cpu::device), {});
  EXPECT_THAT(guarded, HasSubstr("GpuMemcpyAsync"));
  EXPECT_THAT(guarded, Not(HasSubstr("GpuMemcpySync")));
  EXPECT_THAT(guarded, HasSubstr("No implicit copy blocked the host."));
}

TEST(Report, FiguresAddUp) {
  for (const trace::Trace& trace : {busy_trace(), shape_slice_crop(), shape_slice_crop("staged")}) {
    const json report = report_json(trace, {});
    EXPECT_EQ(report["total_ns"], (trace.end - trace.begin).count());
    EXPECT_EQ(report["computation_ns"].get<std::int64_t>() + report["overhead_ns"].get<std::int64_t>(),
              report["total_ns"].get<std::int64_t>());
    const json& copies = report["memcpy"];
    std::int64_t async_calls = 0, sync_calls = 0, async_time = 0, sync_time = 0, moved = 0;
    for (const json& row : report["events"]) {
      EXPECT_EQ(row["cpu_ns"].get<std::int64_t>() + row["gpu_ns"].get<std::int64_t>(), row["total_ns"]);
      EXPECT_LE(row["min_ns"], row["ave_ns"]);
      EXPECT_LE(row["ave_ns"], row["max_ns"]);
      EXPECT_GE(row["cpu_ns"], 0);
      for (const json& copy : row["copies"]) {
        const bool sync = copy["name"].get<std::string>().starts_with("GpuMemcpySync:");
        (sync ? sync_calls : async_calls) += copy["calls"].get<std::int64_t>();
        (sync ? sync_time : async_time) += copy["total_ns"].get<std::int64_t>();
        EXPECT_LE(copy["total_ns"], row["total_ns"]);
      }
    }
    EXPECT_EQ(copies["async"]["calls"], async_calls);
    EXPECT_EQ(copies["sync"]["calls"], sync_calls);
    EXPECT_EQ(copies["async"]["total_ns"], async_time);
    EXPECT_EQ(copies["sync"]["total_ns"], sync_time);
    EXPECT_EQ(copies["calls"], async_calls + sync_calls);
    EXPECT_EQ(copies["total_ns"], async_time + sync_time);
    for (const trace::CopyRecord& copy : trace.copies) moved += copy.size.count;
    EXPECT_EQ(report["memory"][1]["bytes_to_device"].get<std::int64_t>() +
                  report["memory"][1]["bytes_from_device"].get<std::int64_t>(),
              moved);
  }
}

TEST(Report, TotalsOfABlockingCopyAreItsHostInterval) {
  const trace::Trace trace = shape_slice_crop();
  const json report = report_json(trace, {});
  std::int64_t blocked = 0;
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.synchronous) blocked += (copy.end - copy.begin).count();
  }
  EXPECT_EQ(report["memcpy"]["sync"]["total_ns"], blocked);
  // The shape's 16 bytes take 1 ns of link time on top of the latency.
  EXPECT_EQ(event(report, "slice")["copies"][0]["gpu_ns"], 10 * 10'001);
  EXPECT_EQ(event(report, "slice")["gpu_ns"], 10 * (10'001 + 3'000));
}

TEST(Report, ComputationCountsOverlappingKernelsOnce) {
  TraceBuilder builder;
  const int a = builder.tensor("a", Bytes{400}, gpu::device);
  const int b = builder.tensor("b", Bytes{400});
  builder.op({.name = "matmul", .inputs = {a}, .outputs = {a}, .time = 100us});
  builder.op({.name = "add", .device = cpu::device, .inputs = {b}, .outputs = {b}, .time = 30us});
  const json report = report_json(builder.build(), {});
  EXPECT_EQ(report["total_ns"], 105'000);
  EXPECT_EQ(report["computation_ns"], 100'000);
  EXPECT_EQ(report["overhead_ns"], 5'000);
}

TEST(Report, SortsByEachKey) {
  TraceBuilder builder;
  const int a = builder.tensor("a", Bytes{400});
  const auto run = [&](const std::string& name, std::vector<Nanoseconds> times) {
    for (const Nanoseconds time : times) {
      builder.op({.name = name, .device = cpu::device, .inputs = {a}, .outputs = {a}, .time = time});
    }
  };
  run("b", {10us, 50us});        // total 60, max 50, min 10, ave 30
  run("a", {20us, 21us, 22us});  // total 63, max 22, min 20, ave 21
  run("c", {40us});              // total 40, max 40, min 40, ave 40
  const auto names = [trace = builder.build()](std::string_view key) {
    std::vector<std::string> result;
    const json report = report_json(trace, {.sort = parse_sort_key(key)});
    for (const json& row : report["events"]) result.push_back(row["name"]);
    return result;
  };
  EXPECT_THAT(names("default"), ElementsAre("b", "a", "c"));
  EXPECT_THAT(names("total"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names("calls"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names("max"), ElementsAre("b", "c", "a"));
  EXPECT_THAT(names("min"), ElementsAre("c", "a", "b"));
  EXPECT_THAT(names("ave"), ElementsAre("c", "b", "a"));
  EXPECT_THROW(parse_sort_key("size"), InvalidArgument);
}

TEST(Report, ThreadTablesSumToTheMergedOne) {
  const trace::Trace trace = busy_trace();
  const json merged = report_json(trace, {}), split = report_json(trace, {.per_thread = true});
  ASSERT_EQ(split["threads"].size(), 2u);
  std::map<std::string, std::int64_t> totals;
  for (const json& table : split["threads"]) {
    for (const json& row : table["events"]) totals[row["name"]] += row["total_ns"].get<std::int64_t>();
  }
  for (const json& row : merged["events"]) EXPECT_EQ(totals[row["name"]], row["total_ns"]) << row["name"];
  EXPECT_THAT(report_text(trace, {.per_thread = true}), HasSubstr("Thread 1"));
}

TEST(Report, ShowsScopesAsATree) {
  const json report = report_json(busy_trace(), {});
  EXPECT_EQ(report["events"][0]["name"], "step");
  EXPECT_EQ(report["events"][0]["kind"], "scope");
  EXPECT_EQ(report["events"][0]["calls"], 3);
  EXPECT_EQ(report["events"][1]["name"], "forward");
  EXPECT_EQ(report["events"][1]["depth"], 1);
  // linear's kernel and its rows' copies run for the scope that launched them.
  EXPECT_EQ(event(report, "forward")["gpu_ns"], event(report, "linear")["gpu_ns"]);
}

TEST(Report, RanksHotspotsAndSplitsTheirWait) {
  const std::vector<trace::Hotspot> hotspots = find_hotspots(busy_trace());
  ASSERT_EQ(hotspots.size(), 1u);
  EXPECT_EQ(hotspots[0].calls, 3);
  EXPECT_EQ(hotspots[0].from, gpu::device);
  EXPECT_EQ(hotspots[0].size, Bytes{2'400'000});
  EXPECT_GE(hotspots[0].drain, 3 * 400us);
  EXPECT_EQ(hotspots[0].transfer, 3 * 90us);
  EXPECT_EQ(hotspots[0].blocked, hotspots[0].drain + hotspots[0].transfer);

  const std::vector<trace::Hotspot> two = find_hotspots(shape_slice_crop());
  ASSERT_EQ(two.size(), 2u);
  EXPECT_GE(two[0].blocked, two[1].blocked);
  EXPECT_EQ(placement_text(shape_slice_crop(), two[0]),
            "crop ran on gpu:0, the default device, and reads slice_0 in host memory");
  EXPECT_EQ(placement_text(shape_slice_crop(), two[1]), "slice ran on gpu:0, the default device");
}

TEST(Report, ListsExplicitReadsApartAndTimingOnlyReads) {
  trace::Trace trace = shape_slice_crop();
  EXPECT_THAT(report_text(trace, {}), Not(HasSubstr("timing-only")));
  trace.unavailable_reads = 7;
  EXPECT_THAT(report_text(trace, {}), HasSubstr("7 values were read in timing-only mode"));
  const json report = report_json(trace, {});
  ASSERT_EQ(report["explicit_reads"].size(), 1u);
  EXPECT_EQ(report["explicit_reads"][0]["op"], "fetch");
  EXPECT_EQ(report["explicit_reads"][0]["calls"], 10);
  EXPECT_EQ(report["unavailable_reads"], 7);
  for (const json& finding : report["findings"]) EXPECT_NE(finding["op"], "fetch");
}

TEST(Report, SaysVirtualTimeOnlyForSimulatedDevices) {
  trace::Trace trace = shape_slice_crop();
  EXPECT_THAT(report_text(trace, {}), HasSubstr("Place: sim:rtx2080ti, virtual time\n"));
  trace.devices[1].virtual_time = false;
  EXPECT_THAT(report_text(trace, {}), Not(HasSubstr("virtual")));
  trace.devices.pop_back();
  EXPECT_THAT(report_text(trace, {}), HasSubstr("Place: cpu\n"));
}

TEST(Report, AnEmptyTraceHasAReport) {
  const std::string text = report_text({}, {});
  EXPECT_THAT(text, HasSubstr("Total time: 0\n"));
  EXPECT_THAT(text, HasSubstr("No implicit copy blocked the host."));
}

TEST(Report, WritesNumbersWithoutExponents) {
  EXPECT_EQ(milliseconds(0ns), "0");
  EXPECT_EQ(milliseconds(1ns), "0.000001");
  EXPECT_EQ(milliseconds(4512ns), "0.004512");
  EXPECT_EQ(milliseconds(24'092'200ns), "24.0922");
  EXPECT_EQ(milliseconds(std::chrono::seconds(12'345)), "12345000");
  EXPECT_EQ(short_function("int main(int, char**)"), "main");
  EXPECT_EQ(short_function("ferry::Tensor ferry::nn::Conv2d::forward(const ferry::Tensor&)"),
            "ferry::nn::Conv2d::forward");
  EXPECT_EQ(short_function("std::vector<int (*)(long int)> make<T>(T) [with T = int]"), "make<T>");
  EXPECT_EQ(short_function("run"), "run");
  EXPECT_EQ(short_function("void {anonymous}::iterate({anonymous}::SliceOn)"), "iterate");
  EXPECT_EQ(short_function("void app::(anonymous namespace)::run(int)"), "app::run");
  EXPECT_EQ(short_percent(0.0422833), "4.23%");
}

TEST(Report, SaysWhatExplicitReadsCost) {
  const trace::Trace trace = shape_slice_crop();
  const json reads = report_json(trace, {})["memcpy"]["fetches"];
  EXPECT_EQ(reads["calls"], 10);
  EXPECT_EQ(reads["blocked_ns"].get<std::int64_t>(),
            reads["drain_ns"].get<std::int64_t>() + reads["transfer_ns"].get<std::int64_t>());
  EXPECT_EQ(reads["transfer_ns"], 10 * 10'400);
  EXPECT_THAT(report_text(trace, {}), HasSubstr("\nExplicit reads: 10 calls, host blocked for "));
}

TEST(Report, SaysOfARepeatedChangeWhereItStands) {
  const trace::Trace trace = shape_slice_crop();
  std::vector<trace::Hotspot> findings = find_hotspots(trace);
  ASSERT_EQ(findings.size(), 2u);
  const trace::Advice advice{.sites = {findings[1].site},
                             .ops = {findings[1].op_name},
                             .blocked_saved = 5us,
                             .compute_added = 2us,
                             .text = "put slice (main.cpp:31) into a DeviceGuard<cpu> scope: removes 20 copies"};
  for (trace::Hotspot& finding : findings) finding.advice.push_back(advice);
  const std::string text = report_text(trace, {.findings = findings});
  EXPECT_THAT(text, HasSubstr("   Change: put slice (main.cpp:31) into a DeviceGuard<cpu> scope: removes 20 copies\n"));
  EXPECT_THAT(text, HasSubstr("   Change: same change as 1: put slice (main.cpp:31) into a DeviceGuard<cpu> scope\n"));
  const json report = report_json(trace, {.findings = findings});
  EXPECT_FALSE(report["findings"][0]["advice"][0].contains("same_as"));
  EXPECT_EQ(report["findings"][1]["advice"][0]["same_as"], 0);
  EXPECT_EQ(report["findings"][1]["advice"][0]["saved_ns"], 3'000);
}

TEST(Report, SaysWhatWasWeighedWhereNothingHelps) {
  EXPECT_THAT(
      report_text(shape_slice_crop(), {}),
      HasSubstr("   Moving no recorded op would save time; tensors made before recording stay where they are.\n"));
}

TEST(Report, WrapsLongLines) {
  EXPECT_EQ(wrapped("", 10, 2), "");
  EXPECT_EQ(wrapped("one two", 10, 2), "one two");
  EXPECT_EQ(wrapped("  one two three four", 10, 2), "  one two\n  three\n  four");
  EXPECT_EQ(wrapped("a_word_that_is_too_long b", 10, 2), "a_word_that_is_too_long\n  b");
}

TEST(Report, AlignsColumnsWhateverTheNames) {
  const std::string text = report_text(busy_trace(), {});
  std::istringstream table(text.substr(text.find("\nEvent ") + 1, text.find("Memory Summary") - text.find("\nEvent ")));
  std::string line;
  std::getline(table, line);
  const std::size_t width = line.size();
  EXPECT_TRUE(line.ends_with("Ratio."));
  int rows = 0;
  for (; std::getline(table, line) && !line.empty(); ++rows) EXPECT_EQ(line.size(), width) << line;
  EXPECT_EQ(rows, 11);
}

// Set FERRY_UPDATE_GOLDEN=1 to write the file anew after a change that is meant.
TEST(Report, MatchesTheGoldenText) {
  const std::string path = std::string(GOLDEN_FOLDER) + "/report.txt";
  const trace::Trace trace = busy_trace();
  std::vector<trace::Hotspot> findings = find_hotspots(trace);
  findings[0].advice.push_back({.text = "put linear (main.cpp:13) into a DeviceGuard<cpu> scope: removes 3 copies"});
  const std::string text = report_text(trace, {.sort = SortKey::total, .findings = findings});
  if (std::getenv("FERRY_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, golden);
}

}  // namespace
}  // namespace ferry::profiler
