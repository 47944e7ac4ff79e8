// Real traces of other programs, with the counts that were read off them by hand. They are not part of the project: the
// tests skip where the folder shared/traces beside the checkout is absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "profiler/analysis_report/report.h"
#include "profiler/importers/importer.h"

namespace ferry::profiler {
namespace {

struct Expected {
  const char* file;
  std::int64_t h2d, d2h;
  const char* frame = "";     // of each hotspot, its end
  std::int64_t calls_ns = 0;  // what the trace's own calls and waits of these copies last
};

std::filesystem::path folder() {
  if (const char* set = std::getenv("FERRY_TRACES"); set != nullptr) return set;
  return std::filesystem::path(SOURCE_FOLDER) / "../shared/traces";
}

class RealTrace : public ::testing::TestWithParam<Expected> {};

TEST_P(RealTrace, HasTheSynchronousCopiesThatItShows) {
  const Expected& expected = GetParam();
  const std::filesystem::path path = folder() / expected.file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const analysis::TraceIndex index(importers::import_trace(importers::Input::file(path)));
  const analysis_report::AnalysisReport report = analysis_report::make_report(index);
  EXPECT_EQ(report.sync_h2d.calls, expected.h2d);
  EXPECT_EQ(report.sync_d2h.calls, expected.d2h);
  if (expected.frame[0] != '\0') {
    EXPECT_FALSE(report.hotspots.empty());
  }
  for (const rules::Finding& hotspot : report.hotspots) {
    EXPECT_NE(hotspot.frame.find(expected.frame), std::string::npos) << hotspot.frame;
    EXPECT_EQ(hotspot.drain + hotspot.copying, hotspot.blocked);
    EXPECT_FALSE(hotspot.fix.empty());
  }
  if (expected.calls_ns > 0) {
    EXPECT_NEAR(static_cast<double>(report.blocked().count()), static_cast<double>(expected.calls_ns),
                0.01 * static_cast<double>(expected.calls_ns));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shared, RealTrace,
    testing::Values(
        Expected{"hta/critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz", 16, 0, "", 57'550'000},
        Expected{"hta/critical_path_cuda_event_sync_event_sync_trace.json.gz", 0, 1, "", 35'000},
        Expected{"hta/trace_diff_control_control.json.gz", 0, 60, "", 75'858'000},
        Expected{"kineto/resnet50_w0_2021-06.pt.trace.json.gz", 12, 0, "resnet50_profiler_api.py(44)", 18'340'000},
        Expected{"tracelens/b200_eager_trace.json.gz", 2, 0, "flashinfer.py(664): build", 22'314},
        Expected{"tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 0, 1, "_ignore_causal_mask_sdpa", 20'020},
        Expected{"tracelens/mi300_facebook_timesformer-base-finetuned-k400__1016002.json.gz", 1, 1, "", 96'133'423},
        Expected{"tracelens/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz", 0, 1,
                 "populate_from_forward_batch", 463'063'750},
        Expected{"hta/ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 0, 0},
        Expected{"hta/rank_non_gpu_rank_non_gpu.json.gz", 0, 0},
        Expected{"tracelens/mi210_gpu_only_trace_gpu_only_trace.json.gz", 0, 0},
        Expected{"nsys/mock.sqlite", 0, 1, "", 605'516}, Expected{"nsys/healthy_1pct.sqlite", 0, 0},
        Expected{"tf/tf_trace_viewer_sample.json", 0, 0}),
    [](const testing::TestParamInfo<Expected>& parameter) {
      std::string name = std::filesystem::path(parameter.param.file).filename().string().substr(0, 24);
      for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace ferry::profiler
