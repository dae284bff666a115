// Snapshots taken apart and put together again, for tests and the fuzzer.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/code/tier.h"

namespace membrane::engine {

// The content of a section of a whole snapshot, by its number (docs/snapshot-format.md); empty when there is none.
std::span<const uint8_t> section_of(std::span<const uint8_t> snapshot, uint32_t section);
// Makes the header's size and checksum those of what follows. Nothing happens to less than a header.
void seal(std::vector<uint8_t>& snapshot);
// Reads, instantiates under small limits with a host whose functions give 0, and continues with little fuel, then
// freezes and reads that. Ends the process when what was frozen cannot be read. True when it was a snapshot.
bool resume_a_little(std::span<const uint8_t> snapshot, Tier tier);

}  // namespace membrane::engine
