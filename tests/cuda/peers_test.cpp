// Two GPUs: copies between them without a stop in host memory, ordered with the work on both.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include "src/device/peer_copies.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

class CudaPeers : public OnFakeCuda {
 protected:
  void SetUp() override { fake_cuda::reset(2); }
};

TEST_F(CudaPeers, ADriverCopiesFromAnothersDevice) {
  const auto first = make_fake_cuda(0), second = make_fake_cuda(1);
  auto& peers = dynamic_cast<PeerCopies&>(*second);
  ASSERT_TRUE(peers.reaches(*first));
  void *const from = first->allocate(kKiB), *const to = second->allocate(kKiB);
  auto* const host = static_cast<float*>(first->allocate_pinned(kKiB));
  std::fill_n(host, 256, 3.0f);
  first->copy({from, host, kKiB, CopyDirection::host_to_device, HostMemory::pinned, "upload"}, kCompute);
  peers.wait_for(kCompute, *first, kCompute);
  for (int i = 0; i < 2; ++i) {
    second->copy({to, from, kKiB, CopyDirection::device_to_device, HostMemory::pinned, "across"}, kCompute);
  }
  second->synchronize_stream(kCompute);
  std::fill_n(host, 256, 0.0f);
  second->copy({host, to, kKiB, CopyDirection::device_to_host, HostMemory::pinned, "download"}, kCompute);
  second->synchronize_stream(kCompute);
  EXPECT_EQ(host[255], 3.0f);
  EXPECT_EQ(fake_cuda::calls("cudaMemcpyPeerAsync"), 2);
  EXPECT_EQ(fake_cuda::calls("cudaDeviceEnablePeerAccess"), 1) << "access is asked for once";
  first->free(from, kKiB);
  first->free_pinned(host, kKiB);
  second->free(to, kKiB);
}

TEST_F(CudaPeers, CopiesWithinADeviceAreNoneBetweenPeers) {
  const auto driver = make_fake_cuda(1);
  void *const from = driver->allocate(kKiB), *const to = driver->allocate(kKiB);
  driver->copy({to, from, kKiB, CopyDirection::device_to_device, HostMemory::pinned, "within"}, kCompute);
  EXPECT_EQ(fake_cuda::calls("cudaMemcpyPeerAsync"), 0);
  driver->free(from, kKiB);
  driver->free(to, kKiB);
}

TEST_F(CudaPeers, AnErrorOfACopyBetweenThemIsADeviceError) {
  const auto first = make_fake_cuda(0), second = make_fake_cuda(1);
  void *const from = first->allocate(kKiB), *const to = second->allocate(kKiB);
  const CopyRequest request{to, from, kKiB, CopyDirection::device_to_device, HostMemory::pinned, "across"};
  fake_cuda::fail("cudaMemcpyPeerAsync", 1, cudaErrorInvalidValue);
  EXPECT_THROW(second->copy(request, kCompute), DeviceError);
  second->copy(request, kCompute);
  first->free(from, kKiB);
  second->free(to, kKiB);
}

// --- tensors of a runtime with both ---

class OnTwoGpus : public CudaPeers {
 protected:
  void SetUp() override {
    CudaPeers::SetUp();
    ::setenv("FERRY_CUDA_PLUGIN", FERRY_CUDA_ON_HOST, 1);
    runtime_.emplace(RuntimeOptions{.device = "cuda:0,cuda:1", .check_ordering = true});
    before_ = downloads();
  }
  void TearDown() override {
    expect_nothing_live(*runtime_);
    runtime_.reset();
    ::unsetenv("FERRY_CUDA_PLUGIN");
    CudaPeers::TearDown();
  }
  static int downloads() { return fake_cuda::calls("cudaMemcpyAsync"); }

  static constexpr Device kSecond{DeviceType::gpu, 1};
  std::optional<Runtime> runtime_;  // its drivers as they are: a decorated one is no PeerCopies
  int before_ = 0;
};

TEST_F(OnTwoGpus, AnOpsInputComesStraightFromTheOtherGpu) {
  const Tensor x = full({1000}, 2) * 3;
  Tensor y;
  {
    const DeviceGuard<> guard(kSecond);
    y = x + 1;
  }
  EXPECT_EQ(downloads(), before_) << "nothing went through host memory";
  EXPECT_EQ(fake_cuda::calls("cudaMemcpyPeerAsync"), 1);
  EXPECT_EQ(y.device(), kSecond);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, 7));
}

TEST_F(OnTwoGpus, WhatTheHostHasTooComesFromThere) {
  const Tensor x = full({1000}, 2) * 3;
  {
    const DeviceGuard<cpu> guard;
    EXPECT_EQ((x + 1).to_vector<float>(), std::vector<float>(1000, 7));
  }
  const int downloaded = downloads();
  Tensor y;
  {
    const DeviceGuard<> guard(kSecond);
    y = x + 2;
  }
  EXPECT_EQ(fake_cuda::calls("cudaMemcpyPeerAsync"), 0);
  EXPECT_EQ(downloads(), downloaded + 1) << "an upload, and no second copy to the host";
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, 8));
}

TEST_F(OnTwoGpus, AWriteToTheSourceWaitsForTheCopy) {
  Tensor x = full({1000}, 2) * 3;
  const Tensor y = x.to(kSecond);
  x.fill_(9);
  EXPECT_EQ(downloads(), before_);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, 6));
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, 9));
}

TEST_F(OnTwoGpus, MemoryOfTheSourceIsNotUsedAgainBeforeTheCopy) {
  Tensor y;
  {
    const Tensor x = full({1 << 20}, 2) * 3;
    y = x.to(kSecond);
  }
  for (int i = 0; i < 4; ++i) const Tensor other = full({1 << 20}, 100 + i);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1 << 20, 6));
}

TEST_F(OnTwoGpus, SynchronousCopiesStillStopInHostMemory) {
  runtime_.reset();
  runtime_.emplace(RuntimeOptions{.device = "cuda:0,cuda:1", .copy_mode = CopyMode::synchronous});
  const Tensor x = full({1000}, 2) * 3;
  const DeviceGuard<> guard(kSecond);
  EXPECT_EQ((x + 1).to_vector<float>(), std::vector<float>(1000, 7));
  EXPECT_EQ(fake_cuda::calls("cudaMemcpyPeerAsync"), 0);
}

}  // namespace
}  // namespace ferry::test
