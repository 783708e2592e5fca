#include "process_node/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tf::process_node {
namespace {

using kube::Json;
using kube::ObjectPtr;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Json Parse(std::string_view text) {
  absl::StatusOr<Json> json = kube::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Json();
}

TEST(Expand, AsTheKubelet) {
  const Variables variables = {{"A", "x"}, {"EMPTY", ""}};
  for (const auto& [text, expanded] :
       {std::pair("$(A)", "x"), std::pair("a$(A)b$(A)", "axbx"), std::pair("$(B)", "$(B)"), std::pair("$$(A)", "$(A)"),
        std::pair("$$$(A)", "$x"), std::pair("$A", "$A"), std::pair("$", "$"), std::pair("$(A", "$(A"),
        std::pair("[$(EMPTY)]", "[]"), std::pair("", ""), std::pair("$()", "$()")}) {
    EXPECT_EQ(Expand(text, variables), expanded) << text;
  }
}

TEST(ParseQuantity, Table) {
  EXPECT_EQ(ParseQuantity("1"), 1);
  EXPECT_EQ(ParseQuantity("100m"), 0.1);
  EXPECT_EQ(ParseQuantity("1.5Gi"), 1.5 * (1 << 30));
  EXPECT_EQ(ParseQuantity("2k"), 2000);
  EXPECT_EQ(ParseQuantity("1e3"), 1000);
  for (const char* text : {"", "x", "1x", "Gi", "1 Gi"}) EXPECT_EQ(ParseQuantity(text), std::nullopt) << text;
}

class EnvironmentTest : public testing::Test {
 protected:
  absl::StatusOr<Variables> Env(std::string_view container, Variables first = {}) {
    const Json spec = Parse(container);
    return ContainerEnvironment(
        pod_, spec, "127.9.0.1", node_,
        [this](std::string_view kind, const std::string& name) {
          const auto at = objects_.find(std::string(kind) + "/" + name);
          return at == objects_.end() ? nullptr : at->second;
        },
        std::move(first));
  }
  void Have(const std::string& kind, const std::string& name, const std::string& rest) {
    objects_[kind + "/" + name] = std::make_shared<const Json>(Parse(R"({"kind":")" + kind + "\"," + rest + "}"));
  }
  Json pod_ = Parse(R"({"metadata":{"name":"p","namespace":"n","uid":"u","labels":{"b":"2","a":"1\"q"},
      "annotations":{"k/x.y":"v"}},"spec":{"nodeName":"node-0","containers":[{"name":"c","resources":{"limits":{"cpu":"1500m"}}}]}})");
  NodeFacts node_{"node-0", "127.0.0.1", 4000, int64_t{8} << 30};
  std::map<std::string, ObjectPtr> objects_;
};

TEST_F(EnvironmentTest, ValuesNameThoseBefore) {
  const char kThree[] =
      R"j({"env":[{"name":"A","value":"$(P)/a"},{"name":"B","value":"$(A)$(C)"},{"name":"C","value":"c"}]})j";
  EXPECT_THAT(*Env(kThree, {{"P", "p"}}),
              ElementsAre(Pair("P", "p"), Pair("A", "p/a"), Pair("B", "p/a$(C)"), Pair("C", "c")));
  EXPECT_THAT(*Env(R"({"env":[{"name":"P","value":"mine"}]})", {{"P", "p"}}), ElementsAre(Pair("P", "mine")));
}

TEST_F(EnvironmentTest, Fields) {
  EXPECT_THAT(
      *Env(R"({"env":[
      {"name":"A","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},
      {"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['k/x.y']"}}},
      {"name":"C","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}},
      {"name":"D","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels"}}},
      {"name":"E","valueFrom":{"fieldRef":{"fieldPath":"spec.serviceAccountName"}}},
      {"name":"F","valueFrom":{"resourceFieldRef":{"containerName":"c","resource":"limits.cpu"}}},
      {"name":"G","valueFrom":{"resourceFieldRef":{"resource":"limits.memory","divisor":"1Mi"}}},
      {"name":"H","valueFrom":{"resourceFieldRef":{"containerName":"c","resource":"requests.cpu","divisor":"1m"}}}]})"),
      ElementsAre(Pair("A", "127.9.0.1"), Pair("B", "v"), Pair("C", "node-0"), Pair("D", "a=\"1\\\"q\"\nb=\"2\""),
                  Pair("E", "default"), Pair("F", "2"), Pair("G", "8192"), Pair("H", "1500")));
}

TEST_F(EnvironmentTest, SecretsAndConfigMaps) {
  Have("Secret", "s", R"("data":{"k":"aGVsbG8="})");
  Have("ConfigMap", "c", R"("data":{"k":"v","bad name":"x"},"binaryData":{"b":"AAE="})");
  EXPECT_THAT(
      *Env(R"({"envFrom":[{"prefix":"P_","configMapRef":{"name":"c"}},{"secretRef":{"name":"gone","optional":true}}],
      "env":[{"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}},
             {"name":"N","valueFrom":{"secretKeyRef":{"name":"s","key":"other","optional":true}}},
             {"name":"M","valueFrom":{"configMapKeyRef":{"name":"gone","key":"k","optional":true}}}]})"),
      ElementsAre(Pair("P_b", std::string("\0\1", 2)), Pair("P_k", "v"), Pair("S", "hello")));
  EXPECT_EQ(Env(R"({"env":[{"name":"S","valueFrom":{"secretKeyRef":{"name":"gone","key":"k"}}}]})").status().message(),
            "secret \"gone\" not found");
  EXPECT_EQ(Env(R"({"env":[{"name":"S","valueFrom":{"configMapKeyRef":{"name":"c","key":"no"}}}]})").status().message(),
            "couldn't find key no in ConfigMap n/c");
  EXPECT_EQ(Env(R"({"envFrom":[{"configMapRef":{"name":"gone"}}]})").status().message(),
            "configmap \"gone\" not found");
  EXPECT_THAT(Env(R"({"env":[{"name":"S","valueFrom":{"fieldRef":{"fieldPath":"spec.nothing"}}}]})").status().message(),
              HasSubstr("unsupported fieldPath"));
}

}  // namespace
}  // namespace tf::process_node
