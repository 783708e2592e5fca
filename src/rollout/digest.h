// What of a component's configuration needs a restart, in a form that is the same for all ways to write it, and a
// digest of that.
//
// The same text comes out whatever the order of an object's members, with and without null members, empty lists,
// `creationTimestamp`, `status` and empty labels and annotations, with and without the defaults that the API server
// writes into a pod template or that our own schema has, for any spelling of an amount in resources (`1`, "1",
// "1000m"), and for any order of lists that are maps or sets in meaning: volumes, volumeMounts, volumeDevices, ports,
// tolerations, imagePullSecrets, topologySpreadConstraints, added and dropped capabilities; and env, unless a name
// occurs twice or a value refers to another variable with $(NAME): then its order means something and stays. The order
// of containers, commands, arguments, envFrom and every other list stays. What is not known is kept as it is: an
// unneeded restart is better than a change that does not arrive. Pure functions.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace tf::rollout {

// A core/v1 PodTemplateSpec, {metadata, spec}; metadata counts with its labels and annotations only.
boost::json::value CanonicalPodTemplate(const boost::json::value& pod_template);

// A block of spec.componentConfig (worker, hypervisor, client): its `podTemplate` as above, patches to pods and
// containers with what they have in common with these, and its own defaults.
boost::json::value CanonicalComponent(const boost::json::value& block);

// As one line of JSON: members by name, no blanks, numbers that are whole without a fraction.
std::string CanonicalText(const boost::json::value& value);

// SHA-256, its first 16 hexadecimal digits: fit for a label and a name. Equal digests of different texts are possible
// by intent: compare the texts.
std::string Digest(std::string_view text);

}  // namespace tf::rollout
