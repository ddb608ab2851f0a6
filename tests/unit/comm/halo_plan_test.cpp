// The windows of pieces, position by position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "comm/copy.h"
#include "comm/transfer_plan.h"
#include "graph/dim.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<std::int32_t>;

constexpr std::int64_t kOuter = 2;
constexpr std::int64_t kInner = 3;
constexpr std::int32_t kUnread = -1;
constexpr std::int32_t kFilled = -2;

struct Case {
  std::int64_t size = 0;  // rows of the operand
  std::int64_t from_units = 0;
  std::int64_t units = 0;  // of the result
  PieceWindow window = {};
  int ranks = 1;

  std::string to_string() const {
    return str_cat(size, " rows in ", from_units, " units, read by ", window.rows, " rows in ",
                   units, " units, stride ", window.stride, ", offset ", window.offset, ", extent ",
                   window.extent, ", edge ", window_edge_name(window.edge), ", ", ranks, " ranks");
  }
};

// What stands at a position outside, walking back step by step.
std::int64_t row_by_walking(WindowEdge edge, std::int64_t at, std::int64_t size) {
  std::int64_t row = 0;
  std::int64_t direction = 1;
  if (edge == WindowEdge::kEdge) return std::clamp<std::int64_t>(at, 0, size - 1);
  for (std::int64_t i = 0; i != at; i += at > 0 ? 1 : -1) {
    std::int64_t next = row + (at > 0 ? direction : -direction);
    if (next < 0 || next >= size) {
      if (edge == WindowEdge::kZero || edge == WindowEdge::kLowest) return -1;
      if (edge == WindowEdge::kWrap) {
        next = next < 0 ? size - 1 : 0;
      } else {
        direction = -direction;
        next = size == 1 ? 0 : row + (at > 0 ? direction : -direction);
      }
    }
    row = next;
  }
  return row;
}

// By position in the piece of `rank`: the operand's row there, kUnread or kFilled.
Ints window_rows(const Case& c, int rank) {
  const PieceWindow& w = c.window;
  const std::int64_t unit = w.rows / c.units;
  const std::int64_t begin = part_offset(c.units, c.ranks, rank) * unit;
  const std::int64_t count = part_size(c.units, c.ranks, rank) * unit;
  Ints rows(
      static_cast<std::size_t>(count * w.stride + std::max<std::int64_t>(0, w.extent - w.stride)),
      kUnread);
  for (std::int64_t i = begin; i < begin + count; ++i) {
    for (std::int64_t j = 0; j < w.extent; ++j) {
      const std::int64_t row = row_by_walking(w.edge, i * w.stride + w.offset + j, c.size);
      rows[static_cast<std::size_t>((i - begin) * w.stride + j)] =
          row < 0 ? kFilled : static_cast<std::int32_t>(row);
    }
  }
  return rows;
}

// [outer, rows, inner] with the number of the element in the whole, or what stands in `rows`.
Ints elements(const Ints& rows, std::int64_t size) {
  Ints out;
  for (std::int64_t o = 0; o < kOuter; ++o) {
    for (const std::int32_t row : rows) {
      for (std::int64_t i = 0; i < kInner; ++i) {
        out.push_back(row < 0 ? row : static_cast<std::int32_t>((o * size + row) * kInner + i));
      }
    }
  }
  return out;
}

void fill(const Region& region, Ints* target) {
  const Region source = {0, 0, region.sizes, Dims(region.sizes.size(), 0), region.run};
  const Ints number(static_cast<std::size_t>(region.run / 4), kFilled);
  copy_region(source, number.data(), region, target->data());
}

void check(const Case& c) {
  const Dims dims{kOuter, c.size, kInner};
  const PieceSplit from{1, c.from_units, 1};
  const PieceSplit to{1, c.units, 1, c.window};
  std::vector<TransferPlan> plans;
  std::vector<std::set<std::int32_t>> held(static_cast<std::size_t>(c.ranks));
  std::vector<Ints> sources;
  for (int rank = 0; rank < c.ranks; ++rank) {
    auto plan = halo_plan(dims, 4, from, to, c.ranks, rank);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    plans.push_back(*std::move(plan));
    Ints rows(
        static_cast<std::size_t>(part_size(c.from_units, c.ranks, rank) * (c.size / c.from_units)));
    std::iota(rows.begin(), rows.end(),
              part_offset(c.from_units, c.ranks, rank) * (c.size / c.from_units));
    held[static_cast<std::size_t>(rank)].insert(rows.begin(), rows.end());
    sources.push_back(elements(rows, c.size));
  }
  std::int64_t lacking = 0;
  std::int64_t sent = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const Ints rows = window_rows(c, rank);
    ASSERT_EQ(piece_dims(dims, to, c.ranks, rank), (Dims{kOuter, std::ssize(rows), kInner}));
    Ints target(elements(rows, c.size).size(), kUnread);
    for (std::size_t peer = 0; peer < plans.size(); ++peer) {
      const auto& out = plans[peer].exchange.send[r];
      const auto& in = plans[r].exchange.receive[peer];
      ASSERT_EQ(out.size(), in.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(out[i].sizes, in[i].sizes);
        ASSERT_EQ(out[i].run, in[i].run);
        copy_region(out[i], sources[peer].data(), in[i], target.data());
      }
    }
    for (const LocalCopy& copy : plans[r].copies) {
      copy_region(copy.from, target.data(), copy.to, target.data());
    }
    for (const Region& region : plans[r].fills) fill(region, &target);
    ASSERT_EQ(target, elements(rows, c.size)) << "rank " << rank;
    std::set<std::int32_t> needed(rows.begin(), rows.end());
    for (const std::int32_t row : needed) lacking += row >= 0 && !held[r].contains(row) ? 1 : 0;
    sent += plans[r].exchange.sent_bytes(rank);
  }
  EXPECT_EQ(sent, lacking * kOuter * kInner * 4) << "more travels than ranks lack";
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) out.push_back(d);
  }
  return out;
}

TEST(HaloPlan, ConvolutionsOfAllGeometriesReadTheirRows) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const std::int64_t size : {1, 2, 5, 8, 13}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t extent : {1, 2, 3, 5, 9}) {
          for (const std::int64_t pad : {0, 1, 4}) {
            const std::int64_t rows = (size + 2 * pad - extent) / stride + 1;
            if (size + 2 * pad < extent) continue;
            for (const std::int64_t units : {std::int64_t{1}, rows}) {
              const Case c{size, size, units, {rows, stride, -pad, extent}, ranks};
              SCOPED_TRACE(c.to_string());
              check(c);
              if (testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(HaloPlan, RandomWindowsWithEveryEdgeAndAnyUnits) {
  std::mt19937 random(7);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const auto one_of = [&](const std::vector<std::int64_t>& list) {
    return list[static_cast<std::size_t>(pick(0, std::ssize(list) - 1))];
  };
  for (int i = 0; i < 3000; ++i) {
    Case c;
    c.size = pick(1, 24);
    c.ranks = static_cast<int>(pick(1, 9));
    c.window.rows = pick(1, 24);
    c.window.stride = pick(1, 3);
    c.window.offset = pick(-9, 12);
    c.window.extent = pick(1, 6);
    c.window.edge = static_cast<WindowEdge>(pick(0, 4));
    c.from_units = one_of(divisors(c.size));
    c.units = one_of(divisors(c.window.rows));
    SCOPED_TRACE(c.to_string());
    check(c);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(HaloPlan, AWindowLongerThanANeighboursPieceTakesFromSeveralRanks) {
  // 4 rows over 4 ranks, kernel 5: the first rank needs rows of the next two.
  const auto plan = halo_plan({4}, 4, {0, 4, 1}, {0, 4, 1, PieceWindow{4, 1, -2, 5}}, 4, 0);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  for (int peer = 0; peer < 4; ++peer) {
    EXPECT_EQ(plan->exchange.receive[static_cast<std::size_t>(peer)].size(), peer < 3 ? 1U : 0U);
  }
  EXPECT_EQ(plan->fills.size(), 1U);
}

TEST(HaloPlan, RefusesWhatIsNoWindow) {
  EXPECT_THAT(halo_plan({8}, 4, {0, 8, 1}, {0, 3, 1, PieceWindow{8}}, 2, 0).status().message(),
              HasSubstr("cannot be cut into 3 equal units"));
  EXPECT_THAT(halo_plan({8}, 4, {0, 8, 1}, {0, 8, 1}, 2, 0).status().message(),
              HasSubstr("read through windows"));
  const PieceSplit windowed{0, 8, 1, PieceWindow{8, 1, -1, 3}};
  EXPECT_THAT(halo_plan({8}, 4, windowed, windowed, 2, 0).status().message(), HasSubstr("overlap"));
}

}  // namespace
}  // namespace tutti
