#include "kube/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"

namespace tf::kube {
namespace {

using Type = WatchEvent::Type;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

ObjectPtr Object(const std::string& name, const std::string& uid, uint64_t version, const std::string& node = "") {
  return std::make_shared<Json>(Json{
      {"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", uid}, {"resourceVersion", absl::StrCat(version)}}},
      {"spec", {{"nodeName", node}}}});
}

// "A a 5": added, name, version; "D! a 5": deleted, but the deletion was missed.
std::vector<std::string> Say(std::vector<Change>& changes) {
  std::vector<std::string> said;
  for (const Change& change : changes) {
    const char* kind = change.kind == Change::Kind::kAdded     ? "A"
                       : change.kind == Change::Kind::kUpdated ? "U"
                       : change.stale                          ? "D!"
                                                               : "D";
    said.push_back(
        absl::StrCat(kind, " ", std::string(Name(*change.object)), " ", std::string(ResourceVersion(*change.object))));
  }
  changes.clear();
  return said;
}

class StoreTest : public testing::Test {
 protected:
  std::vector<std::string> Apply(Type type, ObjectPtr object) {
    last_ = store_.Apply(type, std::move(object), changes_);
    return Say(changes_);
  }
  std::vector<std::string> Replace(std::vector<ObjectPtr> objects, uint64_t version, bool accept_older = false) {
    status_ = store_.Replace(std::move(objects), version, accept_older, changes_, bad_);
    return Say(changes_);
  }

  Store store_{{{"node", [](const Json& object) {
                   return std::vector<std::string>{object.at("spec").at("nodeName").as_string().c_str()};
                 }}}};
  std::vector<Change> changes_;
  Store::Verdict last_ = Store::Verdict::kBad;
  absl::Status status_;
  int64_t bad_ = 0;
};

TEST_F(StoreTest, EventsInOrder) {
  EXPECT_THAT(Apply(Type::kAdded, Object("a", "1", 5)), ElementsAre("A a 5"));
  EXPECT_THAT(Apply(Type::kModified, Object("a", "1", 6)), ElementsAre("U a 6"));
  EXPECT_THAT(Apply(Type::kDeleted, Object("a", "1", 7)), ElementsAre("D a 7"));
  EXPECT_EQ(store_.size(), 0u);
  EXPECT_EQ(store_.version(), 7u);
  EXPECT_EQ(store_.Get({"ns", "a"}), nullptr);
}

TEST_F(StoreTest, AnAddedOfWhatIsKnownIsAnUpdateAndAModifiedOfWhatIsNotIsAnAdd) {
  EXPECT_THAT(Apply(Type::kModified, Object("a", "1", 5)), ElementsAre("A a 5"));
  EXPECT_THAT(Apply(Type::kAdded, Object("a", "1", 6)), ElementsAre("U a 6"));
}

TEST_F(StoreTest, RepetitionsAndThePastAreDropped) {
  Apply(Type::kAdded, Object("a", "1", 5));
  Apply(Type::kModified, Object("a", "1", 8));
  for (const Type type : {Type::kAdded, Type::kModified}) {
    EXPECT_THAT(Apply(type, Object("a", "1", 8)), IsEmpty());
    EXPECT_EQ(last_, Store::Verdict::kOld);
    EXPECT_THAT(Apply(type, Object("a", "1", 5)), IsEmpty());
  }
  EXPECT_THAT(Apply(Type::kDeleted, Object("a", "0", 4)), IsEmpty());
  EXPECT_THAT(Apply(Type::kAdded, Object("never-seen", "2", 7)), IsEmpty());
  // Not resurrected by what is repeated after its deletion.
  EXPECT_THAT(Apply(Type::kDeleted, Object("a", "1", 9)), ElementsAre("D a 9"));
  EXPECT_THAT(Apply(Type::kModified, Object("a", "1", 8)), IsEmpty());
  EXPECT_THAT(Apply(Type::kDeleted, Object("a", "1", 9)), IsEmpty());
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(StoreTest, VersionsAreNumbersNotText) {
  Apply(Type::kAdded, Object("a", "1", 99));
  EXPECT_THAT(Apply(Type::kModified, Object("a", "1", 100)), ElementsAre("U a 100"));
  EXPECT_EQ(ParseVersion("18446744073709551615"), 18446744073709551615u);
  for (const char* bad : {"", "0", "None", "-1", "1.5", "0x10", "18446744073709551616", " 7", "7 "}) {
    EXPECT_EQ(ParseVersion(bad), std::nullopt) << bad;
  }
}

TEST_F(StoreTest, AnotherUidIsDeletedAndAdded) {
  Apply(Type::kAdded, Object("a", "1", 5));
  EXPECT_THAT(Apply(Type::kModified, Object("a", "2", 8)), ElementsAre("D! a 5", "A a 8"));
  // The deletion of an object that was never seen: the one before it is gone as well.
  EXPECT_THAT(Apply(Type::kDeleted, Object("a", "3", 12)), ElementsAre("D! a 8"));
  Replace({Object("b", "1", 20)}, 20);
  EXPECT_THAT(Replace({Object("b", "2", 25)}, 30), ElementsAre("D! b 20", "A b 25"));
}

TEST_F(StoreTest, ADeletionMayCarryTheLastVersion) {
  Apply(Type::kAdded, Object("a", "1", 5));
  EXPECT_THAT(Apply(Type::kDeleted, Object("a", "1", 5)), ElementsAre("D a 5"));
}

TEST_F(StoreTest, AListTellsWhatWasMissed) {
  Replace({Object("gone", "1", 3), Object("same", "2", 4), Object("new-state", "3", 5)}, 6);
  EXPECT_THAT(Replace({Object("same", "2", 4), Object("new-state", "3", 9), Object("new", "4", 8)}, 10),
              UnorderedElementsAre("D! gone 3", "U new-state 9", "A new 8"));
  EXPECT_EQ(store_.version(), 10u);
  EXPECT_THAT(Apply(Type::kModified, Object("same", "2", 7)), IsEmpty()) << "older than the list";
}

TEST_F(StoreTest, AnOlderListIsRefused) {  // kubernetes/kubernetes#59848, #83520
  Replace({Object("a", "1", 3)}, 6);
  Apply(Type::kModified, Object("a", "1", 9));
  EXPECT_THAT(Replace({}, 8), IsEmpty());
  EXPECT_EQ(status_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status_.ToString(), testing::HasSubstr("version 8, older than 9"));
  EXPECT_EQ(ResourceVersion(*store_.Get({"ns", "a"})), "9");
  // Unless the server was set back: then what changes backwards begins anew.
  EXPECT_THAT(Replace({Object("a", "1", 3)}, 8, true), ElementsAre("D! a 9", "A a 3"));
  EXPECT_EQ(store_.version(), 8u);
}

TEST_F(StoreTest, ABookmarkMovesForward) {
  EXPECT_EQ(store_.Bookmark(7), Store::Verdict::kApplied);
  EXPECT_EQ(store_.Bookmark(5), Store::Verdict::kOld);
  EXPECT_EQ(store_.version(), 7u);
}

TEST_F(StoreTest, BadObjectsAreLeftOut) {
  const std::vector<Json> bad = {nullptr,
                                 "text",
                                 Json{{"metadata", "text"}},
                                 Json{{"metadata", JsonObject()}},
                                 Json{{"metadata", {{"name", "a"}}}},
                                 Json{{"metadata", {{"resourceVersion", "7"}}}},
                                 Json{{"metadata", {{"name", "a"}, {"resourceVersion", "None"}}}},
                                 Json{{"metadata", {{"name", "a"}, {"resourceVersion", 7}}}}};
  std::vector<ObjectPtr> listed;
  for (const Json& object : bad) {
    EXPECT_THAT(Apply(Type::kAdded, std::make_shared<Json>(object)), IsEmpty());
    EXPECT_EQ(last_, Store::Verdict::kBad);
    listed.push_back(std::make_shared<Json>(object));
  }
  listed.push_back(Object("good", "1", 3));
  EXPECT_THAT(Replace(listed, 5), ElementsAre("A good 3"));
  EXPECT_EQ(bad_, static_cast<int64_t>(bad.size()));
}

TEST_F(StoreTest, IndexesFollow) {
  Apply(Type::kAdded, Object("a", "1", 1, "n1"));
  Apply(Type::kAdded, Object("b", "2", 2, "n1"));
  EXPECT_EQ(store_.ByIndex("node", "n1").size(), 2u);
  Apply(Type::kModified, Object("a", "1", 3, "n2"));
  EXPECT_EQ(store_.ByIndex("node", "n1").size(), 1u);
  ASSERT_EQ(store_.ByIndex("node", "n2").size(), 1u);
  EXPECT_EQ(ResourceVersion(*store_.ByIndex("node", "n2")[0]), "3");
  Apply(Type::kDeleted, Object("a", "1", 4, "another"));
  EXPECT_THAT(store_.ByIndex("node", "n2"), IsEmpty());
  EXPECT_THAT(store_.ByIndex("node", "another"), IsEmpty());
  EXPECT_THAT(store_.ByIndex("no such index", "n1"), IsEmpty());
}

TEST(StoreIndexTest, AFunctionThatThrowsListsNothing) {
  Store store({{"throws",
                [](const Json& object) -> std::vector<std::string> { return {object.at("x").as_string().c_str()}; }}});
  std::vector<Change> changes;
  EXPECT_EQ(store.Apply(Type::kAdded, Object("a", "1", 1), changes), Store::Verdict::kApplied);
  EXPECT_EQ(store.Apply(Type::kDeleted, Object("a", "1", 2), changes), Store::Verdict::kApplied);
  EXPECT_EQ(changes.size(), 2u);
}

// A server with a history, and a network that repeats, replays, loses the connection and lists from any moment.
class Histories : public testing::TestWithParam<uint64_t> {};

TEST_P(Histories, TheStoreEndsAsTheServerAndNobodyIsToldOfThePast) {
  std::mt19937_64 random(GetParam());
  const auto upto = [&](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random); };
  struct Event {
    Type type;
    ObjectPtr object;
  };
  using Objects = std::map<std::string, ObjectPtr>;
  std::vector<Event> events;           // event i has version i + 1
  std::vector<Objects> states = {{}};  // states[v]: as of version v
  const int length = 400;
  for (int i = 0; i < length; ++i) {
    Objects now = states.back();
    const std::string name = absl::StrCat("o", upto(6));
    const uint64_t version = states.size();
    const auto found = now.find(name);
    if (found == now.end()) {
      now[name] = Object(name, absl::StrCat("uid", version), version, absl::StrCat("n", upto(3)));
      events.push_back({Type::kAdded, now[name]});
    } else if (upto(3) == 0) {
      events.push_back({Type::kDeleted, Object(name, std::string(Uid(*found->second)), version)});
      now.erase(found);
    } else {
      found->second = Object(name, std::string(Uid(*found->second)), version, absl::StrCat("n", upto(3)));
      events.push_back({Type::kModified, found->second});
    }
    states.push_back(std::move(now));
  }

  Store store({{"node", [](const Json& object) {
                  return std::vector<std::string>{object.at("spec").at("nodeName").as_string().c_str()};
                }}});
  std::vector<Change> changes;
  std::map<std::string, ObjectPtr> told;      // what one knows who was told all changes
  std::map<std::string, uint64_t> last_told;  // versions by name
  const auto follow = [&] {
    for (const Change& change : changes) {
      const std::string name(Name(*change.object));
      const uint64_t version = *ParseVersion(ResourceVersion(*change.object));
      switch (change.kind) {
        case Change::Kind::kAdded:
          ASSERT_FALSE(told.contains(name));
          ASSERT_GT(version, last_told[name]);
          told[name] = change.object;
          break;
        case Change::Kind::kUpdated:
          ASSERT_EQ(told.at(name), change.before);
          ASSERT_EQ(Uid(*change.before), Uid(*change.object));
          ASSERT_GT(version, last_told[name]);
          told[name] = change.object;
          break;
        case Change::Kind::kDeleted:
          ASSERT_TRUE(told.contains(name));
          ASSERT_GE(version, last_told[name]);
          told.erase(name);
          break;
      }
      last_told[name] = version;
    }
    changes.clear();
    const std::vector<ObjectPtr> all = store.All();
    ASSERT_EQ(all.size(), told.size());
    size_t indexed = 0;
    for (const std::string node : {"n0", "n1", "n2"}) {
      for (const ObjectPtr& object : store.ByIndex("node", node)) {
        ASSERT_EQ(object, told.at(std::string(Name(*object))));
        ASSERT_EQ(object->at("spec").at("nodeName").as_string(), node);
        ++indexed;
      }
    }
    ASSERT_EQ(indexed, told.size());
  };

  uint64_t next = 0;  // the event that the watch brings next
  while (store.version() < length) {
    int64_t bad = 0;
    const uint64_t choice = upto(20);
    if (choice == 0) {  // a list, of any moment
      const uint64_t version = 1 + upto(length);
      const uint64_t before = store.version();
      // Not so far ahead that nothing is left to watch.
      if (version > before + 40) continue;
      std::vector<ObjectPtr> objects;
      for (const auto& [name, object] : states[version]) objects.push_back(object);
      const absl::Status status = store.Replace(objects, version, false, changes, bad);
      ASSERT_EQ(status.ok(), version >= before);
      if (status.ok()) next = version;
    } else if (choice == 1) {  // the watch begins again, from a little before
      next -= std::min<uint64_t>(next, upto(10));
    } else {
      const Event& event = events[choice == 2 ? upto(next + 1) : next++];
      store.Apply(event.type, event.object, changes);
    }
    follow();
    if (HasFatalFailure()) return;
    if (next == length) break;
  }
  ASSERT_EQ(store.version(), static_cast<uint64_t>(length));
  ASSERT_EQ(told.size(), states[length].size());
  for (const auto& [name, object] : states[length]) ASSERT_EQ(told.at(name), object);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Histories, testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace tf::kube
