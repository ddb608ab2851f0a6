#include "backends/cuda/transfer.h"

#include <algorithm>

#include "backends/cuda/recording.h"

namespace tutti::cuda {
namespace {

std::size_t index_of(int buffer) { return static_cast<std::size_t>(buffer); }

Status check_counts(const std::vector<TransferPlan>& plans, std::size_t sender,
                    std::size_t receiver) {
  const std::size_t sent = plans[sender].exchange.send[receiver].size();
  const std::size_t expected = plans[receiver].exchange.receive[sender].size();
  if (sent == expected) return {};
  return internal_error("exchange: rank ", sender, " sends ", sent, " regions, rank ", receiver,
                        " expects ", expected);
}

// The same box without gaps, at `offset`.
Region packed(const Region& region, std::size_t offset) {
  Region dense = region;
  dense.offset = offset;
  std::int64_t stride = region.run;
  for (std::size_t d = region.sizes.size(); d-- > 0;) {
    dense.strides[d] = stride;
    stride *= region.sizes[d];
  }
  return dense;
}

std::size_t align_up(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

Result<PackedTransfer> PackedTransfer::create(RankContext& context,
                                              const std::shared_ptr<Communicator>& communicator,
                                              const std::vector<TransferPlan>& plans,
                                              std::size_t operands) {
  PackedTransfer transfer(context);
  transfer.communicator_ = communicator;
  std::shared_ptr<NcclComm>& nccl = context.nccl[communicator.get()];
  if (nccl == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(nccl, NcclComm::create(*communicator, context.device));
  }
  transfer.nccl_ = nccl;
  // Buffers: sources, targets, and the one for what is packed.
  const auto self = static_cast<std::size_t>(communicator->rank());
  const auto target = [&](int buffer) { return static_cast<int>(operands) + buffer; };
  const auto scratch = static_cast<int>(2 * operands);
  std::vector<BoxCopies::Box> pack;
  std::vector<BoxCopies::Box> unpack;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (std::size_t peer = 0; peer < plans.size(); ++peer) {
    TUTTI_RETURN_IF_ERROR(check_counts(plans, self, peer));
    TUTTI_RETURN_IF_ERROR(check_counts(plans, peer, self));
    const std::vector<Region>& send = plans[self].exchange.send[peer];
    const std::vector<Region>& receive = plans[self].exchange.receive[peer];
    if (peer == self) {
      for (std::size_t i = 0; i < send.size(); ++i) {
        pack.push_back({send[i], send[i].buffer, receive[i], target(receive[i].buffer)});
      }
      transfer.send_.emplace_back();
      transfer.receive_.emplace_back();
      offsets.insert(offsets.end(), {0, 0});
      continue;
    }
    offsets.push_back(bytes);
    for (const Region& region : send) {
      pack.push_back({region, region.buffer, packed(region, bytes), scratch});
      bytes += align_up(static_cast<std::size_t>(region.byte_size()));
    }
    transfer.send_.push_back({nullptr, bytes - offsets.back()});
    offsets.push_back(bytes);
    for (const Region& region : receive) {
      unpack.push_back({packed(region, bytes), scratch, region, target(region.buffer)});
      bytes += align_up(static_cast<std::size_t>(region.byte_size()));
    }
    transfer.receive_.push_back({nullptr, bytes - offsets.back()});
  }
  TUTTI_ASSIGN_OR_RETURN(transfer.pack_, BoxCopies::create(context, pack, 2 * operands + 1));
  TUTTI_ASSIGN_OR_RETURN(transfer.unpack_, BoxCopies::create(context, unpack, 2 * operands + 1));
  if (context.packed == nullptr || context.packed->size() < bytes) {
    TUTTI_ASSIGN_OR_RETURN(context.packed, DeviceMemory::allocate(context.device, bytes));
  }
  transfer.scratch_ = context.packed;
  auto* data = static_cast<std::byte*>(transfer.scratch_->data());
  for (std::size_t peer = 0; peer < plans.size(); ++peer) {
    transfer.send_[peer].data = data + offsets[2 * peer];
    transfer.receive_[peer].data = data + offsets[2 * peer + 1];
  }
  transfer.addresses_.resize(2 * operands + 2);
  return transfer;
}

Status PackedTransfer::run(std::span<const void* const> sources, std::span<void* const> targets) {
  auto next = std::copy(sources.begin(), sources.end(), addresses_.begin());
  next = std::copy(targets.begin(), targets.end(), next);
  *next = scratch_->data();
  TUTTI_RETURN_IF_ERROR(pack_.run(addresses_));
  // All are here, or none of them gives the device what would wait for the others.
  TUTTI_RETURN_IF_ERROR(context_->recorder->wait([&] { return communicator_->barrier(); }));
  TUTTI_RETURN_IF_ERROR(nccl_->exchange(send_, receive_, context_->stream));
  return unpack_.run(addresses_);
}

Result<Transfer> Transfer::create(RankContext& context, std::shared_ptr<Communicator> communicator,
                                  const std::vector<TransferPlan>& plans, std::size_t operands,
                                  const std::vector<bool>& elsewhere) {
  Transfer transfer(context, communicator, operands);
  const auto self = static_cast<std::size_t>(transfer.meeting_.rank());
  const std::size_t buffers = 2 * plans.size() * operands;
  std::vector<BoxCopies::Box> repeats;
  for (const LocalCopy& copy : plans[self].copies) {
    repeats.push_back({copy.from, transfer.target_of(self, index_of(copy.from.buffer)), copy.to,
                       transfer.target_of(self, index_of(copy.to.buffer))});
  }
  TUTTI_ASSIGN_OR_RETURN(transfer.repeats_, BoxCopies::create(context, repeats, buffers));
  transfer.addresses_.resize(buffers + 1);
  transfer.sent_bytes_ = plans[self].exchange.sent_bytes(static_cast<int>(self));
  if (communicator != nullptr && !context.is_dry && context.exchange_way == ExchangeWay::kNccl) {
    TUTTI_ASSIGN_OR_RETURN(transfer.packed_,
                           PackedTransfer::create(context, communicator, plans, operands));
    return transfer;
  }
  std::vector<BoxCopies::Box> moves;
  for (std::size_t i = 1; i <= plans.size(); ++i) {
    // Each rank begins with another peer, so that they do not all use the same link; its own piece
    // comes last.
    const std::size_t peer = (self + i) % plans.size();
    TUTTI_RETURN_IF_ERROR(transfer.add_moves(plans, transfer.pushes_ ? self : peer,
                                             transfer.pushes_ ? peer : self, elsewhere, &moves));
  }
  TUTTI_ASSIGN_OR_RETURN(transfer.moves_, BoxCopies::create(context, moves, buffers));
  return transfer;
}

Status Transfer::add_moves(const std::vector<TransferPlan>& plans, std::size_t sender,
                           std::size_t receiver, const std::vector<bool>& elsewhere,
                           std::vector<BoxCopies::Box>* moves) const {
  TUTTI_RETURN_IF_ERROR(check_counts(plans, sender, receiver));
  const std::vector<Region>& from = plans[sender].exchange.send[receiver];
  const std::vector<Region>& to = plans[receiver].exchange.receive[sender];
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!elsewhere.empty() && elsewhere[index_of(from[i].buffer)]) continue;
    moves->push_back({from[i], source_of(sender, index_of(from[i].buffer)), to[i],
                      target_of(receiver, index_of(to[i].buffer))});
  }
  return {};
}

Status Transfer::move(std::span<const void* const> sources, std::span<void* const> targets,
                      const Writer& writer) {
  const std::span<const void* const> outputs(targets.data(), targets.size());
  TUTTI_RETURN_IF_ERROR(meeting_.open(pushes_ ? outputs : sources));
  for (int rank = 0; rank < meeting_.size(); ++rank) {
    if (rank == meeting_.rank()) continue;
    const auto peer = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i < operands_; ++i) {
      const int place = pushes_ ? target_of(peer, i) : source_of(peer, i);
      addresses_[index_of(place)] = meeting_.buffer(rank, i);
    }
  }
  if (writer) {
    const std::span<const void* const> all(addresses_);
    const std::size_t buffers = static_cast<std::size_t>(meeting_.size()) * operands_;
    TUTTI_RETURN_IF_ERROR(writer(all.subspan(buffers, buffers)));
  }
  TUTTI_RETURN_IF_ERROR(moves_.run(addresses_));
  return meeting_.close();
}

Status Transfer::run(std::span<const void* const> sources, std::span<void* const> targets,
                     const Writer& writer) {
  const auto self = static_cast<std::size_t>(meeting_.rank());
  for (std::size_t i = 0; i < operands_; ++i) {
    addresses_[index_of(source_of(self, i))] = sources[i];
    addresses_[index_of(target_of(self, i))] = targets[i];
  }
  TUTTI_RETURN_IF_ERROR(packed_ ? packed_->run(sources, targets) : move(sources, targets, writer));
  meeting_.add_sent(sent_bytes_);
  return repeats_.run(addresses_);
}

}  // namespace tutti::cuda
