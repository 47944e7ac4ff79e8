#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "src/base/check.h"
#include "tests/analysis/trace_text.h"

namespace ferry::profiler {
namespace {

using analysis::Activity;
using analysis::Event;
using analysis::EventKind;
using analysis_report::AnalysisReport;
using test::error_of;
using test::imported;
using test::KinetoText;
using test::report_of;
using testing::Contains;
using testing::HasSubstr;

TEST(Kineto, TakesSizesThatNoMemoryHasForNone) {
  for (const char* size : {"-9223372036854775808", "9223372036854775807", "-1"}) {
    const std::string text = fmt::format(
        R"x({{"schemaVersion": 1, "traceEvents": [
    {{"ph": "X", "cat": "Runtime", "name": "cudaMemcpy", "pid": 9, "tid": 9, "ts": 30, "dur": 10, "args": {{"correlation": 7}}}},
    {{"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7", "ts": 32, "dur": 5,
     "args": {{"stream": 7, "correlation": 7, "bytes": {}}}}}]}})x",
        size);
    const AnalysisReport report = report_of(text);
    ASSERT_EQ(report.hotspots.size(), 1u) << size;
    EXPECT_EQ(report.hotspots[0].size, Bytes{}) << size;
  }
  EXPECT_EQ(to_string(Bytes{std::numeric_limits<std::int64_t>::min()}).substr(0, 1), "-");
}

TEST(Kineto, ReadsTheWordsOf2021) {
  const std::string text = R"x({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "Operator", "name": "ProfilerStep#3", "pid": 9, "tid": "9", "ts": 10, "dur": 100, "args": {}},
    {"ph": "X", "cat": "Operator", "name": "aten::to", "pid": 9, "tid": "9", "ts": 20, "dur": 50,
     "args": {"External id": 5, "Call stack": "/x/site-packages/torch/a.py(1): to;train.py(44): <module>"}},
    {"ph": "X", "cat": "Runtime", "name": "cudaMemcpyAsync", "pid": 9, "tid": 9, "ts": 30, "dur": 10,
     "args": {"correlation": 77, "external id": 5}},
    {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7", "ts": 32, "dur": 5,
     "args": {"stream": 7, "correlation": 77, "bytes": 256}},
    {}]})x";
  const AnalysisReport report = report_of(text);
  EXPECT_EQ(report.format, "PyTorch profiler");
  EXPECT_EQ(report.steps, 1);
  ASSERT_EQ(report.hotspots.size(), 1u);
  EXPECT_EQ(report.hotspots[0].op, "aten::to");
  EXPECT_EQ(report.hotspots[0].frame, "train.py(44): <module>");
  EXPECT_EQ(report.hotspots[0].size, Bytes{256});
}

TEST(Kineto, KeepsNanosecondsOfLargeTimes) {
  const Activity activity = imported(KinetoText().slice("cpu_op", "a", "1712195495519695.813", "0.001").text());
  ASSERT_EQ(activity.events.size(), 1u);
  EXPECT_EQ(activity.events[0].begin.count(), 1712195495519695813);
  EXPECT_EQ(activity.events[0].duration().count(), 1);
}

TEST(Kineto, TakesABareArrayAndStrayCharacters) {
  const std::string text = "\x01[" + KinetoText().slice("cpu_op", "a\x02", "1", "2").events() + ", {}\x03]";
  EXPECT_EQ(imported(text).events.size(), 1u);
}

TEST(Kineto, TakesAByteOrderMark) {
  EXPECT_EQ(imported("\xef\xbb\xbf" + KinetoText().slice("cpu_op", "a", "1", "2").text()).events.size(), 1u);
}

TEST(Kineto, KeepsTheWholeEventsOfACutFile) {
  std::string text = KinetoText().slice("cpu_op", "a", "1", "2").slice("cpu_op", "b", "3", "2").text();
  text.resize(text.size() - 20);
  const AnalysisReport report = report_of(text);
  EXPECT_EQ(report.events, 1);
  EXPECT_THAT(report.warnings, Contains(HasSubstr(fmt::format("at byte {}", text.size()))));
}

TEST(Kineto, SaysInOneLineWhereAFileIsMalformed) {
  const std::string good = KinetoText().slice("cpu_op", "a", "1", "2").text();
  std::string bad = good;
  const std::size_t at = bad.find("\"dur\"") + 5;
  bad[at] = '!';
  EXPECT_EQ(error_of(bad), fmt::format("trace: byte {}: expected ':' after a key, found '!'", at));
  EXPECT_THAT(error_of("no trace"), HasSubstr("byte 0: no trace of a known format"));
  EXPECT_THAT(error_of(""), HasSubstr("the file is empty"));
}

TEST(Kineto, CountsWhatItGoesPast) {
  KinetoText trace;
  trace.raw(R"({"ph": "X", "cat": "cpu_op", "name": "a", "pid": "main", "tid": 1, "ts": 1, "dur": 9})");
  trace.raw(R"({"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 1, "tid": 1})");
  trace.raw(R"({"ph": "X", "cat": "cpu_op", "name": "negative", "pid": 1, "tid": 1, "ts": 1, "dur": -1})");
  trace.raw(R"({"ph": "B", "cat": "cpu_op", "name": "no end", "pid": 1, "tid": 1, "ts": 1})");
  trace.slice("cpu_op", "left", "10", "10").slice("cpu_op", "right", "15", "10");
  trace.gpu("kernel", "orphan", "1", "2", 99);
  const AnalysisReport report = report_of(trace.text());
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 slice is of processes whose id is no number")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("2 slices lack a usable time")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 slice begins or ends without the other")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 slice crosses the end")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 piece of GPU work has no recorded launch")));
}

TEST(Kineto, JoinsOpsByExternalIdOnlyWhereItIsNoCorrelation) {
  const auto op_of_copy = [](int external) {
    KinetoText trace;
    trace.slice("cpu_op", "aten::elsewhere", "500", "10", "\"External id\": 7");
    trace.slice("cuda_runtime", "cudaMemcpy", "10", "20",
                fmt::format(R"("correlation": 7, "External id": {})", external));
    trace.slice("cpu_op", "aten::meant", "600", "10", "\"External id\": 8");
    trace.gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "15", "5", 7);
    return report_of(trace.text()).hotspots.at(0).op;
  };
  EXPECT_EQ(op_of_copy(8), "aten::meant");
  EXPECT_EQ(op_of_copy(7), "");
}

TEST(Kineto, AnOpInsideACallDidNotMakeIt) {
  KinetoText trace;
  trace.slice("cuda_runtime", "cudaMemcpy", "10", "40", R"("correlation": 7, "External id": 8)");
  trace.slice("cpu_op", "aten::inside", "20", "5", R"("External id": 8)");
  trace.slice("cuda_runtime", "cudaMemcpy", "60", "40", R"("correlation": 9, "External id": 10)");
  trace.slice("cpu_op", "aten::other", "70", "5", R"("External id": 10)");
  trace.gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "15", "5", 7);
  const AnalysisReport report = report_of(trace.text());
  ASSERT_FALSE(report.hotspots.empty());
  EXPECT_EQ(report.hotspots.front().op, "");
}

TEST(Kineto, DirectionsAreReadFromEachToolsWords) {
  for (const char* name : {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Host -> Device)", "CopyHostToDevice",
                           "MEMCPY_HtoD", "Memcpy (Pinned -> Device)", "GpuMemcpySync:CPU->GPU", "Host-to-Device"}) {
    KinetoText trace;
    trace.call("hipMemcpyWithStream", "10", "20", 1).gpu("gpu_memcpy", name, "12", "6", 1);
    EXPECT_EQ(report_of(trace.text()).sync_h2d.calls, 1) << name;
  }
  for (const char* name : {"Memcpy DtoH (Device -> Pinned)", "CopyDeviceToHost", "Memcpy (Device -> Pageable)",
                           "GpuMemcpySync:GPU->CPU", "MEMCPY_DtoH"}) {
    KinetoText trace;
    trace.call("cudaMemcpy", "10", "20", 1).gpu("gpu_memcpy", name, "12", "6", 1);
    EXPECT_EQ(report_of(trace.text()).sync_d2h.calls, 1) << name;
  }
}

TEST(Kineto, NullStreamsOfWaitsAreNone) {
  for (const char* none : {"-1", "4294967295", "18446744073709551615"}) {
    KinetoText trace;
    trace.call("cudaMemcpyAsync", "10", "4", 1);
    trace.gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "20", "6", 1);
    trace.call("cudaStreamSynchronize", "18", "10", 3);
    trace.slice("cuda_sync", "Stream Sync", "18", "10", fmt::format(R"("stream": {}, "correlation": 3)", none));
    EXPECT_EQ(report_of(trace.text()).sync_h2d.calls, 1) << none;
  }
}

TEST(Kineto, MatchesBeginsWithEnds) {
  KinetoText trace;
  trace.raw(R"({"ph": "B", "cat": "x", "name": "outer", "pid": 1, "tid": 1, "ts": 1})");
  trace.raw(R"({"ph": "B", "cat": "x", "name": "inner", "pid": 1, "tid": 1, "ts": 2})");
  trace.raw(R"({"ph": "E", "pid": 1, "tid": 1, "ts": 3}, {"ph": "E", "pid": 1, "tid": 1, "ts": 9})");
  const Activity activity = imported(trace.text());
  ASSERT_EQ(activity.events.size(), 2u);
  EXPECT_EQ(activity.name_of(activity.events[0]), "outer");
  EXPECT_EQ(activity.events[0].duration(), Nanoseconds(8'000));
  EXPECT_EQ(activity.events[1].duration(), Nanoseconds(1'000));
}

TEST(Paddle, ReadsNamesCorrelationsAndThreads) {
  const std::string text = R"x({"schemaVersion": "1.0.1", "displayTimeUnit": "ms", "span_indx": "0", "traceEvents": [
    {"name": "crop[90.000 us]", "pid": 5, "tid": "8(C++)", "ts": 100, "dur": 90.0, "ph": "X", "cat": "Operator",
     "args": {"callstack": "  File 'train.py', line 7, in main\n    File '/p/site-packages/paddle/x.py', line 2, in f"}},
    {"name": "cudaMemcpyAsync[0.010 ms]", "pid": 5, "tid": "8(C++)", "ts": 110, "dur": 10.5, "ph": "X",
     "cat": "CudaRuntime", "args": {"correlation id": 4}},
    {"name": "cudaStreamSynchronize[1.000 us]", "pid": 5, "tid": "8(C++)", "ts": 122, "dur": 20, "ph": "X",
     "cat": "CudaRuntime", "args": {"correlation id": 5}},
    {"name": "MEMCPY_DtoH[2.000 us]", "pid": 0, "tid": 7, "ts": 125, "dur": 2, "ph": "X", "cat": "Memcpy",
     "args": {"stream": 7, "correlation id": 4, "bytes": 32}},
    {"name": "ProfileStep#2[9.0 ms]", "pid": 5, "tid": "8(Python)", "ts": 90, "dur": 300, "ph": "X", "cat": "ProfileStep"},
  ]})x";
  const AnalysisReport report = report_of(text);
  EXPECT_EQ(report.format, "PaddlePaddle profiler");
  EXPECT_EQ(report.steps, 1);
  EXPECT_EQ(report.sync_d2h.calls, 1);
  ASSERT_EQ(report.hotspots.size(), 1u);
  EXPECT_EQ(report.hotspots[0].op, "crop");
  EXPECT_EQ(report.hotspots[0].frame, "File 'train.py', line 7, in main");
  EXPECT_EQ(report.hotspots[0].blocked, Nanoseconds(30'500));
  EXPECT_THAT(report.hotspots[0].fix, HasSubstr("pin_memory"));
}

TEST(Paddle, DurationsGoFromNamesAndIndicesStay) {
  const auto name_of = [](const std::string& name) {
    const std::string event = R"x({"schemaVersion": "1.0.1", "traceEvents": [{"ph": "X", "cat": "Operator", "pid": 1,
      "tid": "1(C++)", "ts": 1, "dur": 2, "name": ")x";
    const Activity activity = imported(event + name + "\"}]}");
    return std::string(activity.name_of(activity.events.at(0)));
  };
  EXPECT_EQ(name_of("conv2d[1.2 ms]"), "conv2d");
  EXPECT_EQ(name_of("conv2d[3 s]"), "conv2d");
  EXPECT_EQ(name_of("conv2d[90.000us]"), "conv2d");
  EXPECT_EQ(name_of("split[0]"), "split[0]");
  EXPECT_EQ(name_of("uses[gpus]"), "uses[gpus]");
}

TEST(TensorFlow, ReadsStreamsAndMemcpyDetails) {
  const std::string text = R"x({"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [
    {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
    {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "Stream #13(MemcpyH2D)"}},
    {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "XLA Ops"}},
    {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
    {"ph": "X", "pid": 701, "tid": 9, "ts": 10.5, "dur": 30, "name": "MemcpyH2D",
     "args": {"correlation_id": "12", "memcpy_details": "kind_src:pageable kind_dst:device size:400 dest:0 async:1"}},
    {"ph": "X", "pid": 1, "tid": 2, "ts": 20, "dur": 3, "name": "MemcpyH2D",
     "args": {"correlation_id": "12", "memcpy_details": "kind_src:pageable kind_dst:device size:400 dest:0 async:1"}},
    {"ph": "X", "pid": 1, "tid": 3, "ts": 20, "dur": 3, "name": "copy.1", "args": {}},
    {"ph": "X", "pid": 701, "tid": 9, "ts": 1, "dur": 90, "name": "$train.py:12 step"},
    {}]})x";
  const AnalysisReport report = report_of(text);
  EXPECT_EQ(report.format, "TensorFlow or JAX profiler");
  EXPECT_EQ(report.sync_h2d.calls, 1);
  EXPECT_EQ(report.sync_h2d.blocked, Nanoseconds(30'000));
  ASSERT_EQ(report.hotspots.size(), 1u);
  EXPECT_EQ(report.hotspots[0].rule, "pageable_async_copy");
  EXPECT_EQ(report.hotspots[0].frame, "$train.py:12 step");
  EXPECT_EQ(report.hotspots[0].size, Bytes{400});
  ASSERT_EQ(report.gpus.size(), 1u);
  EXPECT_EQ(report.gpus[0].kernels, 0);
}

// A database in memory, as a file's bytes.
std::string database(const std::string& sql) {
  sqlite3* db = nullptr;
  sqlite3_open(":memory:", &db);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_int64 size = 0;
  unsigned char* const bytes = sqlite3_serialize(db, "main", &size, 0);
  std::string text(reinterpret_cast<char*>(bytes), static_cast<std::size_t>(size));
  sqlite3_free(bytes);
  sqlite3_close(db);
  return text;
}

constexpr const char* kNsightTables = R"(
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
  INSERT INTO StringIds VALUES (1, 'cudaMemcpyAsync_v3020'), (2, 'cudaStreamSynchronize_v3020'), (3, 'epoch');
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, correlationId INTEGER, globalTid INTEGER,
    nameId INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, copyKind INTEGER, bytes INTEGER, srcKind INTEGER, dstKind INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (correlationId INTEGER, streamId INTEGER, globalPid INTEGER);
)";

TEST(Nsight, JoinsCallsCopiesAndWaits) {
  const std::string bytes = database(std::string(kNsightTables) + R"(
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 150, 7, 16777217, 1), (160, 260, 8, 16777217, 2);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (200, 250, 0, 7, 7, 16777216, 2, 4, 2, 1);
    INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (8, 7, 16777216);
    CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (0, 1000, NULL, 3, 16777217), (50, 500, 'step 4', NULL, 16777217);)");
  const AnalysisReport report = report_of(bytes);
  EXPECT_EQ(report.format, "Nsight Systems");
  EXPECT_EQ(report.sync_d2h.calls, 1);
  EXPECT_EQ(report.sync_d2h.blocked, Nanoseconds(150));
  EXPECT_EQ(report.steps, 1);
  ASSERT_EQ(report.hotspots.size(), 1u);
  EXPECT_EQ(report.hotspots[0].drain, Nanoseconds(90));
}

TEST(Nsight, CorrelationsCountForEachProcess) {
  const std::string bytes = database(std::string(kNsightTables) + R"(
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 150, 7, 16777217, 1), (160, 260, 8, 16777217, 2);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (200, 250, 0, 7, 7, 33554432, 2, 4, 2, 1);)");
  EXPECT_EQ(report_of(bytes).sync_calls(), 0);
}

TEST(Nsight, SaysWhichTablesAndColumnsItMisses) {
  const AnalysisReport report =
      report_of(database("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); CREATE TABLE "
                         "CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER)"));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("no table CUPTI_ACTIVITY_KIND_RUNTIME")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("table CUPTI_ACTIVITY_KIND_MEMCPY lacks end")));
}

TEST(Nsight, NamesADamagedFile) {
  std::string bytes = database(kNsightTables);
  for (std::size_t i = 100; i < bytes.size(); i += 3) bytes[i] = '\x7f';
  EXPECT_THAT(error_of(bytes), HasSubstr("trace: byte "));
  bytes.resize(60);
  EXPECT_EQ(error_of(bytes), "trace: byte 60: the file ends within its header");
}

TEST(Nsight, SaysWhereAFileIsCut) {
  std::string bytes = database(kNsightTables);
  const std::size_t whole = bytes.size();
  bytes.resize(whole - 4096);
  EXPECT_EQ(error_of(bytes),
            fmt::format("trace: byte {}: the file ends, and its header tells of {} bytes", bytes.size(), whole));
}

TEST(Nsight, NamesTheTableThatIsDamagedAndItsByte) {
  std::string bytes = database(std::string(kNsightTables) +
                               "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 150, 7, 16777217, 1);");
  // The second page holds the first table, StringIds; the third the calls.
  for (std::size_t i = 2 * 4096; i < 3 * 4096; ++i) bytes[i] = '\x7f';
  EXPECT_THAT(error_of(bytes), HasSubstr("trace: byte 8192: table CUPTI_ACTIVITY_KIND_RUNTIME, which begins there: "));
}

}  // namespace
}  // namespace ferry::profiler
