// What client-go's shared informer costs for the same work as kube_informer_bench: a cache of pods trimmed to the same
// fields, with the same index, and EVENTS changes through a work queue to a reconcile that does nothing.
//
//	clientgo PORT EVENTS          of kube_bench_server
//
// The server speaks JSON only, as an API server does for custom resources; client-go's typed decoder reads it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func residentMegabytes() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	var pages, resident int64
	fmt.Sscan(string(text), &pages, &resident)
	return float64(resident*int64(os.Getpagesize())) / 1e6
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// The fields that kube_informer_bench keeps.
func trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	return kept, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: clientgo PORT EVENTS")
		os.Exit(2)
	}
	server := "http://127.0.0.1:" + os.Args[1]
	events, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server, QPS: -1})
	if err != nil {
		panic(err)
	}
	_, _ = client.CoreV1().Nodes().Get(context.Background(), "none", metav1.GetOptions{})
	before := residentMegabytes()

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	informer := factory.Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}}); err != nil {
		panic(err)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	var updates atomic.Int64
	done := make(chan struct{})
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add,
		UpdateFunc: func(_, object any) {
			add(object)
			if updates.Add(1) == events {
				close(done)
			}
		},
	}); err != nil {
		panic(err)
	}
	reconciles := 0
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for {
			key, shutdown := queue.Get()
			if shutdown {
				return
			}
			if _, exists, err := informer.GetIndexer().GetByKey(key); err == nil && exists {
				reconciles++
			}
			queue.Forget(key)
			queue.Done(key)
		}
	}()
	stop := make(chan struct{})
	start := time.Now()
	factory.Start(stop)
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		panic("not synced")
	}
	syncSeconds := time.Since(start).Seconds()
	syncCPU := cpuSeconds()
	memory := residentMegabytes() - before

	cpuBefore := cpuSeconds()
	began := time.Now()
	if _, err := http.Get(fmt.Sprintf("%s/bench/start?events=%d", server, events)); err != nil {
		panic(err)
	}
	<-done
	queue.ShutDownWithDrain()
	cpu := cpuSeconds() - cpuBefore
	seconds := time.Since(began).Seconds()
	<-finished
	fmt.Printf("objects %d\nmemory_mb %g\nsync_seconds %g\nsync_cpu_seconds %g\nevents_per_second %g\n"+
		"events_per_cpu_second %g\nreconciles %d\nmemory_after_mb %g\n",
		len(informer.GetIndexer().ListKeys()), memory, syncSeconds, syncCPU, float64(events)/seconds,
		float64(events)/cpu, reconciles, residentMegabytes()-before)
}
