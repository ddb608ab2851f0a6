#include "capture.h"

#include <algorithm>

namespace tutti::cuda_emulator {
namespace {

// All nodes that come before those of `last`, and those.
std::set<int> with_all_before(const GraphNodes& nodes, const std::set<int>& last) {
  std::set<int> all;
  std::vector<int> open(last.begin(), last.end());
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (!all.insert(node).second) continue;
    const std::set<int>& before = nodes[static_cast<std::size_t>(node)].after;
    open.insert(open.end(), before.begin(), before.end());
  }
  return all;
}

void leave(Stream& stream) {
  stream.capture = nullptr;
  stream.frontier.clear();
}

}  // namespace

cudaError_t begin_capture(Stream& stream) {
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture->members.insert(&stream);
  return cudaSuccess;
}

cudaError_t end_capture(Stream& stream, GraphNodes* nodes) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != &stream) return cudaErrorStreamCaptureUnmatched;
  cudaError_t result = capture->broken;
  const std::set<int> done = with_all_before(capture->nodes, stream.frontier);
  for (Stream* member : capture->members) {
    if (result == cudaSuccess && !std::includes(done.begin(), done.end(), member->frontier.begin(),
                                                member->frontier.end())) {
      result = cudaErrorStreamCaptureUnjoined;
    }
    leave(*member);
  }
  if (result == cudaSuccess) *nodes = std::move(capture->nodes);
  return result;
}

void add_work(Stream& stream, Step step) {
  if (stream.capture == nullptr) return Machine::get().add(stream, std::move(step));
  GraphNodes& nodes = stream.capture->nodes;
  nodes.push_back({std::move(step), std::move(stream.frontier)});
  stream.frontier = {static_cast<int>(nodes.size()) - 1};
}

cudaError_t record_event(Stream& stream, Event& event) {
  if (stream.device != event.device) return cudaErrorInvalidResourceHandle;
  event.capture = stream.capture;
  event.frontier = stream.frontier;
  event.marker = nullptr;
  if (stream.capture != nullptr) return cudaSuccess;
  event.marker = std::make_shared<Marker>();
  Machine::get().add(stream, {"an event", nullptr, 0, nullptr, event.marker});
  return cudaSuccess;
}

cudaError_t wait_for_event(Stream& stream, Event& event) {
  if (event.capture == nullptr) {
    if (stream.capture != nullptr && event.marker != nullptr) {
      // Work outside of the capture.
      stream.capture->broken = cudaErrorStreamCaptureInvalidated;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event.marker != nullptr) {
      Machine::get().add(stream, {"a wait for an event", nullptr, 0, event.marker, nullptr});
    }
    return cudaSuccess;
  }
  if (!event.capture->members.contains(event.capture->origin) ||
      event.capture->origin->capture != event.capture) {
    return cudaErrorCapturedEvent;  // of a capture that is over
  }
  if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->broken = event.capture->broken = cudaErrorStreamCaptureInvalidated;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.capture->members.insert(&stream);
  }
  stream.frontier.insert(event.frontier.begin(), event.frontier.end());
  return cudaSuccess;
}

void leave_capture(Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->broken = cudaErrorStreamCaptureInvalidated;
  stream.capture->members.erase(&stream);
  leave(stream);
}

std::string run_graph(const GraphNodes& nodes, Machine& machine) {
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::vector<std::size_t>> next(nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const int before : nodes[i].after) next[static_cast<std::size_t>(before)].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[machine.random()() % ready.size()], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    const std::string wrong = machine.run(nodes[node].step);
    if (!wrong.empty()) return "graph: " + wrong;
    for (const std::size_t i : next[node]) {
      if (--missing[i] == 0) ready.push_back(i);
    }
  }
  return "";
}

}  // namespace tutti::cuda_emulator
