// Random operations on names, against a model of a few maps: every errno, and in the end the whole
// tree.
#include <linux/fs.h>

#include <map>
#include <random>

#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

// What Linux does, in the fewest words. Inodes are numbered by the real thing.
class Model {
 public:
  struct Node {
    bool directory = false;
    std::uint32_t nlink = 1;
    std::uint64_t parent = kRoot;
    std::map<std::string, std::uint64_t> children;
  };
  std::map<std::uint64_t, Node> nodes{{kRoot, Node{true, 2, kRoot, {}}}};

  // ESTALE, ENOTDIR or 0.
  int Directory(std::uint64_t inode) const {
    const auto it = nodes.find(inode);
    return it == nodes.end() ? ESTALE : it->second.directory ? 0 : ENOTDIR;
  }
  std::uint64_t Child(std::uint64_t parent, const std::string& name) const {
    const auto& children = nodes.at(parent).children;
    const auto it = children.find(name);
    return it == children.end() ? 0 : it->second;
  }
  bool Below(std::uint64_t inode, std::uint64_t ancestor) const {
    for (; inode != ancestor; inode = nodes.at(inode).parent) {
      if (inode == kRoot) return false;
    }
    return true;
  }
  void Attach(std::uint64_t parent, const std::string& name, std::uint64_t inode) {
    nodes[parent].children[name] = inode;
    if (!nodes[inode].directory) return;
    nodes[inode].parent = parent;
    ++nodes[parent].nlink;
  }
  void Detach(std::uint64_t parent, const std::string& name) {
    if (nodes[Child(parent, name)].directory) --nodes[parent].nlink;
    nodes[parent].children.erase(name);
  }
  void TakeName(std::uint64_t inode) {
    if (nodes[inode].directory || --nodes[inode].nlink == 0) nodes.erase(inode);
  }

  int Create(std::uint64_t parent, const std::string& name) const {
    if (const int error = Directory(parent)) return error;
    return Child(parent, name) != 0 ? EEXIST : 0;
  }
  int Link(std::uint64_t inode, std::uint64_t parent, const std::string& name) {
    if (!nodes.contains(inode)) return ESTALE;
    if (const int error = Create(parent, name)) return error;
    if (nodes[inode].directory) return EPERM;
    ++nodes[inode].nlink;
    Attach(parent, name, inode);
    return 0;
  }
  int Remove(std::uint64_t parent, const std::string& name, bool directory) {
    if (const int error = Directory(parent)) return error;
    const std::uint64_t child = Child(parent, name);
    if (child == 0) return ENOENT;
    if (directory != nodes[child].directory) return directory ? ENOTDIR : EISDIR;
    if (!nodes[child].children.empty()) return ENOTEMPTY;
    Detach(parent, name);
    TakeName(child);
    return 0;
  }
  int Rename(std::uint64_t parent, const std::string& name, std::uint64_t new_parent,
             const std::string& new_name, std::uint32_t flags) {
    if (const int error = Directory(parent)) return error;
    if (const int error = Directory(new_parent)) return error;
    const std::uint64_t from = Child(parent, name), to = Child(new_parent, new_name);
    if (from == 0) return ENOENT;
    if (to != 0 && flags == RENAME_NOREPLACE) return EEXIST;
    if (to == 0 && flags == RENAME_EXCHANGE) return ENOENT;
    if (from == to) return 0;
    if (nodes[from].directory && Below(new_parent, from)) return EINVAL;
    if (flags == RENAME_EXCHANGE) {
      if (nodes[to].directory && Below(parent, to)) return EINVAL;
      Detach(parent, name);
      Detach(new_parent, new_name);
      Attach(parent, name, to);
      Attach(new_parent, new_name, from);
      return 0;
    }
    if (to != 0) {
      if (nodes[from].directory != nodes[to].directory) {
        return nodes[from].directory ? ENOTDIR : EISDIR;
      }
      if (!nodes[to].children.empty()) return ENOTEMPTY;
      Detach(new_parent, new_name);
    }
    Detach(parent, name);
    Attach(new_parent, new_name, from);
    if (to != 0) TakeName(to);
    return 0;
  }
};

class TreeModelTest : public OpFixture, public testing::WithParamInterface<std::uint32_t> {
 protected:
  std::uint64_t AnyInode() { return inodes_[random_() % inodes_.size()]; }
  std::string AnyName() { return std::string(1, static_cast<char>('a' + random_() % 5)); }

  void Step() {
    const std::uint64_t parent = AnyInode(), other = AnyInode();
    const std::string name = AnyName(), new_name = AnyName();
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2: {
        const bool directory = random_() % 2 == 0;
        const int expected = model_.Create(parent, name);
        std::uint64_t made = 0;
        ASSERT_EQ(Create(parent, name, directory ? S_IFDIR | 0755 : S_IFREG | 0644, &made),
                  expected);
        if (expected != 0) break;
        model_.nodes[made] = Model::Node{directory, directory ? 2u : 1u, parent, {}};
        model_.Attach(parent, name, made);
        inodes_.push_back(made);
        if (!directory && random_() % 2 == 0) Scatter(made, 3);
        break;
      }
      case 3:
        ASSERT_EQ(Link(other, parent, name), model_.Link(other, parent, name));
        break;
      case 4:
        ASSERT_EQ(Unlink(parent, name), model_.Remove(parent, name, false));
        break;
      case 5:
        ASSERT_EQ(Rmdir(parent, name), model_.Remove(parent, name, true));
        break;
      default: {
        const std::uint32_t kinds[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
        const std::uint32_t flags = kinds[random_() % 4];
        ASSERT_EQ(Rename(parent, name, other, new_name, flags),
                  model_.Rename(parent, name, other, new_name, flags))
            << parent << "/" << name << " → " << other << "/" << new_name << " flags " << flags;
      }
    }
  }

  void ExpectSameTree() {
    for (const std::uint64_t inode : inodes_) {
      const auto node = model_.nodes.find(inode);
      ASSERT_EQ(GetAttr(inode), node == model_.nodes.end() ? ESTALE : 0) << "inode " << inode;
      if (node == model_.nodes.end()) continue;
      const v1::Attr attr = reply_.attr().attr();
      EXPECT_EQ(attr.nlink(), node->second.nlink);
      EXPECT_EQ(S_ISDIR(attr.mode()), node->second.directory);
      if (!node->second.directory) continue;
      EXPECT_EQ(attr.size_bytes(), 32 * node->second.children.size());
      std::map<std::string, std::uint64_t> children;
      for (const auto& entry : List(inode, 100)) children[entry.name()] = entry.inode();
      EXPECT_EQ(children["."], inode);
      EXPECT_EQ(children[".."], node->second.parent);
      children.erase(".");
      children.erase("..");
      EXPECT_EQ(children, node->second.children);
    }
    ExpectSound();
  }

  std::mt19937 random_{GetParam()};
  Model model_;
  std::vector<std::uint64_t> inodes_{kRoot};
};

TEST_P(TreeModelTest, BehavesAsALinuxFileSystem) {
  for (int step = 0; step < 1500; ++step) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", step ", step));
    ASSERT_NO_FATAL_FAILURE(Step());
    if (step % 500 == 499) {
      ASSERT_NO_FATAL_FAILURE(ExpectSameTree());
      Restart();
    }
    // Dead inodes stay candidates, for ESTALE, but not too many of them.
    if (inodes_.size() > 40) {
      std::erase_if(inodes_, [&](std::uint64_t i) { return !model_.nodes.contains(i); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TreeModelTest, testing::Range(1u, 9u));

}  // namespace
}  // namespace reel::mdc
