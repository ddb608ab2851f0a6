#include "backends/cuda/recording.h"

#include <utility>

namespace tutti::cuda {
namespace {

Result<cudaGraphExec_t> make_executable(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  TUTTI_RETURN_IF_ERROR(to_status(made, "cudaGraphInstantiate"));
  return executable;
}

cudaEvent_t to_event(std::uint64_t word) { return reinterpret_cast<cudaEvent_t>(word); }

}  // namespace

SharedCapture::~SharedCapture() {
  give_up();
  if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
}

Status SharedCapture::begin() {
  // Relaxed: several threads take part, and any of them may have to give it up.
  TUTTI_CUDA(cudaStreamBeginCapture(origin_, cudaStreamCaptureModeRelaxed));
  state_ = State::kOpen;
  return {};
}

Status SharedCapture::check() const {
  if (state_ == State::kOpen || state_ == State::kEnded) return {};
  return Status(StatusCode::kCancelled, "another rank has given up recording");
}

Status SharedCapture::end() {
  TUTTI_RETURN_IF_ERROR(check());
  cudaGraph_t graph = nullptr;
  state_ = State::kGivenUp;  // unless all goes well
  TUTTI_CUDA(cudaStreamEndCapture(origin_, &graph));
  TUTTI_ASSIGN_OR_RETURN(executable_, make_executable(graph));
  state_ = State::kEnded;
  return {};
}

void SharedCapture::give_up() {
  if (state_ != State::kOpen) return;
  state_ = State::kGivenUp;
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(origin_, &graph);
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();  // streams that have not joined again: to be expected
}

std::uint64_t SharedCaptures::add(std::shared_ptr<SharedCapture> capture) {
  const std::lock_guard lock(mutex_);
  open_[++last_] = std::move(capture);
  return last_;
}

std::shared_ptr<SharedCapture> SharedCaptures::find(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto it = open_.find(number);
  return it == open_.end() ? nullptr : it->second;
}

void SharedCaptures::remove(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  open_.erase(number);
}

// The graph of all ranks. Rank 0 launches it when all are ready, and all wait for its end.
class SharedRecording final : public Recording {
 public:
  SharedRecording(Recorder& recorder, std::shared_ptr<SharedCapture> capture)
      : recorder_(recorder), capture_(std::move(capture)) {}

  Status replay() override {
    Communicator* group = recorder_.group_;
    const cudaStream_t stream = recorder_.stream_;
    const cudaEvent_t event = recorder_.event_->get();
    if (group == nullptr) {
      return to_status(cudaGraphLaunch(capture_->executable(), stream), "cudaGraphLaunch");
    }
    TUTTI_CUDA(cudaEventRecord(event, stream));
    TUTTI_RETURN_IF_ERROR(recorder_.tell(reinterpret_cast<std::uint64_t>(event)));
    if (group->rank() == 0) {
      for (std::size_t peer = 1; peer < recorder_.all_.size(); ++peer) {
        TUTTI_CUDA(cudaStreamWaitEvent(stream, to_event(recorder_.all_[peer]), 0));
      }
      TUTTI_CUDA(cudaGraphLaunch(capture_->executable(), stream));
      TUTTI_CUDA(cudaEventRecord(event, stream));
    }
    TUTTI_RETURN_IF_ERROR(recorder_.tell(reinterpret_cast<std::uint64_t>(event)));
    if (group->rank() == 0) return {};
    return to_status(cudaStreamWaitEvent(stream, to_event(recorder_.all_[0]), 0),
                     "cudaStreamWaitEvent");
  }

 private:
  Recorder& recorder_;  // outlives its recordings
  const std::shared_ptr<SharedCapture> capture_;
};

Status Recorder::set_up(int device, cudaStream_t stream, Communicator* group,
                        SharedCaptures* captures) {
  device_ = device;
  stream_ = stream;
  group_ = group;
  captures_ = captures;
  all_.resize(group == nullptr ? 1 : static_cast<std::size_t>(group->size()));
  TUTTI_ASSIGN_OR_RETURN(event_, Event::create(false));
  return {};
}

Status Recorder::tell(std::uint64_t mine) {
  return group_->gather(&mine, all_.data(), sizeof mine);
}

Status Recorder::begin() {
  if (group_ != nullptr && group_->rank() != 0) return join_shared();
  auto capture = std::make_shared<SharedCapture>(stream_);
  std::unique_lock turn(capture->turn);
  TUTTI_RETURN_IF_ERROR(capture->begin());
  capture_ = std::move(capture);
  turn_ = std::move(turn);
  return group_ == nullptr ? Status() : begin_shared();
}

Status Recorder::begin_shared() {
  TUTTI_CUDA(cudaEventRecord(event_->get(), stream_));
  number_ = captures_->add(capture_);
  return wait([&]() -> Status {
    TUTTI_RETURN_IF_ERROR(tell(number_));
    return tell(reinterpret_cast<std::uint64_t>(event_->get()));
  });
}

Status Recorder::join_shared() {
  TUTTI_RETURN_IF_ERROR(tell(0));
  std::shared_ptr<SharedCapture> capture = captures_->find(all_[0]);
  if (capture == nullptr) {
    return Status(StatusCode::kCancelled, "another rank has given up recording");
  }
  TUTTI_RETURN_IF_ERROR(tell(0));
  std::unique_lock turn(capture->turn);
  TUTTI_RETURN_IF_ERROR(capture->check());
  TUTTI_CUDA(cudaStreamWaitEvent(stream_, to_event(all_[0]), 0));
  capture_ = std::move(capture);
  turn_ = std::move(turn);
  return {};
}

Result<std::unique_ptr<Recording>> Recorder::end() {
  if (capture_ == nullptr) return internal_error("cuda: no recording to end");
  if (group_ != nullptr) {
    if (group_->rank() != 0) TUTTI_CUDA(cudaEventRecord(event_->get(), stream_));
    TUTTI_RETURN_IF_ERROR(
        wait([&] { return tell(reinterpret_cast<std::uint64_t>(event_->get())); }));
  }
  if (group_ == nullptr || group_->rank() == 0) {
    for (std::size_t peer = 1; peer < all_.size(); ++peer) {
      TUTTI_CUDA(cudaStreamWaitEvent(stream_, to_event(all_[peer]), 0));
    }
    TUTTI_RETURN_IF_ERROR(capture_->end());
    captures_->remove(std::exchange(number_, 0));
  }
  // Nobody goes on before rank 0 has ended it: until then the streams belong to the capture.
  if (group_ != nullptr) TUTTI_RETURN_IF_ERROR(wait([&] { return tell(0); }));
  turn_.unlock();
  return std::unique_ptr<Recording>(
      std::make_unique<SharedRecording>(*this, std::exchange(capture_, nullptr)));
}

void Recorder::drop() {
  if (capture_ == nullptr) return;
  if (!turn_.owns_lock()) turn_.lock();
  capture_->give_up();
  turn_.unlock();
  if (number_ != 0) captures_->remove(std::exchange(number_, 0));
  capture_ = nullptr;
}

}  // namespace tutti::cuda
