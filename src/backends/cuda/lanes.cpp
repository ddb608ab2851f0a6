#include "backends/cuda/lanes.h"

#include "backends/cuda/cudnn.h"
#include "backends/cuda/nccl.h"

namespace tutti::cuda {
namespace {

Status set_up(RankContext& lane, const RankContext& rank, int priority) {
  lane.device = rank.device;
  lane.rank = rank.rank;
  lane.arch = rank.arch;
  lane.multiprocessors = rank.multiprocessors;
  lane.shared_bytes = rank.shared_bytes;
  lane.is_dry = rank.is_dry;
  lane.compiler = rank.compiler;
  lane.blas = rank.blas;
  lane.cudnn = rank.cudnn;
  lane.tuner = rank.tuner;
  lane.communicators = rank.communicators;
  lane.axes = rank.axes;
  lane.exchange_way = rank.exchange_way;
  lane.fuses_exchanges = rank.fuses_exchanges;
  lane.recorder = rank.recorder;
  lane.staging = rank.staging;
  if (rank.is_dry) return {};
  TUTTI_CUDA(cudaStreamCreateWithPriority(&lane.stream, cudaStreamNonBlocking, priority));
  TUTTI_ASSIGN_OR_RETURN(lane.events.ready, Event::create(false));
  TUTTI_ASSIGN_OR_RETURN(lane.events.taken, Event::create(false));
  return {};
}

void tear_down(RankContext& lane) {
  lane.cudnn_handle.reset();  // before its stream
  if (lane.stream != nullptr) (void)cudaStreamDestroy(lane.stream);
}

}  // namespace

RankContext::RankContext() = default;
RankContext::~RankContext() = default;

Lanes::~Lanes() {
  for (RankContext& lane : computing) tear_down(lane);
  tear_down(exchanging);
}

Result<Lanes*> lanes_of(RankContext& context) {
  if (context.lanes != nullptr) return context.lanes.get();
  auto lanes = std::make_unique<Lanes>();
  int least = 0;
  int greatest = 0;
  if (!context.is_dry) TUTTI_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  for (RankContext& lane : lanes->computing) TUTTI_RETURN_IF_ERROR(set_up(lane, context, least));
  TUTTI_RETURN_IF_ERROR(set_up(lanes->exchanging, context, greatest));
  if (!context.is_dry) {
    TUTTI_ASSIGN_OR_RETURN(lanes->begun, Event::create(false));
    TUTTI_ASSIGN_OR_RETURN(lanes->ended, Event::create(false));
    for (std::size_t i = 0; i < Lanes::kPieces; ++i) {
      TUTTI_ASSIGN_OR_RETURN(lanes->arrived[i], Event::create(false));
      TUTTI_ASSIGN_OR_RETURN(lanes->computed[i], Event::create(false));
    }
  }
  context.lanes = std::move(lanes);
  return context.lanes.get();
}

Status follow(cudaStream_t waiting, const Event& event, cudaStream_t stream) {
  TUTTI_CUDA(cudaEventRecord(event.get(), stream));
  TUTTI_CUDA(cudaStreamWaitEvent(waiting, event.get(), 0));
  return {};
}

}  // namespace tutti::cuda
