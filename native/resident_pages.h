// Which pages of a mapped file are in memory.
#ifndef SAFETENSORS_MMAP_RESIDENT_PAGES_H_
#define SAFETENSORS_MMAP_RESIDENT_PAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>

// Answers for one call: pages are asked for in blocks, and the answers are remembered, since
// ranges of one call often share a block. A page can leave the memory at any time; then reading it
// takes longer, and no more.
class ResidentPages {
 public:
  // The caller keeps the range mapped.
  ResidentPages(const uint8_t* base, uint64_t length) : base_(base), length_(length) {}

  // Whether all pages of [begin, end), which lies in the mapping, are in memory. True where the
  // system does not tell. Any thread.
  bool Has(const uint8_t* begin, const uint8_t* end);

 private:
  // A bit for each page of a block.
  static constexpr size_t kPagesPerBlock = 8;
  static constexpr size_t kBlocks = 256;

  struct Block {
    // Its number in memory plus one; 0 while the place is free.
    uintptr_t number = 0;
    uint64_t pages = 0;
  };

  uint64_t Ask(uintptr_t number) const;

  const uint8_t* base_;
  uint64_t length_;
  std::array<Block, kBlocks> blocks_;
};

#endif  // SAFETENSORS_MMAP_RESIDENT_PAGES_H_
