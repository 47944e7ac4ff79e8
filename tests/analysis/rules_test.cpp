#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analysis/trace_text.h"

namespace ferry::profiler {
namespace {

using analysis_report::AnalysisReport;
using test::KinetoText;
using test::report_of;

constexpr const char* kToDevice = "Memcpy HtoD (Pageable -> Device)";
constexpr const char* kToDevicePinned = "Memcpy HtoD (Pinned -> Device)";
constexpr const char* kToHostPinned = "Memcpy DtoH (Device -> Pinned)";

const rules::Finding* finding(const AnalysisReport& report, std::string_view rule) {
  for (const rules::Finding& each : report.findings) {
    if (each.rule == rule) return &each;
  }
  return nullptr;
}

// An asynchronous pinned copy at 10..14 us whose GPU work is at 20..26 us.
KinetoText pinned_copy(const char* name = kToDevicePinned) {
  KinetoText trace;
  trace.slice("cpu_op", "aten::copy_", "5", "10");
  trace.call("cudaMemcpyAsync", "10", "4", 1);
  trace.gpu("gpu_memcpy", name, "20", "6", 1, 7, "\"bytes\": 64");
  return trace;
}

TEST(SyncCopy, AnAsynchronousPinnedCopyIsNone) {
  const AnalysisReport report = report_of(pinned_copy().call("cudaLaunchKernel", "16", "1", 2).text());
  EXPECT_EQ(report.sync_calls(), 0);
  ASSERT_EQ(report.copies.size(), 1u);
  EXPECT_FALSE(report.copies[0].synchronous);
}

TEST(SyncCopy, AWaitForTheStreamWithNothingBetweenMakesItOne) {
  const AnalysisReport report = report_of(pinned_copy().call("cudaStreamSynchronize", "18", "10", 3).text());
  EXPECT_EQ(report.sync_h2d.calls, 1);
  ASSERT_EQ(report.hotspots.size(), 1u);
  const rules::Finding& hotspot = report.hotspots[0];
  EXPECT_EQ(hotspot.rule, "sync_copy");
  EXPECT_EQ(hotspot.op, "aten::copy_");
  EXPECT_EQ(hotspot.size, Bytes{64});
  EXPECT_EQ(hotspot.blocked, Nanoseconds(14'000));
  EXPECT_EQ(hotspot.drain, Nanoseconds(6'000));  // the call, and the wait until the copy began
  EXPECT_EQ(hotspot.copying, Nanoseconds(8'000));
}

TEST(SyncCopy, WorkEnqueuedBetweenMakesTheWaitAnothers) {
  const AnalysisReport report = report_of(
      pinned_copy().call("cudaLaunchKernel", "16", "1", 2).call("cudaStreamSynchronize", "18", "10", 3).text());
  EXPECT_EQ(report.sync_calls(), 0);
}

TEST(SyncCopy, QueriesBetweenDoNotMatter) {
  const AnalysisReport report =
      report_of(pinned_copy().call("cudaEventQuery", "16", "1").call("cudaStreamSynchronize", "18", "10", 3).text());
  EXPECT_EQ(report.sync_h2d.calls, 1);
}

TEST(SyncCopy, AWaitForAnotherStreamIsNone) {
  KinetoText trace = pinned_copy();
  trace.call("cudaStreamSynchronize", "18", "10", 3);
  trace.gpu("cuda_sync", "Stream Sync", "18", "10", 3, 9);
  EXPECT_EQ(report_of(trace.text()).sync_calls(), 0);
}

TEST(SyncCopy, AnEventTellsTheEndOnlyOfWhatWasEnqueuedBeforeIt) {
  EXPECT_EQ(report_of(pinned_copy(kToHostPinned).call("cudaEventSynchronize", "18", "10").text()).sync_calls(), 0);
  const AnalysisReport report = report_of(
      pinned_copy(kToHostPinned).call("cudaEventRecord", "16", "1").call("cudaEventSynchronize", "18", "10").text());
  EXPECT_EQ(report.sync_d2h.calls, 1);
}

TEST(SyncCopy, TheEventWaitedForIsTheOneThatTheTraceNames) {
  const auto calls = [](const char* args) {
    KinetoText trace;
    trace.call("cudaEventRecord", "5", "1", 8);
    trace.call("cudaMemcpyAsync", "10", "4", 1);
    trace.gpu("gpu_memcpy", kToHostPinned, "20", "6", 1);
    trace.call("cudaEventRecord", "16", "1", 9).call("cudaEventSynchronize", "18", "10", 3);
    trace.slice("cuda_sync", "Event Sync", "18", "10", std::string(R"("stream": -1, "correlation": 3, )") + args);
    return report_of(trace.text()).sync_d2h.calls;
  };
  EXPECT_EQ(calls(R"("wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 9)"), 1);
  EXPECT_EQ(calls(R"("wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 8)"), 0);
  EXPECT_EQ(calls(R"("wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 9)"), 0);
  EXPECT_EQ(calls(R"("wait_on_stream": 4294967295, "wait_on_cuda_event_record_corr_id": 0)"), 1);
}

TEST(SyncCopy, WaitingForTheDeviceIsReadingNotWriting) {
  EXPECT_EQ(report_of(pinned_copy(kToHostPinned).call("cudaDeviceSynchronize", "18", "10").text()).sync_d2h.calls, 1);
  EXPECT_EQ(report_of(pinned_copy().call("cudaDeviceSynchronize", "18", "10").text()).sync_calls(), 0);
}

TEST(SyncCopy, AnotherThreadsWaitIsNone) {
  KinetoText trace = pinned_copy();
  trace.raw(
      R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 100, "tid": 101, "ts": 18, "dur": 9})");
  EXPECT_EQ(report_of(trace.text()).sync_calls(), 0);
}

TEST(SyncCopy, ByTheCallsContract) {
  for (const char* call :
       {"cudaMemcpy", "cuMemcpyHtoD_v2", "hipMemcpyWithStream", "cudaMemcpy2D", "cudaMemcpy_v3020"}) {
    KinetoText trace;
    trace.call(call, "10", "30", 1).gpu("gpu_memcpy", "Memcpy HtoD (Host -> Device)", "20", "6", 1);
    const AnalysisReport report = report_of(trace.text());
    EXPECT_EQ(report.sync_h2d.calls, 1) << call;
    EXPECT_EQ(report.sync_h2d.blocked, Nanoseconds(30'000)) << call;
  }
}

TEST(SyncCopy, CopiesOnTheDeviceAreApart) {
  KinetoText trace;
  trace.call("cudaMemcpy", "10", "30", 1).gpu("gpu_memcpy", "Memcpy DtoD (Device -> Device)", "20", "6", 1);
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_calls(), 0);
  EXPECT_EQ(report.device_copies.calls, 1);
}

TEST(SyncCopy, CopiesOfAGraphAreTheGraphs) {
  KinetoText trace;
  trace.call("cudaGraphLaunch", "10", "3", 1);
  trace.gpu("gpu_memcpy", kToDevice, "20", "6", 1).gpu("gpu_memcpy", kToDevice, "30", "6", 1);
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_calls(), 0);
  ASSERT_EQ(report.copies.size(), 1u);
  EXPECT_EQ(report.copies[0].calls, 2);
}

TEST(SyncCopy, PiecesOfOneCallAreOneCopy) {
  KinetoText trace;
  trace.call("cudaMemcpy", "10", "30", 1);
  trace.gpu("gpu_memcpy", kToDevice, "20", "6", 1, 7, "\"bytes\": 10")
      .gpu("gpu_memcpy", kToDevice, "30", "6", 1, 7, "\"bytes\": 5");
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_h2d.calls, 1);
  EXPECT_EQ(report.hotspots.at(0).size, Bytes{15});
}

TEST(SyncCopy, AreFoundByTimeWhereCorrelationsAreMissing) {
  KinetoText trace;
  trace.slice("cpu_op", "aten::copy_", "5", "50")
      .call("cudaMemcpyAsync", "10", "14")
      .call("cudaStreamSynchronize", "25", "5");
  trace.slice("gpu_memcpy", kToDevice, "12", "6", R"("stream": 7, "bytes": 8)");
  trace.call("cuMemcpyDtoH_v2", "60", "10");
  trace.slice("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", "62", "6", R"("stream": 7, "bytes": 8)");
  trace.slice("gpu_memcpy", kToDevice, "90", "6", R"("stream": 7, "bytes": 8)");
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_h2d.calls, 2);  // the last one by its memory alone
  EXPECT_EQ(report.sync_h2d.blocked, Nanoseconds(19'000));
  EXPECT_EQ(report.sync_d2h.calls, 1);
  EXPECT_EQ(report.sync_d2h.blocked, Nanoseconds(10'000));
  EXPECT_THAT(report.warnings, testing::Contains(testing::HasSubstr("1 copy has no recorded call")));
}

TEST(SyncCopy, ACallOfAnUnknownNameIsWhatItEnqueued) {
  KinetoText trace;
  trace.call("newMemoryTransfer", "10", "4", 1).gpu("gpu_memcpy", kToHostPinned, "12", "6", 1);
  trace.call("cudaStreamSynchronize", "18", "10", 2);
  trace.call("newMemoryTransfer", "40", "4", 3).gpu("gpu_memcpy", kToDevice, "42", "6", 3);
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_d2h.blocked, Nanoseconds(14'000));
  EXPECT_EQ(report.sync_h2d.calls, 1);
}

TEST(PageableAsyncCopy, AnEndInPageableMemoryMakesItSynchronous) {
  KinetoText trace;
  trace.call("cudaMemcpyAsync", "10", "4", 1).gpu("gpu_memcpy", kToDevice, "12", "6", 1);
  trace.call("cudaLaunchKernel", "16", "1", 2);
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_h2d.calls, 1);
  EXPECT_EQ(report.hotspots.at(0).rule, "pageable_async_copy");
  EXPECT_THAT(report.hotspots[0].fix, testing::HasSubstr("pin_memory"));
}

TEST(ScalarReadback, IsToldFromOtherCopiesByItsOps) {
  KinetoText trace;
  trace.slice("python_function", "train.py(7): step", "0", "100");
  trace.slice("python_function", "torch/_tensor.py(9): __bool__", "3", "90");
  trace.slice("cpu_op", "aten::item", "5", "50").slice("cpu_op", "aten::_local_scalar_dense", "6", "40");
  trace.call("cudaMemcpyAsync", "10", "4", 1).gpu("gpu_memcpy", kToHostPinned, "20", "6", 1);
  trace.call("cudaStreamSynchronize", "15", "20", 2);
  const AnalysisReport report = report_of(trace.text());
  EXPECT_EQ(report.sync_d2h.calls, 1);
  EXPECT_EQ(report.scalar_reads.calls, 1);
  ASSERT_EQ(report.hotspots.size(), 1u);
  EXPECT_EQ(report.hotspots[0].rule, "scalar_readback");
  EXPECT_EQ(report.hotspots[0].op, "aten::item");
  EXPECT_EQ(report.hotspots[0].frame, "train.py(7): step");
  EXPECT_THAT(report.hotspots[0].chain, testing::ElementsAre("aten::item", "aten::_local_scalar_dense"));
}

TEST(DeviceWideSync, IsFoundWithItsFrame) {
  KinetoText trace;
  trace.slice("python_function", "train.py(9): log", "0", "100");
  trace.call("cudaDeviceSynchronize", "10", "80", 1);
  const AnalysisReport report = report_of(trace.text());
  ASSERT_NE(finding(report, "device_wide_sync"), nullptr);
  EXPECT_EQ(finding(report, "device_wide_sync")->frame, "train.py(9): log");
  EXPECT_EQ(finding(report, "device_wide_sync")->blocked, Nanoseconds(80'000));
}

TEST(DeviceWideSync, AWaitThatACopyAccountsForIsNotCountedTwice) {
  const AnalysisReport report = report_of(pinned_copy(kToHostPinned).call("cudaDeviceSynchronize", "18", "10").text());
  EXPECT_EQ(finding(report, "device_wide_sync"), nullptr);
}

TEST(SyncMemset, IsASynchronousCallOrAWaitAtOnce) {
  EXPECT_NE(finding(report_of(KinetoText().call("cudaMemset", "1", "9", 1).text()), "sync_memset"), nullptr);
  const KinetoText async = KinetoText().call("cudaMemsetAsync", "1", "2", 1);
  EXPECT_EQ(finding(report_of(async.text()), "sync_memset"), nullptr);
  const AnalysisReport waited = report_of(KinetoText(async).call("cudaStreamSynchronize", "4", "5", 2).text());
  ASSERT_NE(finding(waited, "sync_memset"), nullptr);
  EXPECT_EQ(finding(waited, "sync_memset")->blocked, Nanoseconds(7'000));
}

KinetoText out_and_back(int bytes_back) {
  KinetoText trace;
  trace.slice("python_function", "net.py(3): forward", "0", "200");
  trace.call("cudaMemcpy", "10", "20", 1)
      .gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", "15", "5", 1, 7, "\"bytes\": 64");
  trace.call("cudaMemcpy", "50", "20", 2);
  trace.gpu("gpu_memcpy", kToDevice, "55", "5", 2, 7, fmt::format("\"bytes\": {}", bytes_back));
  return trace;
}

TEST(PingPong, IsTheSameDataOutAndBackWithinACall) {
  const AnalysisReport report = report_of(out_and_back(64).text());
  ASSERT_NE(finding(report, "ping_pong"), nullptr);
  EXPECT_EQ(finding(report, "ping_pong")->blocked, Nanoseconds(40'000));
  EXPECT_EQ(finding(report_of(out_and_back(65).text()), "ping_pong"), nullptr);
}

TEST(SmallHostTensor, ComesInEveryStep) {
  const auto steps = [](int copies) {
    KinetoText trace;
    for (int i = 0; i < 3; ++i) {
      trace.slice("user_annotation", fmt::format("ProfilerStep#{}", i), std::to_string(100 * i), "100");
      if (i >= copies) continue;
      trace.call("cudaMemcpy", std::to_string(100 * i + 10), "20", i + 1);
      trace.gpu("gpu_memcpy", kToDevice, std::to_string(100 * i + 15), "5", i + 1, 7, "\"bytes\": 8");
    }
    return report_of(trace.text());
  };
  EXPECT_NE(finding(steps(3), "small_host_tensor"), nullptr);
  EXPECT_EQ(finding(steps(2), "small_host_tensor"), nullptr);
}

TEST(GpuGap, NamesWhatTheHostDidMeanwhile) {
  KinetoText trace;
  trace.slice("python_function", "train.py(5): augment", "20", "900");
  trace.call("cudaLaunchKernel", "1", "2", 1).call("cudaLaunchKernel", "930", "2", 2);
  trace.gpu("kernel", "a", "5", "10", 1).gpu("kernel", "b", "940", "10", 2);
  const AnalysisReport report = report_of(trace.text());
  ASSERT_NE(finding(report, "gpu_gap"), nullptr);
  EXPECT_EQ(finding(report, "gpu_gap")->frame, "train.py(5): augment");
  EXPECT_EQ(finding(report, "gpu_gap")->blocked, Nanoseconds(925'000));
  EXPECT_NE(finding(report, "low_utilisation"), nullptr);
}

TEST(DataLoaderWait, IsFoundOnce) {
  KinetoText trace;
  trace.slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "0", "50");
  trace.slice("cpu_op", "aten::stack", "10", "20").slice("cpu_op", "aten::add", "60", "40");
  const AnalysisReport report = report_of(trace.text());
  ASSERT_NE(finding(report, "data_loader_wait"), nullptr);
  EXPECT_EQ(finding(report, "data_loader_wait")->calls, 1);
}

}  // namespace
}  // namespace ferry::profiler
