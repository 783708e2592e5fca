// Command tensor-fusion-controlplane is a whole Kubernetes control plane in one file: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy and kubectl as released, chosen by the first argument
//
//	tensor-fusion-controlplane kube-apiserver --help
//
// or by the name that the program was called with (a link named kubectl is kubectl). It is glue and nothing else: what
// the parts do, and their versions, come from the modules pinned in go.mod and go.sum.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// commands makes the commands, each only when it is the chosen one: their constructors install signal handlers and
// feature gates for the whole process, and a second one in the same process panics.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              kubeproxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

const usage = "usage: tensor-fusion-controlplane " +
	"etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|kubectl [argument ...]"

func main() {
	name := filepath.Base(os.Args[0])
	if !run(name) {
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, usage)
			os.Exit(2)
		}
		// From here on the program looks to its command as if it had been called by the command's name.
		os.Args = os.Args[1:]
		if !run(os.Args[0]) {
			fmt.Fprintf(os.Stderr, "no command %q in here; %s\n", os.Args[0], usage)
			os.Exit(2)
		}
	}
}

// run runs the command of that name to its end and exits with its status; it returns only when there is no such command.
func run(name string) bool {
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		os.Exit(0)
	case "kubectl":
		// kubectl says its errors in its own words, so it does not go through the common runner's logging of them.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		os.Exit(0)
	}
	command, ok := commands[name]
	if !ok {
		return false
	}
	os.Exit(cli.Run(command()))
	return true
}
