#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tutti::cuda_emulator {
namespace {

int number_from(const char* variable, int fallback) {
  const char* given = std::getenv(variable);
  return given == nullptr ? fallback : std::max(1, std::atoi(given));
}

// Says which work of a device it was, then lets the process end as it would have.
void report_signal(int number, siginfo_t* info, void*) {
  std::signal(number, SIG_DFL);
  const Machine& machine = Machine::get();
  char text[512];
  const int length = std::snprintf(
      text, sizeof text, "[cuda emulator] %s at %p while the device does '%s'\n",
      number == SIGILL ? "a misaligned access"
                       : "an access to memory that is not there, or is not the host's",
      info->si_addr, machine.running().empty() ? "nothing" : machine.running().c_str());
  (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(std::min<int>(length, sizeof text)));
  // Returns to where it happened, and happens again.
}

void watch_signals() {
  struct sigaction action {};
  action.sa_sigaction = report_signal;
  action.sa_flags = SA_SIGINFO;
  for (const int number : {SIGSEGV, SIGBUS, SIGILL}) sigaction(number, &action, nullptr);
}

}  // namespace

Machine& Machine::get() {
  static Machine* machine = new Machine;  // outlives the thread that does the work
  return *machine;
}

Machine::Machine()
    : devices_(number_from("TUTTI_CUDA_EMULATOR_DEVICES", 2)),
      memory_(devices_),
      random_(static_cast<unsigned>(number_from("TUTTI_CUDA_EMULATOR_SEED", 1))) {
  for (int i = 0; i < devices_; ++i) {
    own_.push_back(std::make_unique<Stream>());
    own_.back()->device = i;
    streams_.insert(own_.back().get());
  }
  watch_signals();
  std::thread([this] { work(); }).detach();
}

Stream* Machine::stream(cudaStream_t handle, int device) {
  if (handle == nullptr) return own_[static_cast<std::size_t>(device)].get();
  auto* stream = reinterpret_cast<Stream*>(handle);
  return streams_.contains(stream) ? stream : nullptr;
}

Event* Machine::event(cudaEvent_t handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return events_.contains(event) ? event : nullptr;
}

cudaStream_t Machine::add_stream(int device) {
  auto* stream = new Stream;
  stream->device = device;
  streams_.insert(stream);
  return reinterpret_cast<cudaStream_t>(stream);
}

bool Machine::remove_stream(cudaStream_t handle) {
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (streams_.erase(stream) == 0) return false;
  // Its work is still done.
  if (is_idle(*stream)) {
    delete stream;
  } else {
    leaving_.insert(stream);
    demand();
  }
  return true;
}

cudaEvent_t Machine::add_event(int device, bool has_time) {
  auto* event = new Event;
  event->device = device;
  event->has_time = has_time;
  events_.insert(event);
  return reinterpret_cast<cudaEvent_t>(event);
}

bool Machine::remove_event(cudaEvent_t handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  if (events_.erase(event) == 0) return false;
  delete event;
  return true;
}

void Machine::add(Stream& stream, Step step) {
  stream.steps.push_back(std::move(step));
  if (is_demanded_) demanded_.notify_one();
}

void Machine::demand() {
  is_demanded_ = true;
  demanded_.notify_one();
}

void Machine::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_over) {
  while (!is_over()) {
    demand();
    changed_.wait(lock);
  }
}

bool Machine::is_device_idle(int device) const {
  const auto is_done = [&](const Stream* stream) {
    return stream->device != device || is_idle(*stream);
  };
  return std::all_of(streams_.begin(), streams_.end(), is_done) &&
         std::all_of(leaving_.begin(), leaving_.end(), is_done);
}

void Machine::fail(const std::string& what) {
  std::fprintf(stderr, "[cuda emulator] %s\n", what.c_str());
  if (failure_ == cudaSuccess) failure_ = cudaErrorLaunchFailure;
}

Stream* Machine::choose() {
  std::vector<Stream*> ready;
  for (const auto* all : {&streams_, &leaving_}) {
    for (Stream* stream : *all) {
      if (stream->steps.empty()) continue;
      const Step& next = stream->steps.front();
      if (next.after == nullptr || next.after->is_done) ready.push_back(stream);
    }
  }
  if (ready.empty()) return nullptr;
  return ready[random_() % ready.size()];
}

std::string Machine::run(const Step& step) {
  running_ = step.name;
  std::string wrong = step.work == nullptr ? "" : step.work();
  if (!wrong.empty()) wrong = step.name + ": " + wrong;
  running_.clear();
  return wrong;
}

void Machine::work() {
  memory_.open_devices();
  std::unique_lock lock(mutex_);
  for (;;) {
    Stream* stream = is_demanded_ ? choose() : nullptr;
    if (stream == nullptr) {
      is_demanded_ = false;
      changed_.notify_all();
      demanded_.wait(lock, [&] { return is_demanded_; });
      continue;
    }
    const Step step = std::move(stream->steps.front());
    stream->steps.pop_front();
    stream->is_busy = true;
    const bool is_sound = failure_ == cudaSuccess;
    lock.unlock();
    const std::string wrong = is_sound ? run(step) : "";
    lock.lock();
    if (!wrong.empty()) fail(wrong);
    stream->is_busy = false;
    if (step.after != nullptr) stream->seconds = std::max(stream->seconds, step.after->seconds);
    stream->seconds += step.seconds;
    if (step.marks != nullptr) *step.marks = {true, stream->seconds};
    if (is_idle(*stream) && leaving_.erase(stream) > 0) delete stream;
    changed_.notify_all();
  }
}

}  // namespace tutti::cuda_emulator
