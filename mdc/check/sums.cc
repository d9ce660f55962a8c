#include "mdc/check/sums.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include "mdc/check/checker_facts.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kRoot = kRootInode.value();
constexpr std::size_t kMostRegions = 1024;

// A directory has its one name in its parent; of other inodes it does not matter where names are.
std::uint64_t NameHash(std::uint64_t inode, std::uint32_t type, std::uint64_t directory) {
  const std::uint64_t where = type == S_IFDIR ? directory : 0;
  return Mixed(Mixed(Mixed(inode) ^ type) ^ where);
}

}  // namespace

std::uint64_t EntryHash(std::uint64_t cookie, std::uint64_t inode, std::uint32_t type,
                        std::string_view name) {
  const std::uint64_t name_hash = std::hash<std::string_view>{}(name);
  return Mixed(Mixed(Mixed(Mixed(cookie) ^ inode) ^ type) ^ name_hash);
}

void NameSums::AddInode(std::size_t number, const InodeFact& fact) {
  Part& part = parts_[number];
  ++part.inodes;
  if (fact.type == 0) {
    part.wrong = true;
  } else if (fact.type != S_IFDIR) {
    part.sum.Add(NameHash(fact.inode, fact.type, 0), fact.nlink);
  } else {
    part.wrong |= fact.nlink != fact.ExpectedLinksOfDirectory();
    if (fact.inode == kRoot) {
      part.wrong |= fact.nlink == 0 || fact.parent != kRoot;
    } else if (fact.nlink != 0) {
      part.sum.Add(NameHash(fact.inode, fact.type, fact.parent));
    }
  }
}

void NameSums::AddName(std::size_t number, const NameFact& name) {
  Part& part = parts_[number];
  ++part.names;
  part.sum.Subtract(NameHash(name.child, name.type, name.directory));
}

void NameSums::Add(const NameSums& more) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].sum.Add(more.parts_[i].sum);
    parts_[i].inodes += more.parts_[i].inodes;
    parts_[i].names += more.parts_[i].names;
    parts_[i].wrong |= more.parts_[i].wrong;
  }
}

std::uint64_t NameSums::BytesOf(std::size_t part) const {
  return parts_[part].inodes * sizeof(InodeFact) + parts_[part].names * sizeof(NameFact);
}

SpaceSums::SpaceSums(std::uint64_t size_blocks) : size_blocks_(size_blocks) {
  while (size_blocks >> shift_ >= kMostRegions) ++shift_;
  regions_.resize(size_blocks == 0 ? 0 : RegionOf(size_blocks - 1) + 1);
}

std::uint64_t SpaceSums::EndOf(std::size_t region) const {
  return std::min(StartOf(region + 1), size_blocks_);
}

void SpaceSums::Add(const OwnedRun& run) {
  const std::uint64_t end = run.start + run.length_blocks;
  for (std::uint64_t at = run.start; at < end;) {
    const std::size_t number = RegionOf(at);
    const std::uint64_t to = std::min(end, EndOf(number));
    Region& region = regions_[number];
    ++region.runs;
    region.sum.Add(Mixed(at));
    region.sum.Subtract(Mixed(to));
    at = to;
  }
}

void SpaceSums::Add(const SpaceSums& more) {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    regions_[i].sum.Add(more.regions_[i].sum);
    regions_[i].runs += more.regions_[i].runs;
  }
}

bool SpaceSums::Agrees(std::size_t region) const {
  Sum left = regions_[region].sum;
  left.Subtract(Mixed(StartOf(region)));
  left.Add(Mixed(EndOf(region)));
  return left.IsZero();
}

std::uint64_t SpaceSums::BytesOf(std::size_t region) const {
  return regions_[region].runs * sizeof(OwnedRun);
}

}  // namespace reel::mdc::checker
