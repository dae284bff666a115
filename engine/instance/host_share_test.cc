#include "engine/instance/host_share.h"

#include <gtest/gtest.h>

#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

// The host's part of a memory limit: what it takes, the memory cannot grow by, until it is given back.
TEST(HostShare, WhatTheHostTakesTheMemoryCannotGrowBy) {
  for (const char* text : {"(module (memory 1))", "(module (memory 1) (memory 0))"}) {
    auto instance = Instance::create(compile(text), {}, {.memory_bytes = 8 * wasm::kPageBytes});
    ASSERT_TRUE(instance);
    Memory& memory = *(*instance)->memory();
    EXPECT_EQ(memory_left_bytes(**instance), 7 * wasm::kPageBytes);
    EXPECT_TRUE(take_from_memory_limit(**instance, 2 * wasm::kPageBytes + 1));
    EXPECT_EQ(memory_left_bytes(**instance), 4 * wasm::kPageBytes);
    EXPECT_FALSE(take_from_memory_limit(**instance, 4 * wasm::kPageBytes + 1));
    EXPECT_EQ(memory.grow(5), -1);
    EXPECT_TRUE((*instance)->limit_was_hit());
    EXPECT_EQ(memory.grow(4), 1);
    give_to_memory_limit(**instance, 2 * wasm::kPageBytes + 1);
    EXPECT_EQ(memory.grow(3), 5);
    EXPECT_EQ(memory.grow(1), -1);
  }
}

}  // namespace
}  // namespace membrane::engine
