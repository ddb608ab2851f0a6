#include "mail.h"

#include <cstring>

#include "capture.h"
#include "thread_state.h"

namespace tutti::cuda_emulator {
namespace {

// Gives the step to the stream; in a capture, tells the node's number.
cudaError_t add(cudaStream_t handle, const std::shared_ptr<Mail>& mail, bool is_send, Step step) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  Stream* stream = machine.stream(handle, thread_state().device);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (machine.failure() != cudaSuccess) return machine.failure();
  const std::shared_ptr<Capture> capture = stream->capture;
  add_work(*stream, std::move(step));
  if (capture == nullptr) return cudaSuccess;
  if (mail->capture != nullptr && mail->capture != capture) return cudaErrorStreamCaptureIsolation;
  mail->capture = capture;
  (is_send ? mail->send_node : mail->receive_node) = static_cast<int>(capture->nodes.size()) - 1;
  if (mail->send_node >= 0 && mail->receive_node >= 0) {
    capture->nodes[static_cast<std::size_t>(mail->receive_node)].after.insert(mail->send_node);
  }
  return cudaSuccess;
}

}  // namespace

Mail::Mail() : sent(std::make_shared<Marker>()) {}

cudaError_t add_send(cudaStream_t stream, const std::shared_ptr<Mail>& mail, const void* data,
                     std::size_t bytes) {
  const auto work = [mail, data, bytes]() -> std::string {
    const auto* first = static_cast<const std::byte*>(data);
    mail->content.assign(first, first + bytes);
    return "";
  };
  return add(stream, mail, true, {"a message that is sent", work, 1e-5, nullptr, mail->sent});
}

cudaError_t add_receive(cudaStream_t stream, const std::shared_ptr<Mail>& mail, void* data,
                        std::size_t bytes) {
  const auto work = [mail, data, bytes]() -> std::string {
    if (mail->content.size() != bytes) {
      return "it has " + std::to_string(mail->content.size()) + " bytes, expected " +
             std::to_string(bytes);
    }
    std::memcpy(data, mail->content.data(), bytes);
    return "";
  };
  return add(stream, mail, false, {"a message that is received", work, 1e-5, mail->sent, nullptr});
}

void give_up(const Mail& mail) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  mail.sent->is_done = true;
}

}  // namespace tutti::cuda_emulator
