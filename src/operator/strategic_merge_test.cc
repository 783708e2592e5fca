#include "operator/strategic_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

namespace tf::operators {
namespace {

using kube::Json;
using ::testing::HasSubstr;

Json Parse(std::string_view text) {
  absl::StatusOr<Json> json = kube::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status() << text;
  return json.ok() ? *json : Json();
}

std::string Merged(std::string_view base, std::string_view patch, MergeType type = MergeType::kContainer) {
  absl::StatusOr<Json> merged = StrategicMerge(Parse(base), Parse(patch), type);
  return merged.ok() ? boost::json::serialize(*merged) : std::string(merged.status().message());
}

struct Case {
  const char* name;
  MergeType type;
  const char* base;
  const char* patch;
  const char* expected;
};

class Merge : public ::testing::TestWithParam<Case> {};

TEST_P(Merge, Gives) {
  const Case& c = GetParam();
  absl::StatusOr<Json> merged = StrategicMerge(Parse(c.base), Parse(c.patch), c.type);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(*merged, Parse(c.expected)) << boost::json::serialize(*merged);
}

constexpr MergeType kPod = MergeType::kPodSpec, kOne = MergeType::kContainer, kTemplate = MergeType::kPodTemplateSpec;

INSTANTIATE_TEST_SUITE_P(
    Table, Merge,
    ::testing::Values(
        Case{"nothing", kPod, R"({"a":1})", R"({})", R"({"a":1})"},
        Case{"scalars", kPod, R"({"a":1,"b":{"c":2}})", R"({"a":3,"b":{"d":4}})", R"({"a":3,"b":{"c":2,"d":4}})"},
        Case{"null_removes", kPod, R"({"a":1,"b":2})", R"({"a":null,"z":null})", R"({"b":2})"},
        Case{"containers_by_name", kPod, R"({"containers":[{"name":"w","image":"i","args":["1"]},{"name":"s"}]})",
             R"({"containers":[{"name":"n"},{"name":"w","args":["2","3"]}]})",
             R"({"containers":[{"name":"w","image":"i","args":["2","3"]},{"name":"s"},{"name":"n"}]})"},
        Case{"init_containers_by_name", kPod, R"({"initContainers":[{"name":"a","image":"1"}]})",
             R"({"initContainers":[{"name":"a","image":"2"}]})", R"({"initContainers":[{"name":"a","image":"2"}]})"},
        Case{"env_by_name", kOne, R"({"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]})",
             R"({"env":[{"name":"C","value":"3"},{"name":"A","value":"4"}]})",
             R"({"env":[{"name":"A","value":"4"},{"name":"B","value":"2"},{"name":"C","value":"3"}]})"},
        Case{"value_displaces_value_from", kOne,
             R"({"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}},{"name":"B","value":"1"}]})",
             R"({"env":[{"name":"A","value":"4"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"x"}}}]})",
             R"({"env":[{"name":"A","value":"4"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"x"}}}]})"},
        Case{
            "volumes_by_name", kPod, R"({"volumes":[{"name":"d","emptyDir":{"medium":"Memory"}}]})",
            R"({"volumes":[{"name":"d","emptyDir":{"sizeLimit":"1Gi"}},{"name":"e","emptyDir":{}}]})",
            R"({"volumes":[{"name":"d","emptyDir":{"medium":"Memory","sizeLimit":"1Gi"}},{"name":"e","emptyDir":{}}]})"},
        Case{"volume_source_displaces", kPod, R"({"volumes":[{"name":"d","emptyDir":{}}]})",
             R"({"volumes":[{"name":"d","hostPath":{"path":"/x"}}]})",
             R"({"volumes":[{"name":"d","hostPath":{"path":"/x"}}]})"},
        Case{"mounts_by_path", kOne, R"({"volumeMounts":[{"name":"a","mountPath":"/x","readOnly":true}]})",
             R"({"volumeMounts":[{"name":"b","mountPath":"/x"},{"name":"b","mountPath":"/y"}]})",
             R"({"volumeMounts":[{"name":"b","mountPath":"/x","readOnly":true},{"name":"b","mountPath":"/y"}]})"},
        Case{"ports_by_number_and_protocol", kOne, R"({"ports":[{"containerPort":80,"name":"a"}]})",
             R"({"ports":[{"containerPort":80,"protocol":"UDP"},{"containerPort":80,"protocol":"TCP","name":"b"}]})",
             R"({"ports":[{"containerPort":80,"name":"b","protocol":"TCP"},{"containerPort":80,"protocol":"UDP"}]})"},
        Case{"probe_handler_displaces", kOne, R"({"readinessProbe":{"tcpSocket":{"port":1},"periodSeconds":2}})",
             R"({"readinessProbe":{"exec":{"command":["a"]}}})",
             R"({"readinessProbe":{"periodSeconds":2,"exec":{"command":["a"]}}})"},
        Case{"hook_handler_displaces", kOne, R"({"lifecycle":{"preStop":{"exec":{"command":["a"]}}}})",
             R"({"lifecycle":{"preStop":{"sleep":{"seconds":1}}}})",
             R"({"lifecycle":{"preStop":{"sleep":{"seconds":1}}}})"},
        Case{"other_lists_are_replaced", kOne, R"({"command":["a"],"envFrom":[{"prefix":"x"}]})",
             R"({"command":["b","c"],"envFrom":[{"prefix":"y"}]})",
             R"({"command":["b","c"],"envFrom":[{"prefix":"y"}]})"},
        Case{"tolerations_are_appended_once", kPod, R"({"tolerations":[{"key":"a"}]})",
             R"({"tolerations":[{"key":"b"},{"key":"a"}]})", R"({"tolerations":[{"key":"a"},{"key":"b"}]})"},
        Case{"metadata", kTemplate, R"({"metadata":{"labels":{"a":"1"},"finalizers":["x"]}})",
             R"({"metadata":{"labels":{"a":"2","b":"3"},"finalizers":["y"]},"spec":{"nodeName":"n"}})",
             R"({"metadata":{"labels":{"a":"2","b":"3"},"finalizers":["x","y"]},"spec":{"nodeName":"n"}})"},
        Case{"delete_element", kPod, R"({"containers":[{"name":"a"},{"name":"b"}]})",
             R"({"containers":[{"name":"a","$patch":"delete"},{"name":"z","$patch":"delete"}]})",
             R"({"containers":[{"name":"b"}]})"},
        Case{"replace_element", kPod, R"({"containers":[{"name":"a","image":"i"}]})",
             R"({"containers":[{"name":"a","$patch":"replace","args":["x"]}]})",
             R"({"containers":[{"name":"a","args":["x"]}]})"},
        Case{"replace_list", kPod, R"({"containers":[{"name":"a","image":"i"},{"name":"b"}]})",
             R"({"containers":[{"$patch":"replace"},{"name":"a","image":"j"}]})",
             R"({"containers":[{"name":"a","image":"j"}]})"},
        Case{"replace_object", kPod, R"({"nodeSelector":{"a":"1"}})",
             R"({"nodeSelector":{"$patch":"replace","b":"2"}})", R"({"nodeSelector":{"b":"2"}})"},
        Case{"delete_object", kPod, R"({"securityContext":{"runAsUser":1}})",
             R"({"securityContext":{"$patch":"delete"}})", R"({"securityContext":{}})"},
        Case{"merge_is_no_directive", kPod, R"({"nodeSelector":{"a":"1"}})",
             R"({"nodeSelector":{"$patch":"merge","b":"2"}})", R"({"nodeSelector":{"a":"1","b":"2"}})"},
        Case{"directives_in_what_is_new", kPod, R"({})",
             R"({"containers":[{"name":"a","env":[{"name":"X","$patch":"delete"},{"name":"Y"}],"image":null}]})",
             R"({"containers":[{"name":"a","env":[{"name":"Y"}]}]})"}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

TEST(StrategicMerge, SaysWhereSomethingIsWrong) {
  EXPECT_THAT(Merged(R"({})", R"({"containers":[{"name":"a"},{"image":"x"}]})", MergeType::kPodSpec),
              HasSubstr("containers[1]: an element of this list needs a \"name\""));
  EXPECT_THAT(Merged(R"({})", R"({"env":["A=1"]})"), HasSubstr("env[0]: expected an object"));
  EXPECT_THAT(Merged(R"({})", R"({"lifecycle":{"$patch":"merg"}})"),
              HasSubstr("lifecycle.$patch: expected \"merge\", \"replace\" or \"delete\""));
  absl::StatusOr<Json> merged =
      StrategicMerge(Parse("{}"), Parse("[]"), MergeType::kPodTemplateSpec, "spec.workerPodTemplate");
  EXPECT_THAT(merged.status().message(), HasSubstr("spec.workerPodTemplate: expected an object"));
}

TEST(StrategicMerge, SaysWhichDirectiveItDoesNotKnow) {
  absl::StatusOr<Json> merged = StrategicMerge(
      Parse("{}"), Parse(R"({"containers":[{"name":"a","$setElementOrder/env":[]}]})"), MergeType::kPodSpec);
  EXPECT_EQ(merged.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(merged.status().message(), HasSubstr("containers[0]: the directive \"$setElementOrder/env\""));
}

TEST(StrategicMerge, LeavesItsArgumentsAlone) {
  const Json base = Parse(R"({"containers":[{"name":"a"}]})"), patch = Parse(R"({"containers":[{"name":"a","x":1}]})");
  ASSERT_TRUE(StrategicMerge(base, patch, MergeType::kPodSpec).ok());
  EXPECT_EQ(base, Parse(R"({"containers":[{"name":"a"}]})"));
}

}  // namespace
}  // namespace tf::operators
