// Streams beside a rank's own, on which a kernel lets parts of its work overlap.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "backends/cuda/rank_context.h"

namespace tutti::cuda {

// Of one rank; its kernels use them one after the other, and leave them joined with its stream.
struct Lanes {
  static constexpr std::size_t kComputing = 2;
  static constexpr std::size_t kPieces = 8;

  ~Lanes();

  std::array<RankContext, kComputing> computing;
  RankContext exchanging;  // its kernels go first where they compete for the multiprocessors
  std::unique_ptr<Event> begun;
  std::unique_ptr<Event> ended;
  std::array<std::unique_ptr<Event>, kPieces> arrived;   // what a piece of work needs
  std::array<std::unique_ptr<Event>, kPieces> computed;  // by piece
};

// The rank's lanes, made when first asked for. With streams unless the rank is dry.
Result<Lanes*> lanes_of(RankContext& context);

// `waiting` goes on after all that `stream` has been asked for so far.
Status follow(cudaStream_t waiting, const Event& event, cudaStream_t stream);

}  // namespace tutti::cuda
