// Attention on Hopper's matrix units, in one pass over the keys with a running maximum and sum
// (Milakov and Gimelshein 2018; Dao et al. 2022; warpgroups that take roles and turns: Shah et al.
// 2024, "FlashAttention-3"). A block has 192 queries of a head, 64 for each of three warpgroups; a
// fourth one has the copy engine bring keys and values, 128 at a time. While one warpgroup
// exponentiates, the others' products go on. Both blocks of a cluster attend to the same keys: each
// fetches half of them and the copy engine delivers it to both, since at a card's power limit what
// moves costs time. Blocks stay and take one tile of queries after the other. After hopper.cuh.
// Defined: D and E, elements of a head of queries and values, padded to WQ and WV (64 or 128);
// PLACES, the most that results may go to.
constexpr int WARPGROUPS = 3;
constexpr int TILE = 64 * WARPGROUPS;  // queries
constexpr int KEYS = 128;
constexpr int BLOCKS = 2;  // of a cluster
constexpr int PARTS = 4;   // of a tile of keys, whose products begin while others exponentiate
constexpr int QUERY_BYTES = TILE * WQ * 2;
constexpr int SLOT = KEYS * (WQ > WV ? WQ : WV) * 2;  // bytes of a tile of keys or values
constexpr int COLUMN = 64;  // elements of a row that lie side by side: 128 bytes
// A maximum stays while no score is above it by more than this power of two: sums and results are
// then scaled less often, and no more than this much larger.
constexpr float SLACK = 8;
constexpr float LEAST = -1.0f / 0.0f;

// Where the results of queries from the first on go, up to the next place's first.
struct Place {
  T* out;  // of the first query
  i64 batch, token;
  i64 first;
};
struct Arguments {
  TensorMap q, k, v;  // in boxes of 64 queries, of KEYS / BLOCKS keys; dims: element, token, head
  Place places[PLACES];
  i64 out_head;
  int batch, heads, kv_heads, queries, keys, offset;  // offset: keys in front of a causal diagonal
  float scale;
  int num_places;
};

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Tiles of queries in the order in which clusters take them: those of a key's heads in a row.
struct Tiles {
  int a_head, a_group, a_cluster, clusters;

  __device__ explicit Tiles(const Arguments& p) {
    a_head = (p.queries + TILE - 1) / TILE;
    a_group = p.heads / p.kv_heads;
    a_cluster = (a_head * a_group + BLOCKS - 1) / BLOCKS;  // clusters' tiles of a key's heads
    clusters = a_cluster * p.kv_heads * p.batch;
  }
};

struct Tile {
  int batch, kv_head, head, query;
  bool is_inside;  // else what is computed goes nowhere
  int key_tiles;   // that some query of the cluster sees

  __device__ Tile(const Arguments& p, const Tiles& tiles, int number, int block) {
    kv_head = number / tiles.a_cluster % p.kv_heads;
    batch = number / tiles.a_cluster / p.kv_heads;
    const int count = tiles.a_head * tiles.a_group;
    const int first = number % tiles.a_cluster * BLOCKS;
    is_inside = first + block < count;
    const int mine = min(first + block, count - 1);
    head = kv_head * tiles.a_group + mine / tiles.a_head;
    query = mine % tiles.a_head * TILE;
    key_tiles = (p.keys + KEYS - 1) / KEYS;
#if IS_CAUSAL
    int last = 0;
    for (int i = 0; i < BLOCKS; ++i) {
      last = max(last, min(first + i, count - 1) % tiles.a_head * TILE);
    }
    last = min(last + TILE, p.queries) + p.offset;
    key_tiles = min(key_tiles, (last + KEYS - 1) / KEYS);
#endif
  }
};

// Where things are in shared memory, and the next slot of the ring of keys and values.
struct Memory {
  u32 queries, ring, full_queries, empty_queries, full, empty;
  __device__ explicit Memory(u32 base) {
    queries = base;
    ring = queries + QUERY_BYTES;
    full_queries = ring + SLOTS * SLOT;
    empty_queries = full_queries + 8;
    full = empty_queries + 8;
    empty = full + 8 * SLOTS;
  }
};
struct Turn {
  int slot = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++slot < SLOTS) return;
    slot = 0;
    parity ^= 1;
  }
};

__device__ __forceinline__ void fetch(const Arguments& p, const Memory& at) {
  const Tiles tiles(p);
  const int block = block_of_cluster();
  Turn turn;
  int parity = 0;
  for (int n = blockIdx.x / BLOCKS; n < tiles.clusters; n += gridDim.x / BLOCKS, parity ^= 1) {
    const Tile tile(p, tiles, n, block);
    wait_for_phase(at.empty_queries, parity ^ 1);
    expect_bytes(at.full_queries, QUERY_BYTES);
    for (int i = 0; i < WARPGROUPS * (WQ / COLUMN); ++i) {
      const int group = i / (WQ / COLUMN);
      const int column = i % (WQ / COLUMN) * COLUMN;
      load_box(at.queries + i * 64 * 128, &p.q, at.full_queries, column, tile.query + 64 * group,
               tile.head, tile.batch);
    }
    // From the last keys on: those that are masked for some come first. Keys, then values.
#pragma unroll 1
    for (int i = 2 * tile.key_tiles - 1; i >= 0; --i) {
      const bool is_keys = i & 1;
      const int width = is_keys ? WQ : WV;
      const u32 barrier = at.full + 8 * turn.slot;
      wait_for_phase(at.empty + 8 * turn.slot, turn.parity ^ 1);
      expect_bytes(barrier, KEYS * width * 2);
      const int half = block * (KEYS / BLOCKS);
      for (int column = 0; column < width; column += COLUMN) {
        load_box_to((1 << BLOCKS) - 1, at.ring + turn.slot * SLOT + column * KEYS * 2 + half * 128,
                    is_keys ? &p.k : &p.v, barrier, column, i / 2 * KEYS + half, tile.kv_head,
                    tile.batch);
      }
      turn.next();
    }
  }
}

// The two rows of scores that a thread has a quarter of.
struct Rows {
  float most[2] = {LEAST, LEAST};
  float sums[2] = {0, 0};
  float shift[2];  // added to scaled scores

  // Takes the maxima of `scores` in, and scales what was summed up before.
  __device__ __forceinline__ void raise(const float (&scores)[64], float scale,
                                        float (&results)[WV / 2]) {
    float top[2] = {most[0], most[1]};
#pragma unroll
    for (int i = 0; i < 64; i += 4) {
      top[0] = fmaxf(top[0], fmaxf(scores[i], scores[i + 1]));
      top[1] = fmaxf(top[1], fmaxf(scores[i + 2], scores[i + 3]));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
    }
    const bool is_above = (top[0] - most[0]) * scale > SLACK || (top[1] - most[1]) * scale > SLACK;
    if (__any_sync(~0u, is_above)) {
      float factor[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        factor[r] = most[r] == LEAST ? 0 : power_of_two((most[r] - top[r]) * scale);
        sums[r] *= factor[r];
        most[r] = top[r];
      }
#pragma unroll
      for (int i = 0; i < WV / 2; i += 4) {
        results[i] *= factor[0];
        results[i + 1] *= factor[0];
        results[i + 2] *= factor[1];
        results[i + 3] *= factor[1];
      }
    }
    // No key yet: scores are all LEAST.
#pragma unroll
    for (int r = 0; r < 2; ++r) shift[r] = most[r] == LEAST ? 0 : -most[r] * scale;
  }

  __device__ __forceinline__ float weight(float score, float scale, int row) {
    const float power = power_of_two(fmaf(score, scale, shift[row]));
    sums[row] += power;
    return power;
  }

  // Of all of a row's threads, inverted.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sums[r] += __shfl_xor_sync(~0u, sums[r], 1);
      sums[r] += __shfl_xor_sync(~0u, sums[r], 2);
      sums[r] = 1 / sums[r];
    }
  }
};

// Scores of keys from the rows' ends on count nothing. `first` is the key of scores[0].
__device__ __forceinline__ void shut(float (&scores)[64], int first, int end0, int end1) {
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int key = first + i / 4 * 8 + (i & 1);
    if (key >= (i & 2 ? end1 : end0)) scores[i] = LEAST;
  }
}

// Where a query's results go.
__device__ __forceinline__ T* row_of(const Arguments& p, const Tile& tile, int query) {
  const Place* place = p.places;
  while (place + 1 < p.places + p.num_places && query >= place[1].first) ++place;
  return place->out + tile.batch * place->batch + tile.head * p.out_head +
         (query - place->first) * place->token;
}

// A thread's results, scaled, in words of 16 bytes: the four threads of a row turn their words.
__device__ __forceinline__ void store(T* row, const float* results, float factor, bool is_inside) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int part = 0; part < WV / 32; ++part) {
    u32 words[4];
    u32 turned[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = results + 16 * part + 4 * i;
      words[i] = pack(pair[0] * factor, pair[1] * factor);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int other = lane ^ i;
      const u32 sent = other == 0   ? words[0]
                       : other == 1 ? words[1]
                       : other == 2 ? words[2]
                                    : words[3];
      const u32 got = __shfl_xor_sync(~0u, sent, i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (other == j) turned[j] = got;
      }
    }
    const int column = 32 * part + 8 * lane;
    if (is_inside && column < E) {
      *(uint4*)(row + column) = make_uint4(turned[0], turned[1], turned[2], turned[3]);
    }
  }
}

__device__ __forceinline__ void attend(const Arguments& p, const Memory& at) {
  const Tiles tiles(p);
  const int block = block_of_cluster();
  const int group = threadIdx.x / 128;
  const int lane = threadIdx.x % 32;
  const u32 queries = at.queries + group * 64 * WQ * 2;
  const float scale = p.scale;
  const auto release = [&](const Turn& turn) {
    if (lane < BLOCKS) arrive_at(at.empty + 8 * turn.slot, lane);
  };
  Turn turn;
  int parity = 0;
  for (int n = blockIdx.x / BLOCKS; n < tiles.clusters; n += gridDim.x / BLOCKS, parity ^= 1) {
    const Tile tile(p, tiles, n, block);
    const int query = tile.query + threadIdx.x / 32 * 16 + lane / 4;
    float results[WV / 2];
#pragma unroll
    for (int i = 0; i < WV / 2; ++i) results[i] = 0;
    Rows rows;
    wait_for_phase(at.full_queries, parity);
#pragma unroll 1
    for (int i = tile.key_tiles - 1; i >= 0; --i) {
      float scores[64];
      wait_for_phase(at.full + 8 * turn.slot, turn.parity);
      begin_products();
#pragma unroll
      for (int j = 0; j < WQ / 16; ++j) {
        const u32 step = j % 4 * 32;
        add_products(scores, operand(queries + j / 4 * 64 * 128 + step, 16, 1024),
                     operand(at.ring + turn.slot * SLOT + j / 4 * KEYS * 128 + step, 16, 1024),
                     j == 0);
      }
      end_products();
      wait_for_products(scores);
      release(turn);
      turn.next();
      if (i == 0 && lane == 0) arrive(at.empty_queries);
#if IS_CAUSAL
      if (min(p.keys, tile.query + 64 * group + p.offset + 1) < (i + 1) * KEYS) {
        const int end = query + p.offset + 1;
        shut(scores, i * KEYS + lane % 4 * 2, min(p.keys, end), min(p.keys, end + 8));
      }
#else
      if (p.keys < (i + 1) * KEYS) shut(scores, i * KEYS + lane % 4 * 2, p.keys, p.keys);
#endif
      rows.raise(scores, scale, results);
      u32 weights[32];
#pragma unroll
      for (int part = 0; part < PARTS; ++part) {
        constexpr int COUNT = KEYS / PARTS / 16;
#pragma unroll
        for (int j = part * COUNT * 4; j < (part + 1) * COUNT * 4; ++j) {
          const float low = rows.weight(scores[2 * j], scale, j % 2);
          const float high = rows.weight(scores[2 * j + 1], scale, j % 2);
          weights[j] = pack(low, high);
        }
        if (part == 0) wait_for_phase(at.full + 8 * turn.slot, turn.parity);
        begin_products();
#pragma unroll
        for (int j = part * COUNT; j < (part + 1) * COUNT; ++j) {
          add_products(results, weights + 4 * j,
                       operand(at.ring + turn.slot * SLOT + j * 16 * 128, KEYS * 128, 1024));
        }
        end_products();
      }
      wait_for_products(results);
      release(turn);
      turn.next();
    }
    rows.finish();
    store(row_of(p, tile, query), results, rows.sums[0], tile.is_inside && query < p.queries);
    store(row_of(p, tile, query + 8), results + 2, rows.sums[1],
          tile.is_inside && query + 8 < p.queries);
  }
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    __launch_bounds__(128 * (WARPGROUPS + 1), 1) KERNEL_NAME(const __grid_constant__ Arguments p) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Memory at((shared_address(memory) + 1023) / 1024 * 1024);  // the swizzle's period
  if (threadIdx.x == 0) {
    init_barrier(at.full_queries, 1);
    init_barrier(at.empty_queries, 4 * WARPGROUPS);
    for (int i = 0; i < SLOTS; ++i) {
      init_barrier(at.full + 8 * i, 1);
      init_barrier(at.empty + 8 * i, 4 * WARPGROUPS * BLOCKS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  sync_cluster();
  if (threadIdx.x / 128 == WARPGROUPS) {
    give_registers<32>();
    if (threadIdx.x == 128 * WARPGROUPS) fetch(p, at);
  } else {
    take_registers<160>();
    attend(p, at);
  }
  sync_cluster();  // nobody leaves while another block may still arrive here
}
