// Threads for g++: a group at a time, each of its threads a fiber, which stops at whatever it does together with others.
//
// Where a fiber stops is known by the calls that led there and by the turns of the loops around them. Of the threads of a
// SIMD group that wait, those that are least far go on: so lanes that took different ways meet again as they do on a GPU.
#pragma once
#include <cstdio>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>
#include "math.hpp"

namespace mxo {

struct Launch { uint grid[3], group[3]; };

struct Position {  // the attributes of one thread
  uint3 thread_position_in_grid, thread_position_in_threadgroup, threadgroup_position_in_grid;
  uint3 threads_per_grid, threads_per_threadgroup, threadgroups_per_grid, dispatch_threads_per_threadgroup;
  uint3 grid_size, grid_origin;
  uint thread_index_in_threadgroup, thread_index_in_simdgroup, simdgroup_index_in_threadgroup;
  uint simdgroups_per_threadgroup, dispatch_simdgroups_per_threadgroup, threads_per_simdgroup, thread_execution_width;
  uint thread_index_in_quadgroup, quadgroup_index_in_threadgroup, quadgroups_per_threadgroup;
  uint dispatch_quadgroups_per_threadgroup;
};

constexpr size_t STACK = 256 << 10;
enum Scope { SIMD = 32, QUAD = 4, GROUP = 0 };
using Key = std::vector<uintptr_t>;
struct Meeting {  // of the threads that did one thing together: who they were, and what each brought
  uint64_t who = 0;
  unsigned char brought[32][32];
};
struct Loop { void* frame; uintptr_t place, turn; };
struct Fiber {
  ucontext_t context;
  char* stack = nullptr;
  bool live = false, waits = false;
  Key key;
  Scope scope = SIMD;
  const void* brings = nullptr;
  size_t bytes = 0;
  std::shared_ptr<Meeting> meeting;
  std::vector<Loop> loops;
  void* base = nullptr;
  Position position;
};
inline std::vector<Fiber> fibers;
inline Fiber* running = nullptr;
inline ucontext_t scheduler;
inline void (*body_of)(void*, const Position&);
inline void* body_data;

// The place of the running fiber: from the outermost call inwards, the loops that it is in, with their turns, and where it left
// each function. Code is compiled without optimization, so places in a function are in the order of its source.
__attribute__((noinline)) inline Key place_of(void** frame) {
  std::vector<std::pair<void*, uintptr_t>> frames;
  for (; frame && (void*)frame != running->base; frame = (void**)frame[0]) frames.push_back({frame[0], (uintptr_t)frame[1]});
  Key key;
  size_t loop = 0;
  for (size_t k = frames.size(); k-- > 0;) {
    for (; loop < running->loops.size() && running->loops[loop].frame == frames[k].first; loop++) {
      key.push_back(running->loops[loop].place);
      key.push_back(running->loops[loop].turn);
    }
    key.push_back(frames[k].second);
  }
  return key;
}

__attribute__((noinline)) inline std::shared_ptr<Meeting> meet(Scope scope, const void* brings, size_t bytes) {
  Fiber& me = *running;
  me.key = place_of((void**)__builtin_frame_address(0));
  me.scope = scope, me.brings = brings, me.bytes = bytes, me.waits = true;
  swapcontext(&me.context, &scheduler);
  return std::move(me.meeting);
}

struct InLoop {  // stands around a loop, and is told of each turn
  bool ended = false;
  __attribute__((noinline)) InLoop() {
    void** frame = (void**)__builtin_frame_address(0);
    if (running) running->loops.push_back({frame[0], (uintptr_t)frame[1], 0});
  }
  ~InLoop() { if (running) running->loops.pop_back(); }
};
inline bool turn() {
  if (running) running->loops.back().turn++;
  return false;
}

inline void start() {
  running->base = __builtin_frame_address(0);
  body_of(body_data, running->position);
  running->live = false;
  swapcontext(&running->context, &scheduler);
}

inline void release(const std::vector<Fiber*>& threads) {
  auto meeting = std::make_shared<Meeting>();
  for (Fiber* f : threads) {
    const uint lane = f->position.thread_index_in_simdgroup;
    if (f->scope != GROUP) meeting->who |= uint64_t(1) << lane;
    if (f->bytes) std::memcpy(meeting->brought[lane], f->brings, f->bytes);
  }
  for (Fiber* f : threads) f->meeting = meeting, f->waits = false;
}

// Let go on whoever of a SIMD group is least far, unless that is a barrier of the whole group. Returns false then.
inline bool step(Fiber* first, size_t count) {
  Fiber* least = nullptr;
  for (size_t k = 0; k < count; k++)
    if (first[k].live && (!least || first[k].key < least->key)) least = first + k;
  if (!least || least->scope == GROUP) return false;
  std::vector<Fiber*> together;
  const uint size = least->scope, quad = least->position.thread_index_in_simdgroup / size;
  for (size_t k = 0; k < count; k++)
    if (first[k].live && first[k].key == least->key && k / size == quad) together.push_back(first + k);
  release(together);
  return true;
}

inline void run_group(size_t threads) {
  for (;;) {
    bool any = false;
    for (size_t k = 0; k < threads; k++) {
      if (!fibers[k].live || fibers[k].waits) continue;
      any = true;
      running = &fibers[k];
      swapcontext(&scheduler, &running->context);
      running = nullptr;
    }
    if (any) continue;
    bool moved = false, left = false;
    for (size_t k = 0; k < threads; k += 32) moved |= step(&fibers[k], std::min<size_t>(32, threads - k));
    if (moved) continue;
    Fiber* least = nullptr;
    for (size_t k = 0; k < threads; k++)
      if (fibers[k].live && (left = true, !least || fibers[k].key < least->key)) least = &fibers[k];
    if (!left) return;
    std::vector<Fiber*> together;
    for (size_t k = 0; k < threads; k++)
      if (fibers[k].live && fibers[k].key == least->key) together.push_back(&fibers[k]);
    release(together);
  }
}

inline Position position_of(const Launch& launch, uint3 group, uint3 size, uint3 at) {
  Position p;
  const uint3 grid(launch.grid[0], launch.grid[1], launch.grid[2]), whole(launch.group[0], launch.group[1], launch.group[2]);
  p.threads_per_grid = p.grid_size = grid;
  p.grid_origin = uint3(0);
  p.dispatch_threads_per_threadgroup = whole;
  p.threads_per_threadgroup = size;
  p.threadgroups_per_grid = (grid + whole - 1u) / whole;
  p.threadgroup_position_in_grid = group;
  p.thread_position_in_threadgroup = at;
  p.thread_position_in_grid = group * whole + at;
  const uint count = size.x * size.y * size.z, most = whole.x * whole.y * whole.z;
  const uint index = at.x + size.x * (at.y + size.y * at.z);
  p.thread_index_in_threadgroup = index;
  p.thread_index_in_simdgroup = index % 32;
  p.simdgroup_index_in_threadgroup = index / 32;
  p.threads_per_simdgroup = p.thread_execution_width = 32;
  p.simdgroups_per_threadgroup = (count + 31) / 32;
  p.dispatch_simdgroups_per_threadgroup = (most + 31) / 32;
  p.thread_index_in_quadgroup = index % 4;
  p.quadgroup_index_in_threadgroup = index / 4;
  p.quadgroups_per_threadgroup = (count + 3) / 4;
  p.dispatch_quadgroups_per_threadgroup = (most + 3) / 4;
  return p;
}

// Run a body over a grid. `alone` says that no thread waits for others, so that none needs a stack of its own.
inline void run(const Launch& launch, bool alone, void (*body)(void*, const Position&), void* data) {
  body_of = body, body_data = data;
  uint3 groups;
  for (int k = 0; k < 3; k++) groups[k] = (launch.grid[k] + launch.group[k] - 1) / launch.group[k];
  for (uint gz = 0; gz < groups.z; gz++) for (uint gy = 0; gy < groups.y; gy++) for (uint gx = 0; gx < groups.x; gx++) {
    const uint3 group(gx, gy, gz);
    uint3 size;
    for (int k = 0; k < 3; k++) size[k] = std::min(launch.group[k], launch.grid[k] - group[k] * launch.group[k]);
    const size_t count = size.x * size.y * size.z;
    if (!alone && fibers.size() < count) fibers.resize(count);
    for (size_t k = 0; k < count; k++) {
      const uint3 at(uint(k) % size.x, uint(k) / size.x % size.y, uint(k) / (size.x * size.y));
      const Position position = position_of(launch, group, size, at);
      if (alone) {
        body(data, position);
        continue;
      }
      Fiber& f = fibers[k];
      if (!f.stack) f.stack = (char*)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      f.position = position, f.live = true, f.waits = false, f.loops.clear();
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack, f.context.uc_stack.ss_size = STACK, f.context.uc_link = nullptr;
      makecontext(&f.context, start, 0);
    }
    if (!alone) run_group(count);
  }
}

}  // namespace mxo
