#include "backends/cuda/exchange.h"

#include <algorithm>

#include "backends/cuda/recording.h"

namespace tutti::cuda {

Meeting::Meeting(RankContext& context, std::shared_ptr<Communicator> communicator,
                 std::size_t buffers)
    : context_(context),
      communicator_(std::move(communicator)),
      words_(kFirstBuffer + buffers),
      mine_(words_) {
  all_.resize(words_ * static_cast<std::size_t>(size()));
  taken_.resize(static_cast<std::size_t>(size()));
}

Status reach_device(RankContext& context, int device) {
  std::vector<int>& reached = context.reached_devices;
  if (device == context.device ||
      std::find(reached.begin(), reached.end(), device) != reached.end()) {
    return {};
  }
  int can = 0;
  TUTTI_CUDA(cudaDeviceCanAccessPeer(&can, context.device, device));
  if (can == 0) {
    return unimplemented("cuda: GPU ", context.device, " cannot reach the memory of GPU ", device,
                         "; TUTTI_CUDA_EXCHANGE=nccl goes another way");
  }
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(device, 0);
  if (enabled != cudaErrorPeerAccessAlreadyEnabled) {
    TUTTI_RETURN_IF_ERROR(to_status(enabled, "cudaDeviceEnablePeerAccess"));
  } else {
    (void)cudaGetLastError();
  }
  reached.push_back(device);
  return {};
}

Status Meeting::open(std::span<const void* const> mine) {
  mine_[0] = static_cast<std::uint64_t>(context_.device);
  mine_[1] = reinterpret_cast<std::uint64_t>(context_.events.ready->get());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine_[kFirstBuffer + i] = reinterpret_cast<std::uint64_t>(mine[i]);
  }
  if (communicator_ == nullptr) {
    all_ = mine_;
    return {};
  }
  TUTTI_CUDA(cudaEventRecord(context_.events.ready->get(), context_.stream));
  TUTTI_RETURN_IF_ERROR(context_.recorder->wait([&] {
    return communicator_->gather(mine_.data(), all_.data(), words_ * sizeof(std::uint64_t));
  }));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const std::uint64_t* theirs = all_.data() + static_cast<std::size_t>(peer) * words_;
    TUTTI_RETURN_IF_ERROR(reach_device(context_, static_cast<int>(theirs[0])));
    TUTTI_CUDA(cudaStreamWaitEvent(context_.stream, reinterpret_cast<cudaEvent_t>(theirs[1]), 0));
  }
  return {};
}

Status Meeting::close() {
  if (communicator_ == nullptr) return {};
  TUTTI_CUDA(cudaEventRecord(context_.events.taken->get(), context_.stream));
  const auto mine = reinterpret_cast<std::uint64_t>(context_.events.taken->get());
  TUTTI_RETURN_IF_ERROR(context_.recorder->wait(
      [&] { return communicator_->gather(&mine, taken_.data(), sizeof mine); }));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const auto event = reinterpret_cast<cudaEvent_t>(taken_[static_cast<std::size_t>(peer)]);
    TUTTI_CUDA(cudaStreamWaitEvent(context_.stream, event, 0));
  }
  return {};
}

void Meeting::add_sent(std::int64_t bytes) {
  if (communicator_ != nullptr) communicator_->add_sent(bytes);
}

namespace {

constexpr std::size_t kBoxDims = 4;

// The widest word that everything about the boxes is a multiple of.
std::int64_t common_word(const std::vector<BoxCopies::Box>& boxes) {
  std::int64_t word = 16;
  const auto limit = [&](std::int64_t bytes) {
    while (bytes % word != 0) word /= 2;
  };
  for (const BoxCopies::Box& box : boxes) {
    for (const Region* region : {&box.from, &box.to}) {
      limit(static_cast<std::int64_t>(region->offset));
      limit(region->run);
      for (const std::int64_t stride : region->strides) limit(stride);
    }
  }
  return word;
}

void append_box(const BoxCopies::Box& box, std::int64_t word, std::int64_t first_block,
                std::int64_t blocks, std::vector<std::int64_t>* words) {
  words->insert(words->end(), {box.source, static_cast<std::int64_t>(box.from.offset) / word,
                               box.target, static_cast<std::int64_t>(box.to.offset) / word,
                               box.from.byte_size() / word, box.from.run / word});
  const auto append = [&](const std::vector<std::int64_t>& values, std::int64_t unit,
                          std::int64_t fallback) {
    words->insert(words->end(), kBoxDims - values.size(), fallback);
    for (const std::int64_t value : values) words->push_back(value / unit);
  };
  append(box.from.sizes, 1, 1);
  append(box.from.strides, word, 0);
  append(box.to.strides, word, 0);
  words->insert(words->end(), {first_block, blocks});
}

}  // namespace

Result<BoxCopies> BoxCopies::create(RankContext& context, const std::vector<Box>& given,
                                    std::size_t buffers) {
  BoxCopies copies;
  std::vector<Box> boxes;
  for (const Box& box : given) {
    if (box.from.byte_size() > 0) boxes.push_back(box);
  }
  if (boxes.empty()) return copies;
  const std::int64_t word = common_word(boxes);
  std::int64_t largest = 0;
  std::int64_t total = 0;
  std::size_t most_dims = 0;
  for (const Box& box : boxes) {
    const std::size_t rank = box.from.sizes.size();
    if (rank > kBoxDims) {
      return unimplemented("an exchange of boxes with ", rank,
                           " strided dimensions, expected at most ", kBoxDims);
    }
    largest = std::max(largest, box.from.byte_size() / word);
    total += box.from.byte_size() / word;
    most_dims = std::max(most_dims, rank);
  }
  // Four on each multiprocessor, so that all boxes are on their way together.
  const std::int64_t blocks = grid_for(context, total).blocks / 4;
  std::vector<std::int64_t> words;
  std::vector<std::int64_t> box_words;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::int64_t first = std::ssize(words);
    const std::int64_t share =
        std::max<std::int64_t>(1, blocks * (boxes[i].from.byte_size() / word) / total);
    words.insert(words.end(), static_cast<std::size_t>(share), static_cast<std::int64_t>(i));
    append_box(boxes[i], word, first, share, &box_words);
  }
  Grid grid;
  grid.blocks = std::ssize(words);
  words.insert(words.end(), box_words.begin(), box_words.end());
  KernelSource source;
  source.entry = "copy_boxes";
  source.files = {"boxes.cuh"};
  define_index(needs_wide_index({largest}), &source);
  source.defines.emplace_back("WORD", std::to_string(word));
  source.defines.emplace_back("BUFFERS", std::to_string(buffers));
  source.defines.emplace_back("DIMS", std::to_string(most_dims));
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel, GeneratedKernel::create(context, std::move(source),
                                                                         buffers + 1, {}, grid));
  copies.kernel_.push_back(std::move(kernel));
  TUTTI_ASSIGN_OR_RETURN(copies.boxes_,
                         context.place(words.data(), words.size() * sizeof words[0]));
  return copies;
}

Status BoxCopies::run(std::span<const void*> addresses) {
  if (kernel_.empty()) return {};
  addresses.back() = boxes_->data();
  return kernel_.front().run(addresses);
}

}  // namespace tutti::cuda
