// How each part of the control plane is called: its arguments and the files that it reads.
//
// Pure functions of the layout: where the data folder is and which ports were chosen. What is set here and why is told
// at each flag; what is not set is the part's default.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tf::standalone {

// Services get addresses of this range; the first one is the API server's.
inline constexpr char kServiceRange[] = "10.96.0.0/16";
inline constexpr char kServiceAddress[] = "10.96.0.1";

struct Layout {
  std::string folder = {};  // the data folder, absolute
  uint16_t api_server_port = 0;
  uint16_t controller_manager_port = 0;
  uint16_t scheduler_port = 0;
  bool fsync = true;  // false: a crash of the machine may lose data. For tests.
  std::vector<std::string> api_server_flags = {};
  std::string scheduler_extender = {};  // its URL; "": there is none

  std::string Credential(const std::string& file) const { return folder + "/credentials/" + file; }
  std::string Run(const std::string& file) const { return folder + "/run/" + file; }
  std::string Log(const std::string& part) const { return folder + "/logs/" + part + ".log"; }
  std::string Server() const { return "https://127.0.0.1:" + std::to_string(api_server_port); }
};

// etcd listens on sockets in run/ and on no port: whoever may not enter the data folder does not reach it. All parts
// run in that folder and name the sockets without it, for a socket's path may not be long. The names look like
// addresses because etcd insists.
inline constexpr char kStoreSocket[] = "etcd:2379";

// Without the name of the command.
std::vector<std::string> EtcdArguments(const Layout& layout);
std::vector<std::string> ApiServerArguments(const Layout& layout);
std::vector<std::string> ControllerManagerArguments(const Layout& layout);
std::vector<std::string> SchedulerArguments(const Layout& layout);

// The file that SchedulerArguments names.
inline constexpr char kSchedulerConfigFile[] = "scheduler.yaml";
std::string SchedulerConfig(const Layout& layout);

// The kubeconfig files in run/ that the arguments name.
inline constexpr char kControllerManagerKubeconfig[] = "controller-manager.kubeconfig";
inline constexpr char kSchedulerKubeconfig[] = "scheduler.kubeconfig";
inline constexpr char kProcessNodeKubeconfig[] = "process-node.kubeconfig";

}  // namespace tf::standalone
