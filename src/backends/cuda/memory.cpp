#include "backends/cuda/memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tutti::cuda {

Status activate(int device) {
  thread_local int current = -1;
  if (current == device) return {};
  TUTTI_CUDA(cudaSetDevice(device));
  current = device;
  return {};
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::allocate(int device, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(device));
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, std::max<std::size_t>(bytes, 256));
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return to_status(error, "cudaMalloc").with_context(str_cat(bytes, " bytes on GPU ", device));
  }
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(device, data, bytes));
}

DeviceMemory::~DeviceMemory() {
  (void)activate(device_);
  (void)cudaFree(data_);
}

Result<std::unique_ptr<Event>> Event::create(bool has_time) {
  cudaEvent_t event = nullptr;
  TUTTI_CUDA(
      cudaEventCreateWithFlags(&event, has_time ? cudaEventDefault : cudaEventDisableTiming));
  return std::unique_ptr<Event>(new Event(event));
}

Status wait_for(cudaEvent_t event) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kEager{2000};
  constexpr std::chrono::microseconds kPause{50};
  const Clock::time_point start = Clock::now();
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state != cudaErrorNotReady) return to_status(state, "cudaEventQuery");
    // It stays as the thread's last error, which cuBLASLt would take for one of its own launches.
    (void)cudaGetLastError();
    if (Clock::now() - start < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

Result<std::shared_ptr<std::byte>> allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 64), cudaHostAllocPortable);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return to_status(error, "cudaHostAlloc").with_context(str_cat(bytes, " pinned bytes"));
  }
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                    [](std::byte* data) { (void)cudaFreeHost(data); });
}

Result<MemoryFacts> facts_of(const void* address) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, address);
  if (error == cudaErrorInvalidValue) {
    (void)cudaGetLastError();
    return MemoryFacts();  // not known to the driver
  }
  TUTTI_RETURN_IF_ERROR(to_status(error, "cudaPointerGetAttributes"));
  MemoryFacts facts;
  facts.is_device = attributes.type == cudaMemoryTypeDevice;
  facts.is_pinned =
      attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeManaged;
  facts.device = attributes.device;
  return facts;
}

Result<std::unique_ptr<Staging>> Staging::create(int threads) {
  std::unique_ptr<Staging> staging(new Staging);
  staging->threads_ = threads;
  for (auto& event : staging->free_) {
    TUTTI_ASSIGN_OR_RETURN(event, Event::create(false));
  }
  void* pinned = nullptr;
  TUTTI_CUDA(cudaMallocHost(&pinned, 2 * kHalf));
  staging->pinned_ = static_cast<std::byte*>(pinned);
  return staging;
}

Staging::~Staging() {
  if (pinned_ != nullptr) (void)cudaFreeHost(pinned_);
}

Status Staging::turn(cudaStream_t stream) {
  TUTTI_CUDA(cudaEventRecord(free_[current_]->get(), stream));
  current_ = 1 - current_;
  used_ = 0;
  return wait_for(free_[current_]->get());
}

namespace {

constexpr std::int64_t kGrain = std::int64_t{256} << 10;  // bytes a thread copies at a time

struct ParallelCopy {
  const RowCopy& rows;
  std::size_t piece;  // bytes of a row
  std::size_t pieces_per_row;

  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t row = static_cast<std::size_t>(i) / pieces_per_row;
      const std::size_t at = static_cast<std::size_t>(i) % pieces_per_row * piece;
      std::memcpy(static_cast<std::byte*>(rows.target) + row * rows.target_stride + at,
                  static_cast<const std::byte*>(rows.source) + row * rows.source_stride + at,
                  std::min(piece, rows.row_bytes - at));
    }
  }
};

}  // namespace

void Staging::copy(const RowCopy& rows) {
  if (rows.row_bytes == 0 || rows.rows == 0) return;
  ParallelCopy copy{rows, std::min(rows.row_bytes, static_cast<std::size_t>(kGrain)), 1};
  copy.pieces_per_row = (rows.row_bytes + copy.piece - 1) / copy.piece;
  const auto pieces = static_cast<std::int64_t>(rows.rows * copy.pieces_per_row);
  const auto grain = std::max<std::int64_t>(1, kGrain / static_cast<std::int64_t>(copy.piece));
  if (pieces <= 4 * grain || threads_ == 1) return copy.run(0, pieces);
  if (pool_ == nullptr) pool_ = std::make_unique<ThreadPool>(threads_);
  pool_->parallel_for(pieces, grain,
                      [&copy](std::int64_t begin, std::int64_t end, int) { copy.run(begin, end); });
}

Status Staging::upload(cudaStream_t stream, void* target, const void* host, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(target);
  while (bytes > 0) {
    if (used_ == kHalf) TUTTI_RETURN_IF_ERROR(turn(stream));
    const std::size_t count = std::min(bytes, kHalf - used_);
    copy(half(current_) + used_, from, count);
    TUTTI_CUDA(cudaMemcpyAsync(to, half(current_) + used_, count, cudaMemcpyHostToDevice, stream));
    // Steps of a cache line, so that copies stay aligned.
    used_ = std::min(kHalf, (used_ + count + 63) / 64 * 64);
    from += count;
    to += count;
    bytes -= count;
  }
  return {};
}

Status Staging::upload_rows(cudaStream_t stream, const RowCopy& rows) {
  const auto* from = static_cast<const std::byte*>(rows.source);
  auto* to = static_cast<std::byte*>(rows.target);
  if (rows.row_bytes == rows.source_stride && rows.row_bytes == rows.target_stride) {
    return upload(stream, to, from, rows.rows * rows.row_bytes);
  }
  if (rows.row_bytes > kHalf / 2) {
    for (std::size_t row = 0; row < rows.rows; ++row) {
      TUTTI_RETURN_IF_ERROR(upload(stream, to + row * rows.target_stride,
                                   from + row * rows.source_stride, rows.row_bytes));
    }
    return {};
  }
  for (std::size_t row = 0; row < rows.rows;) {
    if (kHalf - used_ < rows.row_bytes) TUTTI_RETURN_IF_ERROR(turn(stream));
    const std::size_t count =
        std::min(rows.rows - row, std::max<std::size_t>(1, (kHalf - used_) / rows.row_bytes));
    std::byte* packed = half(current_) + used_;
    copy({packed, rows.row_bytes, from + row * rows.source_stride, rows.source_stride,
          rows.row_bytes, count});
    TUTTI_CUDA(cudaMemcpy2DAsync(to + row * rows.target_stride, rows.target_stride, packed,
                                 rows.row_bytes, rows.row_bytes, count, cudaMemcpyHostToDevice,
                                 stream));
    used_ = std::min(kHalf, (used_ + count * rows.row_bytes + 63) / 64 * 64);
    row += count;
  }
  return {};
}

Status Staging::download(cudaStream_t stream, void* host, const void* source, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(host);
  // One half is copied out while the other one is filled.
  TUTTI_RETURN_IF_ERROR(turn(stream));
  std::size_t waiting = 0;  // bytes in the half before the current one
  while (bytes > 0 || waiting > 0) {
    const std::size_t count = std::min(bytes, kHalf);
    if (count > 0) {
      TUTTI_CUDA(cudaMemcpyAsync(half(current_), from, count, cudaMemcpyDeviceToHost, stream));
      TUTTI_CUDA(cudaEventRecord(free_[current_]->get(), stream));
      from += count;
      bytes -= count;
    }
    if (waiting > 0) {
      TUTTI_RETURN_IF_ERROR(wait_for(free_[1 - current_]->get()));
      copy(to, half(1 - current_), waiting);
      to += waiting;
    }
    waiting = count;
    current_ = 1 - current_;
  }
  used_ = 0;
  return {};
}

}  // namespace tutti::cuda
