// One message between streams of two devices: what NCCL's send and receive come to.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace tutti::cuda_emulator {

struct Capture;
struct Marker;

// Sender and receiver share it; whichever comes first waits for the other on its stream.
struct Mail {
  Mail();
  std::shared_ptr<Marker> sent;
  std::vector<std::byte> content;
  // In a capture, in which both have to be: their nodes.
  std::shared_ptr<Capture> capture;
  int send_node = -1;
  int receive_node = -1;
};

cudaError_t add_send(cudaStream_t stream, const std::shared_ptr<Mail>& mail, const void* data,
                     std::size_t bytes);
// The device finds a message of another size.
cudaError_t add_receive(cudaStream_t stream, const std::shared_ptr<Mail>& mail, void* data,
                        std::size_t bytes);
// Nobody waits for it any more.
void give_up(const Mail& mail);

}  // namespace tutti::cuda_emulator
