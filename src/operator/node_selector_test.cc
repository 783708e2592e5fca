#include "operator/node_selector.h"

#include <boost/json/parse.hpp>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tf::operators {
namespace {

api::GPUPool Pool(const std::string& name, const std::string& manager, const std::string& created = "") {
  kube::Json json = boost::json::parse(
      absl::StrCat(R"({"metadata":{"name":")", name, R"("},"spec":{"nodeManagerConfig":)", manager, "}}"));
  if (!created.empty()) kube::EnsureField(json, "metadata.creationTimestamp") = created;
  auto pool = api::FromJson<api::GPUPool>(json);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *pool;
}

std::string Select(const std::string& terms) {
  return absl::StrCat(R"({"nodeSelector":{"nodeSelectorTerms":)", terms, "}}");
}

const NodeFacts kNode{.name = "gpu-1", .labels = {{"zone", "a"}, {"cards", "8"}, {"broken", "eight"}, {"empty", ""}}};

struct Case {
  const char* terms;
  bool matches;
};

TEST(NodeSelectorTest, ReadsAsInKubernetes) {
  const Case cases[] = {
      {R"([])", false},
      {R"([{}])", false},
      {R"([{"matchExpressions":[],"matchFields":[]}])", false},
      {R"([{"matchExpressions":[{"key":"zone","operator":"In","values":["b","a"]}]}])", true},
      {R"([{"matchExpressions":[{"key":"zone","operator":"In","values":["b"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"zone","operator":"In","values":[]}]}])", false},
      {R"([{"matchExpressions":[{"key":"none","operator":"In","values":[""]}]}])", false},
      {R"([{"matchExpressions":[{"key":"empty","operator":"In","values":[""]}]}])", true},
      {R"([{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["b"]}]}])", true},
      {R"([{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"none","operator":"NotIn","values":["a"]}]}])", true},
      {R"([{"matchExpressions":[{"key":"empty","operator":"Exists"}]}])", true},
      {R"([{"matchExpressions":[{"key":"none","operator":"Exists"}]}])", false},
      {R"([{"matchExpressions":[{"key":"none","operator":"DoesNotExist"}]}])", true},
      {R"([{"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}]}])", false},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Gt","values":["7"]}]}])", true},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Gt","values":["8"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Lt","values":["9"]}]}])", true},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Lt","values":["8"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Gt","values":["many"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Gt","values":["1","2"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"cards","operator":"Gt"}]}])", false},
      {R"([{"matchExpressions":[{"key":"broken","operator":"Gt","values":["1"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"none","operator":"Lt","values":["1"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"zone","operator":"Near","values":["a"]}]}])", false},
      {R"([{"matchExpressions":[{"key":"zone"}]}])", false},
      // All requirements of a term, any of the terms.
      {R"([{"matchExpressions":[{"key":"zone","operator":"Exists"},{"key":"none","operator":"Exists"}]}])", false},
      {R"([{"matchExpressions":[{"key":"none","operator":"Exists"}]},{"matchExpressions":[{"key":"zone","operator":"Exists"}]}])",
       true},
      // Fields.
      {R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["gpu-1"]}]}])", true},
      {R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["gpu-2"]}]}])", false},
      {R"([{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["gpu-2"]}]}])", true},
      {R"([{"matchFields":[{"key":"metadata.name","operator":"Exists"}]}])", false},
      {R"([{"matchFields":[{"key":"spec.unschedulable","operator":"NotIn","values":["true"]}]}])", false},
      {R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["gpu-1"]}],)"
       R"("matchExpressions":[{"key":"none","operator":"Exists"}]}])",
       false},
  };
  for (const Case& one : cases) {
    const api::GPUPool pool = Pool("p", Select(one.terms));
    EXPECT_EQ(Matches(*pool.spec.nodeManagerConfig.nodeSelector, kNode), one.matches) << one.terms;
  }
}

constexpr char kAll[] = R"([{"matchExpressions":[{"key":"zone","operator":"Exists"}]}])";
constexpr char kNone[] = R"([{"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}]}])";

std::optional<std::string> Vendor(const std::string& manager) {
  return VendorFor(Pool("p", manager).spec.nodeManagerConfig, kNode);
}

TEST(NodeSelectorTest, SelectorsByVendorDecideAloneWhereThereAreAny) {
  EXPECT_EQ(Vendor("{}"), std::nullopt);
  EXPECT_EQ(Vendor(Select(kAll)), "NVIDIA");
  EXPECT_EQ(Vendor(Select(kNone)), std::nullopt);
  EXPECT_EQ(Vendor(absl::StrCat(R"({"defaultVendor":"AMD","nodeSelector":{"nodeSelectorTerms":)", kAll, "}}")), "AMD");
  const auto by_vendor = [](const char* amd, const char* nvidia) {
    return absl::StrCat(R"({"nodeSelector":{"nodeSelectorTerms":)", kAll, R"(},"multiVendorNodeSelector":{)",
                        R"("NVIDIA":{"nodeSelectorTerms":)", nvidia, R"(},"AMD":{"nodeSelectorTerms":)", amd, "}}}");
  };
  EXPECT_EQ(Vendor(by_vendor(kNone, kAll)), "NVIDIA");
  EXPECT_EQ(Vendor(by_vendor(kAll, kAll)), "AMD");
  EXPECT_EQ(Vendor(by_vendor(kNone, kNone)), std::nullopt);
}

std::string Chosen(const std::vector<api::GPUPool>& pools, std::string_view current = "") {
  const std::optional<PoolChoice> choice = ChoosePool(pools, kNode, current);
  return choice ? choice->pool : "none";
}

TEST(NodeSelectorTest, TheOldestPoolThatMatchesGetsTheNodeAndKeepsIt) {
  const api::GPUPool old = Pool("z-old", Select(kAll), "2026-01-01T00:00:00Z");
  const api::GPUPool young = Pool("a-young", Select(kAll), "2026-02-01T00:00:00Z");
  const api::GPUPool twin = Pool("b-young", Select(kAll), "2026-02-01T00:00:00Z");
  const api::GPUPool other = Pool("other", Select(kNone), "2025-01-01T00:00:00Z");
  EXPECT_EQ(Chosen({}), "none");
  EXPECT_EQ(Chosen({other}), "none");
  EXPECT_EQ(Chosen({young, other, old, twin}), "z-old");
  EXPECT_EQ(Chosen({twin, young}), "a-young");
  EXPECT_EQ(Chosen({young, twin}), "a-young");
  // Who has it keeps it, as long as it matches and lives.
  EXPECT_EQ(Chosen({young, old, twin}, "b-young"), "b-young");
  EXPECT_EQ(Chosen({young, old, other}, "other"), "z-old");
  EXPECT_EQ(Chosen({young, old}, "gone"), "z-old");
  api::GPUPool ending = old;
  ending.metadata.deletionTimestamp = *api::Time::Parse("2026-03-01T00:00:00Z");
  EXPECT_EQ(Chosen({young, ending}), "a-young");
  EXPECT_EQ(Chosen({ending}, "z-old"), "none");
}

TEST(NodeSelectorTest, FactsComeFromTheNode) {
  const NodeFacts facts = FactsOf(boost::json::parse(R"({"metadata":{"name":"n","labels":{"a":"b","broken":7}}})"));
  EXPECT_EQ(facts.name, "n");
  EXPECT_EQ(facts.labels, (std::map<std::string, std::string>{{"a", "b"}}));
  EXPECT_TRUE(FactsOf(boost::json::parse("{}")).labels.empty());
}

}  // namespace
}  // namespace tf::operators
